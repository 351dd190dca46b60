// SPDX-License-Identifier: BSD-3-Clause
// See endpoint.hpp: opening, binding, enabling and closing.
#include "lib/adapters/fi/msg/endpoint.hpp"

#include <sched.h>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/endpoint.hpp"
#include "lib/adapters/fi/msg/connections.hpp"
#include "lib/adapters/fi/msg/queue.hpp"

namespace weft::fi {
namespace {

constexpr int64_t kDrainMs = 500;

int bind_eq(Ep& ep, Eq& eq) noexcept {
  return guarded([&]() -> int {
    if (auto bound = Connections::of(eq); !bound)
      return failed(FI_LOG_EP_CTRL, "fi_ep_bind", bound.error());
    return bind_once(ep.eq, eq);
  });
}

int bind(fid* fid, struct fid* other, uint64_t flags) noexcept {
  Ep& ep = endpoint_of(fid);
  switch (other->fclass) {
    case FI_CLASS_EQ:
      return bind_eq(ep, *static_cast<Eq*>(reinterpret_cast<fid_eq*>(other)));
    case FI_CLASS_SRX_CTX:
      return bind_once(ep.shared, *static_cast<SharedReceive*>(reinterpret_cast<fid_ep*>(other)));
    default:
      return bind_reports(ep, *other, flags);
  }
}

int close(fid* fid) noexcept { return close_endpoint(endpoint_of(fid)); }

int control(fid* fid, int command, void* arg) noexcept {
  return control_endpoint(endpoint_of(fid), command, arg);
}

int getopt(fid*, int level, int name, void* value, size_t* length) noexcept {
  return put_size_option(level, name, FI_OPT_CM_DATA_SIZE, kConnectData, value, length);
}

int setopt(fid*, int, int, const void*, size_t) noexcept { return -FI_ENOPROTOOPT; }

fi_ops kFidOps = fid_ops(close, bind, control);
// Verbs have no cancellation of a receive.
fi_ops_ep kOps = endpoint_ops(getopt, setopt);

// The queue of weft for one direction, with room for `entries`; its counters make progress of it.
// Undone by leave().
Result<std::shared_ptr<MsgQueue>> queue_for(const Reports& reports, const Device& device,
                                            size_t entries) {
  auto queue = reports.cq ? MsgQueue::of(*reports.cq, device) : MsgQueue::create(device);
  if (!queue) return queue.error();
  if (auto room = (*queue)->reserve(entries); !room) return room.error();
  for (Cntr* cntr : reports.counters())
    if (cntr != nullptr) cntr->waiting.add(queue->get());
  return queue;
}

void leave(Ep& ep, const Reports& reports, std::shared_ptr<MsgQueue>& queue,
           size_t entries) noexcept {
  if (!queue) return;
  for (Cntr* cntr : reports.counters())
    if (cntr != nullptr) cntr->waiting.remove(queue.get());
  queue->detach(ep, entries);
  queue.reset();
}

}  // namespace

uint32_t next_number() noexcept {
  static std::atomic<uint32_t> numbers{0};
  return ++numbers;
}

Ep::Ep(Domain& parent, Info described, void* user_context) noexcept
    : fid_ep{.fid = {.fclass = FI_CLASS_EP, .context = user_context, .ops = &kFidOps},
             .ops = &kOps,
             .cm = &endpoint_cm_ops(),
             .msg = &message_ops(),
             .rma = &rma_ops(),
             .tagged = nullptr,
             .atomic = nullptr,
             .collective = nullptr},
      domain(parent),
      info(std::move(described)) {
  bound.transmit.flags = info->tx_attr->op_flags;
  bound.receive.flags = info->rx_attr->op_flags;
  domain.retain();
}

void Ep::drain() noexcept {
  const int64_t until = clock_ms() + kDrainMs;
  while (qp && qp.state() == QpState::rts && !sends.empty() && clock_ms() < until) {
    sends_to->progress();
    sched_yield();
  }
}

Ep::~Ep() {
  drain();
  if (eq != nullptr) {
    static_cast<Connections*>(eq->connections.get())->forget(*this);
    eq->forget(&fid);
    --eq->users;
  }
  stop_shared_receives();
  leave_queues();
  id = {};  // sends a DREQ where it is connected
  bound.release(nullptr);
  if (shared != nullptr) --shared->users;
}

// A receive that the queue pair has taken from a shared context completes, if only as canceled, and
// no further one is taken: nothing that arrives now could be reported, and its place in the context
// would be lost.
void Ep::stop_shared_receives() noexcept {
  if (shared == nullptr || !qp) return;
  QueuePairAttributes error;
  error.state = QpState::err;
  if (auto stopped = qp.modify(error); !stopped)
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "fi_close: %s\n", stopped.error().message.c_str());
}

