// SPDX-License-Identifier: BSD-3-Clause
// XRC on a device. The calls that make its objects are no exports of libibverbs but entries of an
// open context, which the inline functions of verbs.h look up; where those fall back to an export,
// the entry is called here.
#pragma once

#include "providers/ibverbs/context/ibverbs_context.hpp"

namespace weft::ibverbs {

class Xrc final : public verbs::Xrc {
 public:
  static Result<std::shared_ptr<verbs::Xrc>> create(const Device& device, const Context& context);
  // The device's domain behind a handle; nullptr if it is of another open device.
  static ibv_xrcd* raw_of(const XrcDomain& handle, const Context& context) noexcept;

 private:
  Xrc(const Device& device, const Context& context, Owned<ibv_xrcd> xrcd)
      : device_(device), context_(context), xrcd_(std::move(xrcd)) {}

  const Device device_;  // kept alive
  const Context& context_;
  const Owned<ibv_xrcd> xrcd_;
};

// Null with errno, as what verbs.h has.
ibv_srq* create_xrc_srq(ibv_context* context, ibv_srq_init_attr_ex& wanted) noexcept;
ibv_qp* create_xrc_target(ibv_context* context, ibv_xrcd* xrcd) noexcept;

// What names a shared receive queue in events, and one of XRC on the wire: of an open device no two
// have the same, whatever their kind.
uint32_t number_of(ibv_srq* srq) noexcept;

}  // namespace weft::ibverbs
