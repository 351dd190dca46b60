// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, memory regions and memory windows. Memory that a peer reads or writes, or
// that a scatter/gather entry names, must be registered first. Registration checks that every page
// is mapped with the needed permission. An access to a page that is unmapped later ends in an error
// completion: weft handles the SIGSEGV or SIGBUS that it raises, so the thread must not block them
// (docs/internals/memory.md).
//
// Addresses. Requests and peers name a byte of a region by an address that is usually that of the
// memory. register_memory_iova() gives the first byte any other address, and Access::zero_based
// gives it 0. Scatter/gather entries, remote addresses and bindings of windows all use these
// addresses; sge() does too. Atomics need an address and memory that both are multiples of 8.
//
// On demand. A region with Access::on_demand is registered without a look at its memory, parts of
// which may be mapped, unmapped and mapped again while it is registered (verbs: on-demand paging).
// The access of a request to a page that is not mapped then, or not writable, fails as for any
// region: a local one with local_protection_error, one of a peer with remote_access_error. Address
// null with size SIZE_MAX is the whole address space (verbs: the implicit region): a peer with its
// key reaches all memory of the process.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

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
  // The first byte in memory; for a dma-buf see ProtectionDomain::register_dmabuf().
  void* address() const noexcept;
  // Bytes.
  size_t size() const noexcept;
  // The address of the first byte in requests and for peers: that of the memory, unless it was
  // registered under another one.
  uint64_t iova() const noexcept;
  // The key for local scatter/gather entries.
  LKey lkey() const noexcept { return lkey_; }
  // The key that a peer needs to read or write the region.
  RKey rkey() const noexcept { return rkey_; }
  // A scatter/gather entry for a part of the region: `offset` and `length` in bytes, not checked
  // here.
  struct Sge sge(size_t offset, uint32_t length) const noexcept;

  // Changes what is set in `change`, for all copies of the handle. Requests in flight use the old
  // or the new registration; when this returns, nothing touches the old memory any more. On `roce`
  // and `srd` the keys stay; on `ibverbs` the device may change them, and copies of this handle
  // keep the old ones. Errors: as those of registration; busy (windows are bound to it),
  // not_supported (null regions; on `ibverbs` what the device cannot change). After an error the
  // region is as before, except on `ibverbs`, where it may be unusable: destroy it. See verbs:
  // ibv_rereg_mr.
  Result<void> reregister(const struct Reregistration& change);

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

// What MemoryRegion::reregister() changes; what is not set stays (verbs: IBV_REREG_MR_CHANGE_*).
struct Reregistration {
  // The memory, with the address of its first byte in requests.
  struct Translation {
    void* address = nullptr;
    size_t size = 0;
    uint64_t iova = 0;
  };
  std::optional<Translation> translation{};
  // The protection domain, of the same device.
  const class ProtectionDomain* domain = nullptr;
  std::optional<Access> access{};
};

// A protection domain: queue pairs may use regions, windows and shared receive queues of their own
// domain only (IBTA 10.2.3). Copies name the same domain. Any thread.
class ProtectionDomain {
 public:
  // Registers `size` bytes at `address`. The caller owns the memory, which must outlive the region.
  // Errors: invalid_argument (remote_write or remote_atomic without local_write; flush_persistent
  // with on_demand; a range beyond the end of the address space), permission_denied (a page is not
  // mapped, or is read-only with local_write: the message has its address; not with on_demand),
  // not_supported (on_demand on a device without DeviceAttributes::has_on_demand), no_memory. See
  // verbs: ibv_reg_mr.
  Result<MemoryRegion> register_memory(void* address, size_t size, Access access) const;

  // The same under another address: requests and peers address the first byte by `iova`. Errors:
  // those of register_memory(), invalid_argument (iova + size is beyond 2^64; zero_based with an
  // iova that is not 0), not_supported (DeviceAttributes::has_iova is false). See verbs:
  // ibv_reg_mr_iova.
  Result<MemoryRegion> register_memory_iova(void* address, size_t size, uint64_t iova,
                                            Access access) const;

  // A region without memory, for local scatter/gather entries only, of any address and length: what
  // is read from it is zero, what is written to it vanishes. rkey() is 0 and valid for no peer.
  // Errors: not_supported (DeviceAttributes::has_null_region is false), no_memory. See verbs:
  // ibv_alloc_null_mr.
  Result<MemoryRegion> null_region() const;

  // Registers `size` bytes of a dma-buf, from byte `offset` on, for example memory of a GPU. The
  // descriptor may be closed afterwards. Requests and peers address the first byte by `at`, which
  // is MemoryRegion::iova(). With `at` null on `roce` and `srd` they address it by
  // MemoryRegion::address(): where the buffer was mapped, which the program may use too; on
  // `ibverbs` by 0. weft does not call DMA_BUF_IOCTL_SYNC: the memory must be coherent. Errors:
  // not_supported (DeviceAttributes::has_dmabuf is false; on `roce` and `srd` a buffer that cannot
  // be mapped), invalid_argument (not a dma-buf, nor on those two a file; range beyond its end;
  // rights as register_memory(); on_demand), permission_denied. See verbs: ibv_reg_dmabuf_mr.
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

  // For providers.
  const std::shared_ptr<verbs::Domain>& impl() const noexcept { return domain_; }

 private:
  friend class Device;
  explicit ProtectionDomain(std::shared_ptr<verbs::Domain> domain) : domain_(std::move(domain)) {}
  static Result<MemoryRegion> handle_of(Result<std::shared_ptr<verbs::Region>> region);
  std::shared_ptr<verbs::Domain> domain_;
};

}  // namespace weft
