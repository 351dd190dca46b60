// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, memory regions and memory windows. Memory that a peer reads or writes, or
// that a scatter/gather entry names, must be registered first. Registration checks that every page
// is mapped with the needed permission. An access to a page that is unmapped later ends in an error
// completion: weft handles the SIGSEGV or SIGBUS that it raises, so the thread must not block them
// (docs/internals/memory.md).
#pragma once

#include <cstddef>
#include <memory>

#include "weft/ah.hpp"
#include "weft/device.hpp"
#include "weft/types.hpp"

namespace weft {

namespace verbs {
class Region;
class Window;
class Domain;
}  // namespace verbs

class QueuePair;
struct QueuePairOptions;
class SharedReceiveQueue;
struct SharedReceiveQueueOptions;

// A registered range of this process's memory. Copies name the same region. Destroying the last
// copy deregisters it and returns only when no packet in flight can touch the memory any more. It
// also unbinds the windows bound to the region (on `ibverbs` such a window is unusable afterwards:
// create a new one). Any thread.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  // The first byte; for a dma-buf see ProtectionDomain::register_dmabuf().
  void* address() const noexcept;
  // Bytes.
  size_t size() const noexcept;
  // The key for local scatter/gather entries.
  LKey lkey() const noexcept { return lkey_; }
  // The key that a peer needs to read or write the region.
  RKey rkey() const noexcept { return rkey_; }
  // A scatter/gather entry for a part of the region: `offset` and `length` in bytes, not checked
  // here.
  struct Sge sge(size_t offset, uint32_t length) const noexcept;

  // For providers.
  const std::shared_ptr<verbs::Region>& impl() const noexcept { return region_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Region> region_;
  LKey lkey_;
  RKey rkey_;
};

// Types of memory windows (IBTA 10.6.6.2).
// - Type 1 may be bound again while it is bound, each time under a new key that the device chooses.
//   Peers reach it through every queue pair of its protection domain.
// - Type 2: the program chooses the lower 8 bits of each key, different from those of the key
//   before. Peers reach it only through the queue pair that bound it. It must be invalidated before
//   it is bound again: by a peer's SEND with invalidate, by local_invalidate, or by RESET or
//   destruction of the queue pair.
enum class WindowType : uint8_t { one = 1, two = 2 };

// A memory window: remote access to a part of a region, with rights and an rkey of its own. It is
// bound by a request in a send queue (Opcode::bind_window, WindowBind in wr.hpp), without a system
// call. Only 8 bits of the key change, so keys repeat after some bindings: create a new window
// where a peer must not be able to guess the key. On `ibverbs`, create a new window after a binding
// that failed or was flushed. Copies name the same window, which is freed with the last. Any
// thread.
class MemoryWindow {
 public:
  MemoryWindow() = default;
  // The type it was created with.
  WindowType type() const noexcept { return type_; }
  // The key of the binding posted last. Before the first binding: a key that grants no access.
  RKey rkey() const noexcept;
  // Type 2: a key for the next binding, for SendRequest::rkey.
  RKey next_key() const noexcept;
  // The upper 24 bits of all its keys, unique on this device.
  uint32_t number() const noexcept { return number_; }

  // For providers.
  const std::shared_ptr<verbs::Window>& impl() const noexcept { return window_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Window> window_;
  WindowType type_ = WindowType::one;
  uint32_t number_ = 0;
};

// A protection domain: queue pairs may use regions, windows and shared receive queues of their own
// domain only (IBTA 10.2.3). Copies name the same domain. Any thread.
class ProtectionDomain {
 public:
  // Registers `size` bytes at `address`. The caller owns the memory, which must outlive the region.
  // Errors: invalid_argument (remote_write or remote_atomic without local_write; zero_based, which
  // is for windows), permission_denied (a page is not mapped, or is read-only with local_write: the
  // message has its address), no_memory. See verbs: ibv_reg_mr.
  Result<MemoryRegion> register_memory(void* address, size_t size, Access access) const;

  // Registers `size` bytes of a dma-buf, from byte `offset` on, for example memory of a GPU. The
  // descriptor may be closed afterwards. Requests and peers address the first byte by `at`. With
  // `at` null they address it by MemoryRegion::address(): on `roce` and `srd` the address where the
  // buffer was mapped, which the program may use too; on `ibverbs` not an address of this process.
  // weft does not call DMA_BUF_IOCTL_SYNC: the memory must be coherent. Errors: not_supported
  // (DeviceAttributes::has_dmabuf is false; on `roce` and `srd` `at`, or a buffer that cannot be
  // mapped), invalid_argument (not a dma-buf, nor on those two a file; range beyond its end; on
  // those two an offset that is not a multiple of the page size; rights as register_memory()),
  // permission_denied. See verbs: ibv_reg_dmabuf_mr.
  Result<MemoryRegion> register_dmabuf(int fd, uint64_t offset, size_t size, Access access,
                                       void* at = nullptr) const;

  // Creates an unbound window on `engine` (cq.hpp), where queue pairs bind it. Errors:
  // not_supported (srd, or a device without windows), invalid_argument (no such engine), no_memory.
  Result<MemoryWindow> memory_window(WindowType type, uint32_t engine = 0) const;

  // An address handle of `path`: ah.hpp.
  AddressHandle address_handle(const AddressVector& path) const;

  // Creates a shared receive queue: srq.hpp. Errors: invalid_argument, not_supported (srd),
  // no_memory.
  Result<SharedReceiveQueue> shared_receive_queue(const SharedReceiveQueueOptions& options) const;

  // Creates a queue pair in RESET: qp.hpp. Errors: invalid_argument (the message names the option),
  // not_supported, no_memory (max_qp reached).
  Result<QueuePair> queue_pair(const QueuePairOptions& options) const;

  // The device that the domain belongs to.
  const Device& device() const noexcept;

 private:
  friend class Device;
  explicit ProtectionDomain(std::shared_ptr<verbs::Domain> domain) : domain_(std::move(domain)) {}
  static Result<MemoryRegion> handle_of(Result<std::shared_ptr<verbs::Region>> region);
  std::shared_ptr<verbs::Domain> domain_;
};

}  // namespace weft
