// SPDX-License-Identifier: BSD-3-Clause
// fid_eq: events of connections and address vectors, and those that the program writes itself.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/adapters/fi/common/waitable.hpp"

namespace weft::fi {

struct Fabric;

// An event, as fi_eq_read() gives it: bytes of a structure, which may be followed by data.
struct EqEvent {
  uint32_t event = 0;
  std::vector<char> bytes;
  int error = 0;  // positive: bytes hold a fi_eq_err_entry, and after it its data
  // An info that was not read: freed with the event.
  fi_info* info = nullptr;
};

// Any thread.
struct Eq final : fid_eq, Waitable {
  Eq(Fabric& parent, const fi_eq_attr& attr, void* user_context) noexcept;
  ~Eq();
  Eq(const Eq&) = delete;
  Eq& operator=(const Eq&) = delete;

  // Appends an event, and wakes who sleeps.
  void push(EqEvent event) noexcept;
  // A connection event of `owner`, with connection data; `info`, of FI_CONNREQ, becomes the
  // event's.
  void push_connection(uint32_t event, ::fid* owner, fi_info* info, const void* data,
                       size_t length) noexcept;
  // An error of `owner`; `code` is positive.
  void push_error(::fid* owner, int code, const void* data, size_t length) noexcept;
  // The insertion of address `index` by an address vector has failed; `context` is the call's.
  void push_av_error(::fid* av, void* context, int code, size_t index) noexcept;
  // Forgets the events of an object that is closed.
  void forget(const ::fid* owner) noexcept;
  // As fi_eq_read, of what is there: makes no progress.
  ssize_t take(uint32_t* event, void* buffer, size_t length, uint64_t flags) noexcept;
  ssize_t take_error(fi_eq_err_entry& out, uint64_t flags) noexcept;
  int prepare_wait() noexcept;

  Fabric& fabric;
  std::unique_ptr<Progress> connections;  // those of msg/: their events come here

 private:
  std::mutex lock_;
  std::deque<EqEvent> events_;
  std::vector<char> error_data_;  // of the error read last
};

// fi_ops_fabric::eq_open.
int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context) noexcept;

}  // namespace weft::fi
