// SPDX-License-Identifier: BSD-3-Clause
// See xrc.hpp.
#include "providers/ibverbs/queue/xrc.hpp"

#include <fcntl.h>

#include <cerrno>

namespace weft::ibverbs {

namespace {
char is_xrc_srq;  // its address is the srq_context of such a queue
}  // namespace

Result<std::shared_ptr<verbs::Xrc>> Xrc::create(const Device& device, const Context& context) {
  if (!context.attributes().has_xrc)
    return Error{Code::not_supported,
                 "device " + context.attributes().port +
                     " has no XRC (IBV_DEVICE_XRC; the kernel's rxe has none): "
                     "use RC queue pairs, or a roce device"};
  ibv_xrcd_init_attr wanted{};  // of this process: no file that others could open
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = -1;
  wanted.oflags = O_CREAT;
  Owned<ibv_xrcd> xrcd = own(ibv_open_xrcd(context.raw(), &wanted), &ibv_close_xrcd);
  if (xrcd == nullptr) return error_of(errno, "no XRC domain");
  return std::shared_ptr<verbs::Xrc>(new Xrc(device, context, std::move(xrcd)));
}

ibv_xrcd* Xrc::raw_of(const XrcDomain& handle, const Context& context) noexcept {
  const auto* const xrc = dynamic_cast<const Xrc*>(handle.impl().get());
  return xrc != nullptr && &xrc->context_ == &context ? xrc->xrcd_.get() : nullptr;
}

ibv_srq* create_xrc_srq(ibv_context* context, ibv_srq_init_attr_ex& wanted) noexcept {
  verbs_context* const calls = __extension__ verbs_get_ctx_op(context, create_srq_ex);
  if (calls == nullptr) return errno = EOPNOTSUPP, nullptr;
  wanted.srq_context = &is_xrc_srq;
  return calls->create_srq_ex(context, &wanted);
}

ibv_qp* create_xrc_target(ibv_context* context, ibv_xrcd* xrcd) noexcept {
  verbs_context* const calls = __extension__ verbs_get_ctx_op(context, create_qp_ex);
  if (calls == nullptr) return errno = EOPNOTSUPP, nullptr;
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = xrcd;
  return calls->create_qp_ex(context, &wanted);
}

// Those of XRC have 24 bits, which the device chooses; the kernel's handles of the others count
// from 0 and would be the same.
uint32_t number_of(ibv_srq* srq) noexcept {
  constexpr uint32_t kNoXrc = 1u << 31;
  uint32_t number = 0;
  if (srq->srq_context != &is_xrc_srq || ibv_get_srq_num(srq, &number) != 0)
    return srq->handle | kNoXrc;
  return number;
}

}  // namespace weft::ibverbs
