// SPDX-License-Identifier: BSD-3-Clause
// See device_qp.hpp.
#include "providers/ibverbs/queue/device_qp.hpp"

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

}  // namespace weft::ibverbs
