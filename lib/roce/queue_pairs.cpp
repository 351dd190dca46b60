// SPDX-License-Identifier: BSD-3-Clause
// Control calls of queue pairs: creation with a random number, state transitions, destruction;
// shared receive queues and multicast. These calls may allocate; the data path never does.
#include <algorithm>
#include <bit>

#include "lib/base/undo.hpp"
#include "lib/roce/engine.hpp"
#include "lib/roce/rc/rc.hpp"
#include "lib/roce/state/invariants.hpp"
#include "lib/transport/qp_attributes.hpp"

namespace weft::roce {

namespace {

wire::OpClass service_of(QpType type) noexcept {
  using wire::OpClass;
  constexpr OpClass kServices[] = {OpClass::rc,      OpClass::uc,  OpClass::ud,
                                   OpClass::unknown, OpClass::xrc, OpClass::xrc};
  return kServices[static_cast<size_t>(type)];
}

// Gives `qp` its own controller: the device's preset, with its parameters, if that has the same
// name.
Result<void> choose_controller(QueuePair& qp, std::string_view name, const EngineConfig& config) {
  const Result<congestion::Preset> preset = congestion::make_preset(name, config.conditions);
  if (!preset) return preset.error();
  if (preset->kind->sprayed)
    return Error{Code::not_supported, std::string(name) +
                                          " is for packets over many paths, which "
                                          "RoCEv2 does not have; try hpcc or swift"};
  const std::optional<congestion::Preset>& ours = config.congestion;
  const bool same = ours && ours->kind == preset->kind && ours->windowed == preset->windowed;
  qp.preset = std::make_unique<congestion::Preset>(same ? *ours : *preset);
  return {};
}

// RTR -> RTS: the requester is set up.
void enter_rts(QueuePair& qp, const Capabilities& port, const Habits& habits) {
  const QueuePairAttributes& a = qp.attributes;
  Requester& req = qp.req;
  // Wide PSNs start one wrap above 0, so that none of them underflows.
  req.una = req.next = req.sent_end = req.post_end = (uint64_t{1} << 24) + a.sq_psn->value;
  req.next_index = qp.sq.tail();
  if (!qp.reliable() || qp.type == QpType::xrc_target) return;
  req.ack_request_after = static_cast<uint8_t>(habits.ack_request_every - 1);
  req.retries_left = *a.retry_count;
  req.rnr_left = *a.rnr_retry;
  const uint32_t reads = std::bit_ceil(std::max<uint32_t>(1, *a.max_rd_atomic));
  req.reads.reset(new uint64_t[reads]);
  req.reads_mask = reads - 1;
  // One READ request may have half of the window in flight.
  const uint64_t chunk = port.in_flight_limit / 2 / qp.mtu();
  req.read_chunk = std::bit_floor(static_cast<uint32_t>(std::clamp<uint64_t>(chunk, 1, 64)));
}

}  // namespace

Engine::Engine(Port& port, const EngineConfig& config, base::SecureRandom& random)
    : EngineState(port, config, random), numbers_(port.qpn_range(), random) {}

Engine::~Engine() = default;

Result<QueuePair*> Engine::create_qp(const QpConfig& config) {
  if (config.type == QpType::srd)  //= roce:C-OPS-93
    return Error{
        Code::not_supported,
        "provider roce has RC, UC, UD and XRC queue pairs: set QueuePairOptions::type to one "
        "of them, or open an srd device"};
  if (const Result<void> ok = check(config, config_.limits); !ok) return ok.error();
  if (owned_.size() >= std::min(config_.limits.max_qp, numbers_.count() - 1))
    return Error{Code::no_memory, "the device has all its queue pairs in use"};
  const QpNum number = numbers_.draw([this](QpNum drawn) { return qps_.find(drawn) != nullptr; });
  std::unique_ptr<QueuePair> qp(new QueuePair);
  qp->number = number;
  qp->type = config.type;
  qp->service = service_of(config.type);
  qp->established = config.type == QpType::ud;
  qp->domain = config.domain;
  qp->send_cq = config.send_cq;
  qp->recv_cq = config.recv_cq;
  qp->max_inline = config.max_inline;
  qp->bth_constants = wire::bth_constants(config_.habits.migrated);
  qp->signal_all = config.signal_all;
  if (config.type == QpType::xrc_target)
    qp->sq.create(1, 1, 0);
  else
    qp->sq.create(config.max_send_wr, std::max(1u, config.max_send_sge), config.max_inline);
  qp->shared = config.shared;
  qp->xrc_domain = config.xrc_domain;
  if (qp->shared != nullptr)
    qp->rq.create(1, qp->shared->ring.max_sge(), 0);
  else if (is_xrc(config.type))
    qp->rq.create(1, config.type == QpType::xrc_target ? config_.limits.max_sge : 1, 0);
  else
    qp->rq.create(config.max_recv_wr, std::max(1u, config.max_recv_sge), 0);
  if (!config.congestion.empty())
    if (const Result<void> ok = choose_controller(*qp, config.congestion, config_); !ok)
      return ok.error();
  if (config.type == QpType::ud) qp->datagrams.reset(new Datagram[qp->sq.slots()]);
  QueuePair* const raw = qp.get();
  owned_[number.value] = std::move(qp);
  base::Undo undo([&] { owned_.erase(number.value); });
  qps_.insert(number, raw);
  undo.forget();
  WEFT_CHECK(qps_.size() == owned_.size());
  return raw;
}

Result<std::unique_ptr<SharedReceives>> Engine::create_shared_receives(
    uint32_t domain, const SharedReceiveQueueOptions& o, const XrcBinding& xrc) {
  const Limits& limits = config_.limits;
  if (o.max_recv_wr == 0 || o.max_recv_wr > limits.max_qp_wr || o.max_recv_sge > limits.max_sge)
    return Error{Code::invalid_argument, "SharedReceiveQueueOptions::max_recv_wr must be 1.." +
                                             std::to_string(limits.max_qp_wr) +
                                             " and max_recv_sge at most " +
                                             std::to_string(limits.max_sge)};
  if (xrc.domain != 0 && srqs_.full())
    return Error{Code::no_memory, "the device has all its shared receive queues of XRC in use"};
  std::unique_ptr<SharedReceives> pool(new SharedReceives);
  pool->number = srqs_.choose_number(port_.qpn_range());  // 24 bits, as those of queue pairs
  pool->domain = domain;
  pool->xrc_domain = xrc.domain;
  pool->cq = xrc.cq;
  pool->ring.create(o.max_recv_wr, std::max(1u, o.max_recv_sge), 0);
  if (xrc.domain != 0) srqs_.insert(*pool);
  return pool;
}

Result<void> Engine::resize(SharedReceives& srq, uint32_t max_recv_wr) {
  if (max_recv_wr == 0 || max_recv_wr > config_.limits.max_qp_wr || max_recv_wr < srq.limit)
    return Error{Code::invalid_argument, "max_recv_wr of a shared receive queue must be 1.." +
                                             std::to_string(config_.limits.max_qp_wr) +
                                             ", and no less than its limit, " +
                                             std::to_string(srq.limit)};
  if (resize_receives(srq.ring, max_recv_wr)) return {};
  return Error{Code::busy, "the shared receive queue holds " + std::to_string(srq.ring.size()) +
                               " receives, more than " + std::to_string(max_recv_wr)};
}

void Engine::withdraw(SharedReceives& srq) noexcept {
  if (!srqs_.erase(srq)) return;
  for (const auto& [number, qp] : owned_)
    if (qp->shared == &srq) detach_srq(*qp);
}

//= roce:C-STATE-67 its completions stay, its number is not reused soon
void Engine::destroy_qp(QueuePair* qp) noexcept {
  const QpNum number = qp->number;
  WEFT_CHECK(qps_.find(number) == qp);
  for (Gid group; groups_.any_of(*qp, group);) (void)detach_multicast(*qp, group);
  reset_qp(*qp);
  destinations_.release(*qp);
  port_.forget(number);
  qps_.erase(number);
  owned_.erase(number.value);
}

Result<void> Engine::attach_multicast(QueuePair& qp, const Gid& group) {
  WEFT_DCHECK(qp.type == QpType::ud && group.is_multicast());
  const bool first = groups_.members(group).empty();
  if (first)
    if (const Result<void> ok = port_.join(group); !ok) return ok;
  base::Undo undo([&] {
    if (first) port_.leave(group);
  });
  groups_.add(group, qp);
  undo.forget();
  return {};
}

Result<void> Engine::detach_multicast(QueuePair& qp, const Gid& group) {
  if (!groups_.remove(group, qp))
    return Error{Code::not_found,
                 "the queue pair is not attached to the group " + to_string(group)};
  if (groups_.members(group).empty()) port_.leave(group);
  return {};
}

bool Engine::flush_pending_ack(QueuePair& qp) noexcept {
  if (!qp.res.ack_queued && !rc::has_replies(qp)) return false;
  acks_.expedite(qp);
  activate(qp);
  return true;
}

//= roce:C-STATE-66 what is cleared gets no completion, the number stays
void Engine::reset_qp(QueuePair& qp) noexcept {
  if (qp.destination != nullptr) qp.destination->window.forget(qp.req.in_flight);
  remove_from_lists(qp);
  if (qp.destination != nullptr) wake_waiting(*qp.destination);
  if (qp.shared != nullptr) return_to_srq(qp);
  if (qp.type == QpType::xrc_target) detach_srq(qp);
  keys_.release(qp.number.value);
  qp.sq.clear();
  qp.rq.clear();
  early_packets_.clear(qp.res.gap.early);
  qp.telemetry = false;
  qp.selective.reset();
  qp.req = Requester{};
  qp.res = Responder{};
  qp.limiter = RateLimiter{};
  qp.retry_delay = {};
  qp.expired = 0;
  qp.stopped = {};
  qp.req.next_index = qp.sq.tail();
  qp.established = qp.type == QpType::ud;
  qp.access = Access::none;
  qp.attributes = {};
  qp.state = QpState::reset;
  check_queue_pair(qp, early_packets_);
}

// INIT -> RTR: the responder is set up.
Result<void> Engine::enter_rtr(QueuePair& qp) {
  const QueuePairAttributes& a = qp.attributes;
  const AddressVector to = a.path.value_or(AddressVector{});  // none: UD
  if (config_.throttle && violations_.throttled(to.destination, time())) {
    count(Count::connects_throttled);
    return Error{Code::busy, to_string(to.destination) +
                                 " has used wrong keys on eight connections within a second: "
                                 "connect again in a second, and see why it does"};
  }
  qp.peer = a.dest_qpn.value_or(QpNum{});
  const uint32_t mtu = a.path_mtu.value_or(capabilities_.active_mtu);
  qp.mtu_shift = static_cast<uint8_t>(std::countr_zero(mtu));
  qp.res.expected = qp.res.ack_end = a.rq_psn.value_or(Psn{});
  if (!qp.reliable()) return set_path(qp), Result<void>{};
  if (a.telemetry.value_or(false)) {
    qp.telemetry = true;
    qp.res.echo = std::make_unique<wire::IntBlock>();
    qp.res.echo->flags = wire::kIntEcho;
  }
  const congestion::Preset* const preset = qp.preset            ? qp.preset.get()
                                           : config_.congestion ? &*config_.congestion
                                                                : nullptr;
  if (preset != nullptr) {
    if (!host_queue_) host_queue_.emplace(preset->line_rate, preset->base_rtt_ns);
    qp.req.pacer = std::make_unique<Pacer>(*preset, *host_queue_, config_.pacing_quantum,
                                           config_.frame_overhead, qp.telemetry);
    if (a.max_dest_rd_atomic.value_or(0) != 0) qp.req.pacer->track_responses();
  }
  set_path(qp);
  const bool selective = a.selective_repeat.value_or(false);
  qp.res.early_window = config_.habits.keeps_early || selective
                            ? early_window(config_.conditions.line, config_.conditions.rtt, mtu)
                            : uint16_t{0};
  if (selective) qp.selective = std::make_unique<SelectiveRepeat>(qp.res.early_window);
  destinations_.release(qp);
  qp.destination = destinations_.acquire(qp.path.destination, capabilities_);
  const uint32_t reads = a.max_dest_rd_atomic.value_or(0);  // an XRC initiator has no responder
  if (reads != 0) {
    qp.res.resources.reset(new Resource[reads]);
    qp.res.reply_order.reset(new uint8_t[reads]);
  }
  qp.res.resource_count = reads;
  return {};
}

Result<void> Engine::modify_qp(QueuePair& qp, const QueuePairAttributes& change) {
  const ModifyLimits limits{.max_mtu = capabilities_.max_mtu,
                            .max_rd_atomic = config_.limits.max_rd_atomic};
  if (const Result<void> ok = check_modify(qp.type, qp.state, change, limits); !ok) return ok;
  if (change.telemetry.value_or(false) && !capabilities_.telemetry)
    return Error{Code::not_supported,
                 "this device carries no telemetry: open it with telemetry=1, on the port "
                 "udp or dpdk"};
  const QpState from = qp.state, to = change.state.value_or(qp.state);
  if (from == QpState::sqd && qp.reliable()) {  // the rings for them are in use
    if (change.max_rd_atomic.value_or(0) > qp.req.reads_mask + 1 ||
        change.max_dest_rd_atomic.value_or(0) > qp.res.resource_count)
      return Error{Code::invalid_argument,
                   "max_rd_atomic and max_dest_rd_atomic can only be lowered after RTR"};
  }
  if (to == QpState::reset) {
    reset_qp(qp);
    destinations_.release(qp);
    return {};
  }
  if (to == QpState::err) {
    enter_error(*this, qp);
    return {};
  }
  const QueuePairAttributes before = qp.attributes;
  base::Undo undo([&] { qp.attributes = before; });
  merge(qp.attributes, change);
  if (to == QpState::rtr && from == QpState::init)
    if (const Result<void> ok = enter_rtr(qp); !ok) return ok;
  if (from == QpState::sqd && change.path)
    if (const Result<void> ok = change_path(qp); !ok) return ok;
  undo.forget();
  if (qp.attributes.access) qp.access = *qp.attributes.access;
  if (qp.attributes.qkey) qp.qkey = *qp.attributes.qkey;
  if (to == QpState::rts && from == QpState::rtr) enter_rts(qp, capabilities_, config_.habits);
  if (change.timeout) qp.set_retry_delay(config_.habits.retry_timer, 0);
  qp.state = to;
  if (to == QpState::rtr || change.path || change.rate_limit) set_limit(qp);
  if (to == QpState::sqd) {
    const bool wanted = change.sq_drained_event.value_or(false);
    if (wanted && qp.drained()) raise(EventType::sq_drained, qp.number);
    qp.req.drain_event = wanted && !qp.drained();
  }
  if (to == QpState::rts) activate(qp);
  check_queue_pair(qp, early_packets_);
  return {};
}

void Engine::check_invariants() const noexcept {
#ifndef NDEBUG
  WEFT_DCHECK(owned_.size() == qps_.size());
  size_t connected = 0, users = 0;
  for (const auto& [number, qp] : owned_) {
    WEFT_DCHECK(number == qp->number.value && qps_.find(qp->number) == qp.get());
    check_queue_pair(*qp, early_packets_);
    connected += qp->destination != nullptr;
  }
  for (const std::unique_ptr<Destination>& d : destinations_.all()) {
    WEFT_DCHECK(d->users != 0 && d->window.floor <= d->window.size);
    WEFT_DCHECK(d->window.size <= d->window.limit);
    users += d->users;
    uint64_t in_flight = 0;
    uint32_t here = 0;
    for (const auto& [number, qp] : owned_) {
      if (qp->destination != d.get()) continue;
      ++here;
      in_flight += qp->req.in_flight;
    }
    WEFT_DCHECK(d->users == here && d->window.in_flight == in_flight);
  }
  WEFT_DCHECK(users == connected);
#endif
}

}  // namespace weft::roce
