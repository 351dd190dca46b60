// SPDX-License-Identifier: BSD-3-Clause
// Shared receive contexts: a shared receive queue for any number of endpoints.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/endpoint.hpp"
#include "lib/adapters/fi/msg/endpoint.hpp"

namespace weft::fi {
namespace {

int close(fid* fid) noexcept {
  auto* const shared = static_cast<SharedReceive*>(reinterpret_cast<fid_ep*>(fid));
  return close_unused(*shared, shared->domain);
}

fi_ops kFidOps = fid_ops(close);
fi_ops_ep kOps = endpoint_ops();

}  // namespace

SharedReceive::SharedReceive(Domain& parent, void* user_context) noexcept
    : fid_ep{.fid = {.fclass = FI_CLASS_SRX_CTX, .context = user_context, .ops = &kFidOps},
             .ops = &kOps,
             .cm = nullptr,
             .msg = &shared_receive_ops(),
             .rma = nullptr,
             .tagged = nullptr,
             .atomic = nullptr,
             .collective = nullptr},
      domain(parent) {}

int open_shared_receive(fid_domain* domain, fi_rx_attr* attr, fid_ep** out,
                        void* context) noexcept {
  return guarded([&]() -> int {
    auto& parent = *static_cast<Domain*>(domain);
    const DeviceAttributes& device = parent.device->device.attributes();
    const size_t wanted = attr != nullptr && attr->size != 0 ? attr->size : kQueueSize;
    const size_t size = std::min<size_t>(wanted, device.max_srq_wr);
    auto queue = parent.device->domain.shared_receive_queue(
        {.max_recv_wr = static_cast<uint32_t>(size), .max_recv_sge = kIovLimit, .engine = 0});
    if (!queue) return failed(FI_LOG_EP_CTRL, "fi_srx_context", queue.error());
    auto shared = std::make_unique<SharedReceive>(parent, context);
    shared->receives.create(size);
    shared->queue = *queue;
    parent.retain();  // close() releases it
    *out = shared.release();
    return 0;
  });
}

}  // namespace weft::fi
