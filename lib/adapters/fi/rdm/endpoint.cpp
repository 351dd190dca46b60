// SPDX-License-Identifier: BSD-3-Clause
// Opening, binding, enabling and closing endpoints of type FI_EP_RDM: see endpoint.hpp.
#include "lib/adapters/fi/rdm/endpoint.hpp"

#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/endpoint.hpp"

namespace weft::fi {
namespace {

int bind(fid* fid, ::fid* other, uint64_t flags) noexcept {
  Rdm& ep = rdm_of(fid);
  switch (other->fclass) {
    case FI_CLASS_AV:
      return bind_once(ep.av, *static_cast<Av*>(reinterpret_cast<fid_av*>(other)));
    case FI_CLASS_EQ:
      return bind_once(ep.eq, *static_cast<Eq*>(reinterpret_cast<fid_eq*>(other)));
    default:
      return bind_reports(ep, *other, flags);
  }
}

int close(fid* fid) noexcept { return close_endpoint(rdm_of(fid)); }

int control(fid* fid, int command, void* arg) noexcept {
  Rdm& ep = rdm_of(fid);
  if (command == FI_ENABLE && ep.av == nullptr) return -FI_ENOAV;
  return control_endpoint(ep, command, arg);
}

ssize_t cancel(fid_t fid, void* context) noexcept { return rdm_of(fid).cancel(context); }

int getopt(fid* fid, int level, int name, void* value, size_t* length) noexcept {
  return put_size_option(level, name, FI_OPT_MIN_MULTI_RECV, rdm_of(fid).least_multi_receive, value,
                         length);
}

int setopt(fid* fid, int level, int name, const void* value, size_t length) noexcept {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (length != sizeof(size_t)) return -FI_EINVAL;
  rdm_of(fid).least_multi_receive = *static_cast<const size_t*>(value);
  return 0;
}

int getname(fid* fid, void* out, size_t* length) noexcept {
  return copy_name(rdm_of(fid).own_name(), out, length);
}

fi_ops kFidOps = fid_ops(close, bind, control);
fi_ops_ep kOps = endpoint_ops(getopt, setopt, cancel);
fi_ops_cm kCmOps = {.size = sizeof(fi_ops_cm),
                    .setname = not_implemented,
                    .getname = getname,
                    .getpeer = not_implemented,
                    .connect = not_implemented,
                    .listen = not_implemented,
                    .accept = not_implemented,
                    .reject = not_implemented,
                    .shutdown = not_implemented,
                    .join = not_implemented};

constexpr message::Limits kLimits{
    .eager_bytes = kEagerBytes, .inline_bytes = kInline, .credits = kCredits};
// How long closing waits for the last answers to arrive; and for peers to take what was injected,
// which the program takes for sent.
constexpr std::chrono::milliseconds kLinger{200}, kLingerInjected{2000};

}  // namespace

Rdm::Rdm(Domain& parent, Info described, void* user_context)
    : fid_ep{.fid = {.fclass = FI_CLASS_EP, .context = user_context, .ops = &kFidOps},
             .ops = &kOps,
             .cm = &kCmOps,
             .msg = &message_ops(),
             .rma = &rma_ops(),
             .tagged = &tagged_ops(),
             .atomic = &atomic_ops(),
             .collective = nullptr},
      domain(parent),
      info(std::move(described)),
      peers_(static_cast<uint8_t>(fi_tc_dscp_get(info->tx_attr->tclass) << 2)),
      own_(queue_, peers_, domain.device->memory.lkey()),
      target_(domain, own_, bound.receive),
      messages_(*this, kLimits) {
  bound.transmit.flags = info->tx_attr->op_flags;
  bound.receive.flags = info->rx_attr->op_flags;
  bound.has_remote_events = domain.has_remote_events && (info->caps & FI_RMA_EVENT) != 0;
  domain.retain();
}

// Waits until what was sent has arrived, and what was injected was taken.
void Rdm::drain() noexcept {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    size_t injected;
    {
      const std::lock_guard hold(lock_);
      progress_locked();
      injected = messages_.counters().copied;
      if (queue_.in_flight == 0 && injected == 0) return;
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    if (time > kLingerInjected && injected != 0)
      FI_WARN(&provider(), FI_LOG_EP_DATA,
              "fi_close: %zu injected messages are lost: their peers have no receives for them\n",
              injected);
    if (time > (injected != 0 ? kLingerInjected : kLinger)) return;
    if (time > kLinger) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Rdm::~Rdm() {
  if (is_enabled()) drain();
  if (thread_.joinable()) {
    stops_.store(true);
    signal_event(wake_);
    thread_.join();
  }
  if (wake_ >= 0) ::close(wake_);
  bound.release(is_enabled() ? this : nullptr);
  buffers_.close();
  queue_.qp = {};  // before the buffers and operations that it uses
  if (av != nullptr) --av->users;
  if (eq != nullptr) --eq->users;
  note_closed();
}

Name Rdm::own_name() const noexcept {
  const auto wanted = info->src_addr ? name_at(info->src_addr) : std::nullopt;
  const uint16_t port = resolver_.port() != 0 ? resolver_.port() : wanted ? wanted->port : 0;
  return {.gid = domain.device->device.attributes().gid,
          .port = port,
          .queue = is_enabled() ? queue_.qp.number() : QpNum{}};
}

Result<void> Rdm::enable() {
  if (is_enabled()) return Error{Code::bad_state, "the endpoint is enabled already"};
  const OpenDevice& device = *domain.device;
  auto cq = device.device.completion_queue(
      {.capacity = kQueueSize + kBuffers, .timestamps = false, .engine = 0});
  if (!cq) return cq.error();
  auto qp = device.domain.queue_pair({.type = QpType::srd,
                                      .send_cq = *cq,
                                      .recv_cq = *cq,
                                      .max_send_wr = kQueueSize,
                                      .max_recv_wr = kBuffers,
                                      .max_send_sge = 1 + kIovLimit,
                                      .max_recv_sge = 1,
                                      .max_inline = kInline});
  if (!qp) return qp.error();
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    QueuePairAttributes to;
    to.state = state;
    if (state == QpState::init) to.access = Access::all;
    if (auto moved = qp->modify(to); !moved) return moved;
  }
  Name own = own_name();
  own.queue = qp->number();
  if (auto opened = resolver_.open(own); !opened) return opened;
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return Error{Code::no_memory, "no descriptors are left"};
  buffers_.open(*qp, kBuffers, message::kHeaderSize + kEagerBytes, device.memory.lkey(),
                bound.receive.cq);
  cq_ = *cq;
  queue_.qp = *qp;
  bound.add(this);
  thread_ = std::thread([this] { run(); });
  return {};
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** out, void* context) noexcept {
  return guarded([&]() -> int {
    if (info->ep_attr && info->ep_attr->type != FI_EP_RDM) return -FI_EINVAL;
    Info copy(fi_dupinfo(info));
    if (!copy) return -FI_ENOMEM;
    *out = static_cast<fid_ep*>(new Rdm(*static_cast<Domain*>(domain), std::move(copy), context));
    return 0;
  });
}

}  // namespace weft::fi
