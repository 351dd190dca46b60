// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions. Memory that the peer reads or writes, or that a scatter/
// gather entry names, is registered first; the registration proves that every page is mapped with
// the needed permission. A page that is unmapped later gives an error completion, never a signal.
#pragma once

#include <cstddef>
#include <memory>

#include "weft/ah.hpp"
#include "weft/device.hpp"
#include "weft/types.hpp"

namespace weft {

namespace verbs {
class Region;
class Domain;
}  // namespace verbs

class QueuePair;
struct QueuePairOptions;
class SharedReceiveQueue;
struct SharedReceiveQueueOptions;

// A registered range of this process's memory. Move-only. Deregistration (the destructor) returns
// only when no packet in flight can touch the memory any more.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  void* address() const noexcept;
  size_t size() const noexcept;
  LKey lkey() const noexcept;
  RKey rkey() const noexcept;
  // An entry for a part of the region: `offset` and `length` in bytes, not checked here.
  struct Sge sge(size_t offset, uint32_t length) const noexcept;

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Region> region_;
};

// Objects of one domain work together; those of different domains do not (IBTA 10.2.3).
class ProtectionDomain {
 public:
  // Registers `size` bytes at `address`; the memory stays the caller's and must outlive the region.
  // Errors: invalid_argument (remote_write or remote_atomic without local_write), permission_denied
  // (a page is not mapped, or read-only with local_write: the message gives its address).
  Result<MemoryRegion> register_memory(void* address, size_t size, Access access) const;

  // See ah.hpp.
  AddressHandle address_handle(const AddressVector& path) const;

  // See srq.hpp. Errors: invalid_argument, not_supported (srd devices).
  Result<SharedReceiveQueue> shared_receive_queue(const SharedReceiveQueueOptions& options) const;

  // See qp.hpp.
  Result<QueuePair> queue_pair(const QueuePairOptions& options) const;

  const Device& device() const noexcept;

 private:
  friend class Device;
  explicit ProtectionDomain(std::shared_ptr<verbs::Domain> domain) : domain_(std::move(domain)) {}
  std::shared_ptr<verbs::Domain> domain_;
};

}  // namespace weft
