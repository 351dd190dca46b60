// SPDX-License-Identifier: BSD-3-Clause
// Memory regions for the buffers of calls: registered by the caller for many calls, registered for
// one call, or kept in a cache by address. A cached region is valid only where the device follows
// the mappings of the process, or the caller reports what is unmapped (Registrations).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "weft/collective.hpp"
#include "weft/weft.hpp"

namespace weft::collective {

// Memory of this process that is sent by reference.
struct Registered {
  std::byte* memory = nullptr;
  size_t bytes = 0;
  bool remote_writable = false;        // peers may write and add there
  std::unique_ptr<std::byte[]> owned;  // memory of ensure_buffer()
  MemoryRegion region;                 // ends before the memory

  bool covers(const std::byte* begin, size_t size) const {
    return begin >= memory && begin + size <= memory + bytes;
  }
};
using RegisteredPtr = std::shared_ptr<const Registered>;

class RegistrationCache {
 public:
  // `rendezvous`: peers can write to memory that is advertised; without, no region is
  // remote_writable.
  // `keeps`: regions stay registered behind the call that needed them.
  RegistrationCache(const ProtectionDomain& pd, bool rendezvous, bool keeps)
      : pd_(pd), rendezvous_(rendezvous), keeps_(keeps) {}

  // A region that covers the memory, registered if there is none. `written`: peers may write there.
  // Errors: those of register_memory.
  Result<RegisteredPtr> find(const void* memory, size_t bytes, bool written);
  // A registration of the caller; used as long as the returned pointer, or a call, holds it.
  Result<std::shared_ptr<Registered>> add(void* memory, size_t bytes);
  // The caller unmaps the memory: drops cached regions that touch it.
  void forget(const void* memory, size_t bytes);
  // `kept` if it is large enough, else a larger buffer that replaces it. Null for no bytes.
  Result<RegisteredPtr> ensure_buffer(RegisteredPtr& kept, size_t bytes, bool written);
  // Ends all regions of the cache and of the caller.
  void close();
  uint64_t made() const { return made_; }  // registrations, in total

 private:
  static constexpr size_t kKept = 16;
  Result<std::shared_ptr<Registered>> make(std::byte* memory, size_t bytes, bool remote_writable);

  ProtectionDomain pd_;
  bool rendezvous_, keeps_;
  std::deque<RegisteredPtr> kept_;                // the latest first
  std::vector<std::weak_ptr<Registered>> given_;  // by the caller
  uint64_t made_ = 0;
};

}  // namespace weft::collective
