// SPDX-License-Identifier: BSD-3-Clause
// The memory of calls as the device knows it: registered by the caller for many calls, or for one
// call, or kept behind it by address. What is kept is sound only where the device follows the
// mapping of the process, or the caller says what is unmapped (Registrations).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "weft/collective.hpp"
#include "weft/weft.hpp"

namespace weft::collective {

// Memory of this process that puts may read by reference, and peers perhaps write to.
struct Registered {
  std::byte* memory = nullptr;
  size_t bytes = 0;
  bool open = false;                   // peers may write and add there
  std::unique_ptr<std::byte[]> owned;  // for the work space
  MemoryRegion region;                 // ends before the memory

  bool covers(const std::byte* begin, size_t size) const {
    return begin >= memory && begin + size <= memory + bytes;
  }
};
using RegisteredPtr = std::shared_ptr<const Registered>;

class TeamMemory {
 public:
  // `places`: peers can put pieces to where they are invited.
  TeamMemory(const ProtectionDomain& pd, bool places, bool keeps)
      : pd_(pd), places_(places), keeps_(keeps) {}

  // What covers the memory, or a new one. `open`: peers may write there. Errors: those of
  // register_memory.
  Result<RegisteredPtr> find(std::byte* memory, size_t bytes, bool open);
  // By the caller; it is known here as long as somebody has it.
  Result<std::shared_ptr<Registered>> add(void* memory, size_t bytes);
  void forget(const void* memory, size_t bytes);
  // `kept` if it will do, or a larger one in its place. Null for no bytes.
  Result<RegisteredPtr> space(RegisteredPtr& kept, size_t bytes, bool open);
  // Nobody reads or writes any of it any more.
  void close();
  uint64_t made() const { return made_; }  // registrations, since the beginning

 private:
  static constexpr size_t kKept = 16;
  Result<std::shared_ptr<Registered>> make(std::byte* memory, size_t bytes, bool open);

  ProtectionDomain pd_;
  bool places_, keeps_;
  std::deque<RegisteredPtr> kept_;                // made lately
  std::vector<std::weak_ptr<Registered>> given_;  // by the caller
  uint64_t made_ = 0;
};

}  // namespace weft::collective