void Ep::leave_queues() noexcept {
  leave(*this, bound.transmit, sends_to, info->tx_attr->size);
  leave(*this, bound.receive, receives_from, info->rx_attr->size);
}

Result<void> Ep::enable() {
  if (qp) return Error{Code::bad_state, "the endpoint is enabled already"};
  sends.create(info->tx_attr->size);
  receives.create(info->rx_attr->size);
  auto done = create_queue_pair();
  if (!done) leave_queues();
  return done;
}

Result<void> Ep::create_queue_pair() {
  const Device& device = domain.device->device;
  auto send_queue = queue_for(bound.transmit, device, info->tx_attr->size);
  if (!send_queue) return send_queue.error();
  sends_to = *send_queue;
  auto receive_queue = queue_for(bound.receive, device, info->rx_attr->size);
  if (!receive_queue) return receive_queue.error();
  receives_from = *receive_queue;
  auto made = domain.device->domain.queue_pair(
      {.type = QpType::rc,
       .send_cq = sends_to->queue(),
       .recv_cq = receives_from->queue(),
       .max_send_wr = static_cast<uint32_t>(info->tx_attr->size),
       .max_recv_wr = static_cast<uint32_t>(info->rx_attr->size),
       .max_send_sge = static_cast<uint32_t>(info->tx_attr->iov_limit),
       .max_recv_sge = static_cast<uint32_t>(info->rx_attr->iov_limit),
       .max_inline = static_cast<uint32_t>(info->tx_attr->inject_size),
       .congestion = {},
       .shared_receive_queue = shared != nullptr ? shared->queue : SharedReceiveQueue{},
       .xrc_domain = {}});
  if (!made) return made.error();
  qp = *made;
  sends_to->attach(*this);
  receives_from->attach(*this);
  QueuePairAttributes init;
  init.state = QpState::init;
  init.pkey_index = uint16_t{0};
  init.port = uint8_t{1};
  init.access = Access::all;
  return qp.modify(init);  // receives may be posted from now on
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** out, void* context) noexcept {
  return guarded([&]() -> int {
    if (info->ep_attr && info->ep_attr->type != FI_EP_MSG) return -FI_EINVAL;
    Info copy(fi_dupinfo(info));
    if (!copy) return -FI_ENOMEM;
    size_t handle = FI_CLASS_CONNREQ;
    if (info->handle != nullptr) handle = info->handle->fclass;
    auto* request = reinterpret_cast<ConnectRequest*>(info->handle);
    if (handle == FI_CLASS_PEP) {  // its address becomes that of the endpoint
      const auto* pep = static_cast<Pep*>(reinterpret_cast<fid_pep*>(info->handle));
      if (!set_source(*copy, pep->name)) return -FI_ENOMEM;
      request = nullptr;
    } else if (handle != FI_CLASS_CONNREQ) {
      return -FI_EINVAL;
    }
    auto* ep = new Ep(*static_cast<Domain*>(domain), std::move(copy), context);
    if (request != nullptr) {
      ep->id = request->id;
      request->release();
    }
    *out = ep;
    return 0;
  });
}

}  // namespace weft::fi
