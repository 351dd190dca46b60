// SPDX-License-Identifier: BSD-3-Clause
// fid_av: names of peers by number. The number is the fi_addr_t for both types of tables.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/adapters/fi/common/address.hpp"
#include "lib/adapters/fi/common/eq.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {

// Any thread.
struct Av final : fid_av {
  Av(Domain& parent, const fi_av_attr& attr, void* user_context) noexcept;

  // The number of a name, which is new or was inserted before. Throws std::bad_alloc.
  fi_addr_t insert(const Name& name);
  // Undoes one insert(). False: there is no such number.
  bool remove(fi_addr_t number) noexcept;
  std::optional<Name> at(fi_addr_t number) noexcept;
  // The number of an endpoint by its address and queue pair number.
  std::optional<fi_addr_t> find(const Gid& gid, QpNum queue) noexcept;
  // That of a name that was inserted as address and port, without a queue pair number.
  std::optional<fi_addr_t> find_port(const Gid& gid, uint16_t port) noexcept;
  // How often names have been inserted or removed: what endpoints keep of it may be out of date.
  uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

  Domain& domain;
  const fi_av_type type;
  Eq* eq = nullptr;    // bound for asynchronous insertions
  const bool reports;  // FI_EVENT
  std::atomic<int> users{0};

 private:
  struct Entry {
    Name name;
    int users = 0;  // 0: free
  };
  std::mutex lock_;
  std::vector<Entry> entries_;
  std::vector<fi_addr_t> free_;
  std::map<std::pair<Gid, uint64_t>, fi_addr_t> numbers_;  // by address, port and queue
  std::atomic<uint64_t> changes_{0};
};

}  // namespace weft::fi
