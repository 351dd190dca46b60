// SPDX-License-Identifier: BSD-3-Clause
// Life of a queue pair: creation with a random number, the walk through its states, destruction.
// These calls may allocate; the data path never does.
#include <algorithm>
#include <bit>

#include "lib/base/undo.hpp"
#include "lib/roce/engine.hpp"
#include "lib/roce/rc/rc.hpp"
#include "lib/transport/qp_attributes.hpp"

namespace weft::roce {

namespace {
wire::OpClass service_of(QpType type) noexcept {
  using wire::OpClass;
  constexpr OpClass kServices[] = {OpClass::rc,      OpClass::uc,  OpClass::ud,
                                   OpClass::unknown, OpClass::xrc, OpClass::xrc};
  return kServices[static_cast<size_t>(type)];
}
}  // namespace

Result<QueuePair*> Engine::create_qp(const QpConfig& config) {
  if (config.type == QpType::srd)  //= roce:C-OPS-93
    return Error{
        Code::not_supported,
        "provider roce has RC, UC, UD and XRC queue pairs: set QueuePairOptions::type to one "
        "of them, or open an srd device"};
  if (const Result<void> ok = check(config, config_.limits); !ok) return ok.error();
  if (owned_.size() >= std::min(config_.limits.max_qp, number_order_.count() - 1))
    return Error{Code::no_memory, "the device has all its queue pairs in use"};
  const QpNum number = choose_number();
  std::unique_ptr<QueuePair> qp(new QueuePair);
  qp->number = number;
  qp->type = config.type;
  qp->service = service_of(config.type);
  qp->established = config.type == QpType::ud;
  qp->domain = config.domain;
  qp->send_cq = config.send_cq;
  qp->recv_cq = config.recv_cq;
  qp->max_inline = config.max_inline;
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
    qp->rq.create(std::max(1u, config.max_recv_wr), std::max(1u, config.max_recv_sge), 0);
  if (!config.congestion.empty())
    if (const Result<void> ok = choose_controller(*qp, config.congestion); !ok) return ok.error();
  if (config.type == QpType::ud) qp->datagrams.reset(new Datagram[qp->sq.slots()]);
  QueuePair* const raw = qp.get();
  owned_[number.value] = std::move(qp);
  base::Undo undo([&] { owned_.erase(number.value); });
  qps_.insert(number, raw);
  undo.forget();
  return raw;
}

// The device's preset, with its parameters, if that is of the same name.
Result<void> Engine::choose_controller(QueuePair& qp, std::string_view name) {
  const Result<congestion::Preset> preset = congestion::make_preset(name, config_.conditions);
  if (!preset) return preset.error();
  if (preset->kind->sprayed)
    return Error{Code::not_supported, std::string(name) +
                                          " is for packets over many paths, which "
                                          "RoCEv2 does not have; try hpcc or swift"};
  const std::optional<congestion::Preset>& ours = config_.congestion;
  const bool same = ours && ours->kind == preset->kind && ours->windowed == preset->windowed;
  qp.preset = std::make_unique<congestion::Preset>(same ? *ours : *preset);
  return {};
}

Result<std::unique_ptr<SharedReceives>> Engine::create_shared_receives(
    uint32_t domain, const SharedReceiveQueueOptions& o, const XrcBinding& xrc) {
  const Limits& limits = config_.limits;
  if (o.max_recv_wr == 0 || o.max_recv_wr > limits.max_qp_wr || o.max_recv_sge > limits.max_sge)
    return Error{Code::invalid_argument, "SharedReceiveQueueOptions::max_recv_wr must be 1.." +
                                             std::to_string(limits.max_qp_wr) +
                                             " and max_recv_sge at most " +
                                             std::to_string(limits.max_sge)};
  std::unique_ptr<SharedReceives> pool(new SharedReceives);
  // As those of queue pairs: 24 bits, the part of this engine.
  const Port::QpnRange range = port_.qpn_range();
  do pool->number = range.first + pools_made_++ % range.count;
  while (pool->number == 0 || find_pool(pool->number) != nullptr);
  pool->domain = domain;
  pool->xrc_domain = xrc.domain;
  pool->cq = xrc.cq;
  pool->ring.create(o.max_recv_wr, std::max(1u, o.max_recv_sge), 0);
  if (xrc.domain != 0) pools_[pool->number] = pool.get();
  return pool;
}

void Engine::withdraw(SharedReceives& pool) noexcept {
  if (pools_.erase(pool.number) == 0) return;
  for (const auto& [number, qp] : owned_)
    if (qp->shared == &pool) leave_pool(*qp);
}

// Numbers come in a secret order of the whole range, so none can be guessed from others and none
// comes again before all had their turn. //= threat:A03
QpNum Engine::choose_number() noexcept {
  const uint32_t first = port_.qpn_range().first;
  for (;;) {
    if (numbers_drawn_ == number_order_.count()) {
      number_order_ = base::Permutation(number_order_.count(), random_);
      numbers_drawn_ = 0;
    }
    const QpNum number{first + number_order_(numbers_drawn_++)};
    if (number.value != 0 && qps_.find(number) == nullptr) return number;
  }
}

//= roce:C-STATE-67 its completions stay, its number does not come again soon
void Engine::destroy_qp(QueuePair* qp) noexcept {
  const QpNum number = qp->number;
  for (Gid group; groups_.any_of(*qp, group);) (void)detach_multicast(*qp, group);
  reset_qp(*qp);
  release_destination(*qp);
  port_.forget(number);
  qps_.erase(number);
  owned_.erase(number.value);
}

Result<void> Engine::attach_multicast(QueuePair& qp, const Gid& group) {
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
  qp.res.ack_patience.hasten(turn_);
  acks_due_ = turn_;
  activate(qp);
  return true;
}

void Engine::remove_from_lists(QueuePair& qp) noexcept {
  active_.remove(qp);
  acks_.remove(qp);
  notices_.remove(qp);
  handed_.remove(qp);
  if (qp.destination != nullptr) qp.destination->line.remove(qp);
  wheel_.remove(qp.timer);
}

//= roce:C-STATE-66 no completion for what is cleared, the number stays
void Engine::reset_qp(QueuePair& qp) noexcept {
  if (qp.destination != nullptr) qp.destination->window.forget(qp.req.in_flight);
  remove_from_lists(qp);
  if (qp.destination != nullptr) wake_waiting(*qp.destination);
  if (qp.shared != nullptr) return_receive(qp);
  if (qp.type == QpType::xrc_target) leave_pool(qp);
  keys_.release(qp.number.value);
  qp.sq.clear();
  qp.rq.clear();
  early_.clear(qp.res.gap.early);
  qp.telemetry = false;
  qp.req = Requester{};
  qp.res = Responder{};
  qp.req.next_index = qp.sq.tail();
  qp.established = qp.type == QpType::ud;
  qp.access = Access::none;
  qp.attributes = {};
  qp.state = QpState::reset;
}

Destination* Engine::acquire_destination(const Gid& address) {
  for (const std::unique_ptr<Destination>& d : destinations_) {
    if (d->address == address) return ++d->users, d.get();
  }
  std::unique_ptr<Destination> d(new Destination);
  d->address = address;
  d->users = 1;
  d->packet_overhead = capabilities_.packet_overhead;
  d->window = Window::of(capabilities_.in_flight_limit);
  destinations_.push_back(std::move(d));
  return destinations_.back().get();
}

void Engine::release_destination(QueuePair& qp) noexcept {
  Destination* const d = qp.destination;
  qp.destination = nullptr;
  if (d == nullptr || --d->users != 0) return;
  const auto owns = [d](const std::unique_ptr<Destination>& p) { return p.get() == d; };
  destinations_.erase(std::find_if(destinations_.begin(), destinations_.end(), owns));
}

void Engine::note_violation(const QueuePair& qp) noexcept {
  count(Count::access_errors);
  violations_.note(qp.path.destination, time());
}

// INIT -> RTR: the responder is set up. //= roce:C-AV-95
Result<void> Engine::enter_rtr(QueuePair& qp) {
  const QueuePairAttributes& a = qp.attributes;
  const AddressVector to = a.path.value_or(AddressVector{});  // none: UD
  if (config_.throttle && violations_.too_many(to.destination, time())) {
    count(Count::connects_throttled);
    return Error{Code::busy, to_string(to.destination) +
                                 " has used wrong keys on eight connections within a second: "
                                 "connect again in a second, and see why it does"};
  }
  qp.peer = a.dest_qpn.value_or(QpNum{});
  const uint32_t mtu = a.path_mtu.value_or(capabilities_.active_mtu);
  qp.mtu_shift = static_cast<uint8_t>(std::countr_zero(mtu));
  qp.path = Path{};
  qp.path.source = port_.address();
  qp.path.destination = to.destination;
  qp.path.traffic_class = to.traffic_class;
  qp.path.hop_limit = to.hop_limit;
  //= roce:C-AV-96 stable per queue pair, spread over the ports
  const uint32_t entropy = to.flow_label != 0 ? to.flow_label : qp.number.value * 2654435761u >> 8;
  qp.path.source_port = port_.source_port(static_cast<uint16_t>(0xC000 | (entropy & 0x3FFF)), 0);
  qp.res.expected = qp.res.told_by_acks = a.rq_psn.value_or(Psn{});
  if (!qp.reliable()) return {};
  if (a.telemetry.value_or(false)) {
    qp.telemetry = true;
    qp.path.destination_port = wire::kIntUdpPort;
    qp.res.echo = std::make_unique<wire::IntBlock>();
    qp.res.echo->flags = wire::kIntEcho;
  }
  const congestion::Preset* const preset = qp.preset            ? qp.preset.get()
                                           : config_.congestion ? &*config_.congestion
                                                                : nullptr;
  if (preset != nullptr) {
    if (!host_queue_) host_queue_.emplace(preset->line_rate, preset->base_rtt_ns);
    qp.req.pacer = std::make_unique<rc::Pacer>(*preset, *host_queue_, config_.pacing_quantum,
                                               config_.frame_overhead, qp.telemetry);
    if (a.max_dest_rd_atomic.value_or(0) != 0) qp.req.pacer->expect_reads();
    if ((qp.path.traffic_class & 3) == 0) qp.path.traffic_class |= 2;  //= roce:C-CC-101 ECT(0)
  }
  release_destination(qp);
  qp.destination = acquire_destination(qp.path.destination);
  const uint32_t reads = a.max_dest_rd_atomic.value_or(0);  // an XRC initiator answers nothing
  if (reads != 0) {
    qp.res.resources.reset(new Resource[reads]);
    qp.res.reply_order.reset(new uint8_t[reads]);
  }
  qp.res.resource_count = reads;
  return {};
}

// RTR -> RTS: the requester is set up.
void Engine::enter_rts(QueuePair& qp) {
  const QueuePairAttributes& a = qp.attributes;
  Requester& req = qp.req;
  // Wide PSNs start one wrap up, so that none ever falls below zero.
  req.una = req.next = req.sent_end = req.post_end = (uint64_t{1} << 24) + a.sq_psn->value;
  req.next_index = qp.sq.tail();
  if (!qp.reliable() || qp.type == QpType::xrc_target) return;
  req.retries_left = *a.retry_count;
  req.rnr_left = *a.rnr_retry;
  const uint32_t reads = std::bit_ceil(std::max<uint32_t>(1, *a.max_rd_atomic));
  req.reads.reset(new uint64_t[reads]);
  req.reads_mask = reads - 1;
  // Half of the window may be on the way for one READ request.
  const uint64_t chunk = capabilities_.in_flight_limit / 2 / qp.mtu();
  req.read_chunk = std::bit_floor(static_cast<uint32_t>(std::clamp<uint64_t>(chunk, 1, 64)));
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
    release_destination(qp);
    return {};
  }
  if (to == QpState::err) {
    enter_error(*this, qp);
    return {};
  }
  const QueuePairAttributes before = qp.attributes;
  merge(qp.attributes, change);
  if (to == QpState::rtr && from == QpState::init) {
    if (const Result<void> ok = enter_rtr(qp); !ok) {
      qp.attributes = before;
      return ok;
    }
  }
  if (qp.attributes.access) qp.access = *qp.attributes.access;
  if (qp.attributes.qkey) qp.qkey = *qp.attributes.qkey;
  if (to == QpState::rts && from == QpState::rtr) enter_rts(qp);
  qp.state = to;
  if (to == QpState::sqd) {
    const bool wanted = change.sq_drained_event.value_or(false);
    if (wanted && qp.drained()) raise(EventType::sq_drained, qp.number);
    qp.req.drain_event = wanted && !qp.drained();
  }
  if (to == QpState::rts) activate(qp);
  return {};
}

}  // namespace weft::roce
