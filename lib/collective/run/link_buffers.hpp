// SPDX-License-Identifier: BSD-3-Clause
// The registered memory of a link: landing slots, which the peer writes; staging slots, from which
// copied pieces are sent; and receive buffers for control messages.
#pragma once

#include <memory>

#include "lib/base/check.hpp"
#include "lib/collective/run/link_messages.hpp"

namespace weft::collective {

class LinkBuffers {
 public:
  // `shape.slots` is a power of two. Over RC pieces up to kOversubscribedCopyLimit fit a staging
  // slot; over SRD both ends copy by the shape's limit, since the receiver advertises for all
  // longer pieces.
  LinkBuffers(QpType type, const LinkShape& shape);
  // Errors: no_memory, those of register_memory.
  Result<void> allocate(const ProtectionDomain& pd, uint32_t receives);

  uint32_t max_copy_limit() const { return max_copy_limit_; }
  size_t stride() const { return sizeof(PieceHeader) + payload_; }

  LinkAddress address() const;
  const std::byte* landing(uint32_t slot) const {
    WEFT_DCHECK(slot < slots_);
    return landing_.get() + slot * stride();
  }
  std::byte* staging(uint32_t slot) {
    WEFT_DCHECK(slot < slots_);
    return staging_.get() + slot * staging_stride();
  }
  // `bytes` of a staging slot, from `offset` on.
  Sge staging_sge(uint32_t slot, size_t offset, uint32_t bytes) const {
    WEFT_DCHECK(slot < slots_ && offset + bytes <= staging_stride());
    return staging_region_.sge(slot * staging_stride() + offset, bytes);
  }
  const std::byte* control(uint32_t receive) const {
    return control_.get() + receive * sizeof(ControlMessage);
  }
  Sge control_sge(uint32_t receive) const {
    return control_region_.sge(receive * sizeof(ControlMessage), sizeof(ControlMessage));
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(size_t bytes);
  size_t staging_stride() const { return sizeof(PieceHeader) + max_copy_limit_; }

  uint32_t slots_, payload_, max_copy_limit_;
  Memory landing_, staging_, control_;
  MemoryRegion landing_region_, staging_region_, control_region_;  // end before the memory
};

}  // namespace weft::collective
