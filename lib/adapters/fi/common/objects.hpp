// SPDX-License-Identifier: BSD-3-Clause
// fid_fabric, fid_domain and fid_mr. Each counts what was opened under it: closing one that is in
// use is -FI_EBUSY.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "lib/adapters/fi/common/device.hpp"

namespace weft::fi {

// Counts users of an object.
class Users {
 public:
  void retain() noexcept { users_.fetch_add(1); }
  void release() noexcept { users_.fetch_sub(1); }
  bool in_use() const noexcept { return users_.load() != 0; }

 private:
  std::atomic<int> users_{0};
};

struct Fabric final : fid_fabric, Users {
  Fabric(std::shared_ptr<OpenDevice> opened, uint32_t version, void* user_context) noexcept;
  const std::shared_ptr<OpenDevice> device;
};

struct Cntr;

// A region that peers may use.
struct Region {
  uint64_t address;
  size_t length;
  uint64_t access;
  RKey rkey;
  uint64_t base;          // the address of what peers call 0
  Cntr* read = nullptr;   // bound to it, for READs of peers and atomics that fetch
  Cntr* write = nullptr;  // likewise for the others
};

// In keys of the provider: the region's side counts what peers do (FI_RMA_EVENT), and they tell it.
inline constexpr uint64_t kEventKey = uint64_t{1} << 63;

// Those of a domain by the key of libfabric, for what the program's side executes or answers
// itself. Any thread.
class Regions {
 public:
  // False: the key is in use. Throws std::bad_alloc.
  bool add(uint64_t key, const Region& region);
  void remove(uint64_t key) noexcept;
  std::optional<Region> find(uint64_t key) noexcept;
  // Binds a counter to a region; `remote` is FI_REMOTE_READ, FI_REMOTE_WRITE or both. Negative
  // codes.
  int bind(uint64_t key, Cntr& cntr, uint64_t remote) noexcept;
  // A peer has done what `remote` says: counts it at the region. False: it has no such access.
  bool count(uint64_t key, uint64_t remote) noexcept;
  // Owns no lock if no region of the key has the access and all of the bytes; else the region stays
  // as long as the lock is held, and `address` becomes that of the memory.
  std::unique_lock<std::mutex> hold(uint64_t key, uint64_t& address, size_t length,
                                    uint64_t access) noexcept;

 private:
  std::mutex lock_;
  std::unordered_map<uint64_t, Region> regions_;
};

struct Domain final : fid_domain, Users {
  Domain(Fabric& parent, const fi_info& info, void* user_context) noexcept;
  Fabric& fabric;
  const std::shared_ptr<OpenDevice> device;
  const int mr_mode;
  const bool has_user_keys;      // the program chooses keys of regions
  const bool has_offsets;        // remote addresses count from the beginning of the region
  const bool has_remote_events;  // FI_RMA_EVENT
  Regions regions;
  std::mutex atomics;  // held while one is executed
};

struct Mr final : fid_mr {
  Mr(Domain& parent, MemoryRegion registered, uint64_t key, void* user_context) noexcept;
  ~Mr();
  Mr(const Mr&) = delete;
  Mr& operator=(const Mr&) = delete;
  Domain& domain;
  const MemoryRegion region;
  bool is_listed = false;           // in Domain::regions
  std::array<Cntr*, 2> counters{};  // bound to it: of READs, of WRITEs
};

// fi_provider::fabric.
int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) noexcept;
// fi_ops_fabric::domain.
int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) noexcept;
// fi_ops_domain::poll_open.
int open_poll(fid_domain* domain, fi_poll_attr* attr, fid_poll** poll) noexcept;
// fi_ops_domain::mr.
fi_ops_mr& registration_ops() noexcept;

// Defined by msg/ and rdm/: fi_ops_fabric::passive_ep, fi_ops_domain::endpoint, srx_ctx, av_open
// and query_atomic.
int open_passive(fid_fabric* fabric, fi_info* info, fid_pep** pep, void* context) noexcept;
int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) noexcept;
int open_shared_receive(fid_domain* domain, fi_rx_attr* attr, fid_ep** srx, void* context) noexcept;
int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context) noexcept;
int query_atomic(fid_domain* domain, fi_datatype datatype, fi_op op, fi_atomic_attr* attr,
                 uint64_t flags) noexcept;

}  // namespace weft::fi
