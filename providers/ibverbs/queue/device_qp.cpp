// SPDX-License-Identifier: BSD-3-Clause
// See device_qp.hpp.
#include "providers/ibverbs/queue/device_qp.hpp"

#include <algorithm>

#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

QpState DeviceQp::state() const noexcept {
  if (context().forked()) return QpState::err;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  const int error = context().library().query_qp(qp_.get(), &attributes, IBV_QP_STATE, &unused);
  return error == 0 ? from_verbs(attributes.qp_state) : QpState::err;
}

QueuePairAttributes DeviceQp::query() const {
  const std::lock_guard lock(mutex_);
  QueuePairAttributes attributes = attributes_;
  attributes.state = state();
  return attributes;
}

// The device may grant more; requests with more entries or inline data than was asked for are
// refused all the same.
QueuePairCapacities DeviceQp::capacities() const noexcept {
  if (context().forked()) return {};
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  if (context().library().query_qp(qp_.get(), &attributes, IBV_QP_CAP, &unused) != 0) return {};
  const ibv_qp_cap& cap = attributes.cap;
  const bool receives = !is_xrc(options_.type) && !options_.shared_receive_queue;
  return {cap.max_send_wr, receives ? cap.max_recv_wr : 0,
          std::min(cap.max_send_sge, std::max(1u, options_.max_send_sge)),
          receives ? std::min(cap.max_recv_sge, std::max(1u, options_.max_recv_sge)) : 0,
          std::min(cap.max_inline_data, options_.max_inline)};
}

}  // namespace weft::ibverbs
