// SPDX-License-Identifier: BSD-3-Clause
// Allocation and registration of a link's slots.
#include "lib/collective/run/link_buffers.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {

void LinkBuffers::Free::operator()(std::byte* memory) const { std::free(memory); }

LinkBuffers::Memory LinkBuffers::allocate(size_t bytes) {
  constexpr size_t kPage = 4096;
  return Memory(
      static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
}

LinkBuffers::LinkBuffers(QpType type, const LinkShape& shape)
    : slots_(shape.slots),
      payload_(shape.payload),
      max_copy_limit_(
          std::max(shape.copy_limit,
                   type == QpType::srd ? 0 : std::min(kOversubscribedCopyLimit, shape.payload))) {
  WEFT_DCHECK(std::has_single_bit(slots_) && slots_ <= kMaxSlots);
  WEFT_DCHECK(max_copy_limit_ >= shape.copy_limit);
}

Result<void> LinkBuffers::allocate(const ProtectionDomain& pd, uint32_t receives) {
  WEFT_DCHECK(!landing_ && receives > 0);
  const size_t landing = slots_ * stride(), staging = slots_ * staging_stride();
  const size_t control = receives * sizeof(ControlMessage);
  landing_ = allocate(landing);
  staging_ = allocate(staging);
  control_ = allocate(control);
  if (!landing_ || !staging_ || !control_)
    return Error{Code::no_memory, "no memory for the slots of a peer (" + std::to_string(slots_) +
                                      " of " + std::to_string(payload_) +
                                      " bytes): lower CommunicatorOptions::slots or slot_bytes"};
  std::memset(landing_.get(), 0, landing);
  std::memset(control_.get(), 0, control);
  Result<MemoryRegion> region =
      pd.register_memory(landing_.get(), landing, Access::local_write | Access::remote_write);
  if (!region) return region.error();
  landing_region_ = std::move(*region);
  region = pd.register_memory(staging_.get(), staging, Access::none);
  if (!region) return region.error();
  staging_region_ = std::move(*region);
  region = pd.register_memory(control_.get(), control, Access::local_write);
  if (!region) return region.error();
  control_region_ = std::move(*region);
  return {};
}

LinkAddress LinkBuffers::address() const {
  return {reinterpret_cast<uintptr_t>(landing_.get()), landing_region_.rkey().value};
}

}  // namespace weft::collective
