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
class Window;
class Domain;
}  // namespace verbs

class QueuePair;
struct QueuePairOptions;
class SharedReceiveQueue;
struct SharedReceiveQueueOptions;

// A registered range of this process's memory. Copies name the same one; it is deregistered when
// the last goes, which returns only when no packet in flight can touch the memory any more. A
// window that is bound to it shows nothing afterwards (on `ibverbs` the window is gone: make a new
// one).
class MemoryRegion {
 public:
  MemoryRegion() = default;
  void* address() const noexcept;
  size_t size() const noexcept;
  LKey lkey() const noexcept { return lkey_; }
  RKey rkey() const noexcept { return rkey_; }
  // An entry for a part of the region: `offset` and `length` in bytes, not checked here.
  struct Sge sge(size_t offset, uint32_t length) const noexcept;

  const std::shared_ptr<verbs::Region>& impl() const noexcept { return region_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Region> region_;
  LKey lkey_;
  RKey rkey_;
};

// Of type 1: bound again and again, each time under a new key that the device chooses; every queue
// pair of its domain takes requests for it. Of type 2: the program chooses the lower 8 bits of each
// key, others than those of the key before; only the queue pair that bound it takes requests for
// it; a peer's SEND, or local_invalidate, or the end (RESET) of the queue pair ends the binding,
// and must before there is another.
enum class WindowType : uint8_t { one = 1, two = 2 };

// A view of a part of a region for peers, with rights and a key of its own. Binding it takes one
// request in a send queue (Opcode::bind_window, WindowBind in wr.hpp) where registering memory
// takes a system call. With 8 bits to choose from, a key comes again after some bindings: make a
// new window when a peer must never guess. Copies name the same window; it is freed with the last.
// After a binding that failed or was flushed, make a new window on `ibverbs`.
class MemoryWindow {
 public:
  MemoryWindow() = default;
  WindowType type() const noexcept { return type_; }
  // The key of the binding that was posted last. Before the first: one that nothing can be done
  // with.
  RKey rkey() const noexcept;
  // Type 2: a key for the next binding, SendRequest::rkey.
  RKey next_key() const noexcept;
  // The upper 24 bits of all its keys, which are the window's alone on this device.
  uint32_t number() const noexcept { return number_; }

  const std::shared_ptr<verbs::Window>& impl() const noexcept { return window_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Window> window_;
  WindowType type_ = WindowType::one;
  uint32_t number_ = 0;
};

// Objects of one domain work together; those of different domains do not (IBTA 10.2.3).
class ProtectionDomain {
 public:
  // Registers `size` bytes at `address`; the memory stays the caller's and must outlive the region.
  // Errors: invalid_argument (remote_write or remote_atomic without local_write, zero_based, which
  // is for windows), permission_denied
  // (a page is not mapped, or read-only with local_write: the message gives its address).
  Result<MemoryRegion> register_memory(void* address, size_t size, Access access) const;

  // Registers `size` bytes of a dma-buf, from its byte `offset` on: memory of another device, or of
  // nobody's address space. The descriptor may be closed afterwards. Requests and peers name the
  // first byte by `at`; if that is null, by what MemoryRegion::address() says: a place where `roce`
  // and `srd` have mapped the buffer, which the program may use too; on `ibverbs` no place at all.
  // Nobody calls DMA_BUF_IOCTL_SYNC: the memory must be coherent. Any thread. Errors:
  // not_supported (DeviceAttributes::has_dmabuf; an exporter whose buffers cannot be mapped, or
  // `at`, on `roce` and `srd`), invalid_argument (no dma-buf, nor on those two a file;
  // beyond its end; on those two an offset that is no multiple of the page size; rights as
  // register_memory), permission_denied. Source: as ibv_reg_dmabuf_mr.
  Result<MemoryRegion> register_dmabuf(int fd, uint64_t offset, size_t size, Access access,
                                       void* at = nullptr) const;

  // A window that is not bound. `engine`: which engine of a device with several it is on (cq.hpp):
  // queue pairs there bind it and take requests for it. Errors: not_supported (srd, or a device
  // without windows), invalid_argument (no such engine), no_memory.
  Result<MemoryWindow> memory_window(WindowType type, uint32_t engine = 0) const;

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
  static Result<MemoryRegion> handle_of(Result<std::shared_ptr<verbs::Region>> region);
  std::shared_ptr<verbs::Domain> domain_;
};

}  // namespace weft
