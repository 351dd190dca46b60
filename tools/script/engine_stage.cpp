// SPDX-License-Identifier: BSD-3-Clause
// The engine in virtual time (engine_stage.hpp).
#include "tools/script/engine_stage.hpp"

#include <cstring>

#include "lib/roce/profiles.hpp"

namespace weft::script {

namespace {

constexpr uint32_t kDomain = 1, kXrcDomain = 2, kForeignXrcDomain = 3;
constexpr uint64_t kSeed = 1;
constexpr int kMaxTurns = 10'000;  // per moment: an engine that never becomes idle is broken

// Addresses of the two ends: `last` is 1 or 2.
Gid address_of(bool ipv6, uint8_t last) {
  if (!ipv6) return Gid::from_ipv4(10, 0, 0, last);
  Gid gid;  // of the unique local addresses
  gid.bytes[0] = 0xFD;
  gid.bytes[15] = last;
  return gid;
}

transport::Capabilities wire_capabilities() {
  transport::Capabilities c;
  c.ecn = true;
  return c;
}

void must(const Result<void>& result) {
  if (!result) throw ScriptError(result.error().message);
}

void must(const PostStatus& status) {
  if (!status) throw ScriptError(std::string("refused: ") + status.reason);
}

// The peer's memory; only its addresses and key are used.
Side make_peer(bool ipv6, Psn first) {
  Side peer;
  peer.address = address_of(ipv6, 1);
  peer.qpn = QpNum{0x5C0001};
  peer.first = first;
  peer.memory = 0x0000'5C00'0000'0000;
  peer.key = RKey{0x5C5C5C5C};
  peer.srq = 0x5C;
  return peer;
}

}  // namespace

ListPort::ListPort(const Gid& address) : address_(address), capabilities_(wire_capabilities()) {}

std::unique_ptr<Stage> engine_stage() { return std::make_unique<EngineStage>(); }

Meeting EngineStage::meet(const QpText& qp, Psn peer_first, Psn end_first) {
  port_ = std::make_unique<ListPort>(address_of(qp.ipv6, 2));
  random_ = std::make_unique<base::SecureRandom>(kSeed);
  roce::EngineConfig config;
  if (!qp.profile.empty()) roce::apply(*roce::find_profile(qp.profile), config);
  config.credits = qp.credits || (!qp.profile.empty() && config.credits);
  config.conditions.line = {int64_t{qp.line_mbps} * 1'000'000};
  engine_ = std::make_unique<roce::Engine>(*port_, config, *random_);
  memory_.resize(kMemory);
  key_ = engine_->keys().insert(memory_.data(), memory_.size(), qp.region, kDomain);
  send_cq_ = std::make_unique<transport::CompletionQueue>(4096);
  recv_cq_ = std::make_unique<transport::CompletionQueue>(4096);
  transport::QpConfig options;
  options.type = qp.type;
  options.domain = kDomain;
  options.send_cq = send_cq_.get();
  options.recv_cq = recv_cq_.get();
  options.max_send_wr = options.max_recv_wr = qp.depth;
  if (qp.type == QpType::xrc_target) {
    options.xrc_domain = kXrcDomain;
    const auto make = [&](uint32_t xrc) {
      return std::move(*engine_->create_shared_receives(kDomain, {.max_recv_wr = qp.depth},
                                                        {xrc, recv_cq_.get()}));
    };
    pool_ = make(kXrcDomain);
    foreign_pool_ = make(kForeignXrcDomain);
  }
  Result<roce::QueuePair*> made = engine_->create_qp(options);
  if (!made) throw ScriptError(made.error().message);
  qp_ = *made;
  Meeting meeting;
  meeting.peer = make_peer(qp.ipv6, peer_first);
  meeting.end = {port_->address(), qp_->number, end_first,
                 reinterpret_cast<uint64_t>(memory_.data()), RKey{key_}};
  if (pool_ != nullptr) meeting.end.srq = pool_->number;
  walk(qp, meeting);
  return meeting;
}

void EngineStage::walk(const QpText& qp, const Meeting& meeting) {
  QueuePairAttributes init{.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}};
  to_peer_ = {.destination = meeting.peer.address,
              .flow_label = qp.flow_label,
              .hop_limit = qp.ttl,
              .traffic_class = static_cast<uint8_t>(qp.dscp << 2),
              .source_port = qp.udp_source};
  to_rtr_ = {.state = QpState::rtr};
  to_rts_ = {.state = QpState::rts, .sq_psn = meeting.end.first};
  if (qp.rate_mbps != 0)
    to_rts_.rate_limit =
        RateLimit{.rate = {int64_t{qp.rate_mbps} * 1'000'000}, .max_burst = qp.max_burst};
  if (qp.type == QpType::ud) {
    init.qkey = meeting.end.qkey;
  } else {
    init.access = qp.access;
    to_rtr_.path = to_peer_;
    to_rtr_.path_mtu = qp.mtu;
    to_rtr_.dest_qpn = meeting.peer.qpn;
    to_rtr_.rq_psn = meeting.peer.first;
  }
  if (qp.type == QpType::rc || qp.type == QpType::xrc_target) {
    to_rtr_.max_dest_rd_atomic = qp.max_rd;
    to_rtr_.min_rnr_timer = qp.min_rnr_timer;
    if (qp.selective) to_rtr_.selective_repeat = true;
  }
  if (qp.type == QpType::rc || qp.type == QpType::xrc_initiator) {
    to_rts_.max_rd_atomic = qp.max_rd;
    to_rts_.timeout = qp.timeout;
    to_rts_.retry_count = qp.retry;
    to_rts_.rnr_retry = qp.rnr_retry;
  }
  if (qp.state == QpState::reset) return;
  must(engine_->modify_qp(*qp_, init));
  if (qp.state == QpState::init) return;
  must(engine_->modify_qp(*qp_, to_rtr_));
  if (qp.state == QpState::rtr) return;
  must(engine_->modify_qp(*qp_, to_rts_));
  if (qp.state != QpState::rts) must(engine_->modify_qp(*qp_, {.state = qp.state}));
}

std::byte* EngineStage::at(uint64_t offset, size_t size) {
  if (offset > kMemory || size > kMemory - offset)
    throw ScriptError("the end's memory has " + std::to_string(kMemory) + " bytes");
  return memory_.data() + offset;
}

void EngineStage::take(const transport::TxFrame& frame) {
  ReceivedPacket received;
  received.path = *frame.path;
  received.path.traffic_class =
      static_cast<uint8_t>((frame.path->traffic_class & 0xFC) | frame.ecn);
  received.ip_id = frame.ip_id;
  received.at = now_;
  received.bytes.assign(frame.head, frame.head + frame.head_length);
  for (uint8_t i = 0; i < frame.span_count; ++i)
    received.bytes.insert(received.bytes.end(), frame.spans[i].data,
                          frame.spans[i].data + frame.spans[i].length);
  received.bytes.insert(received.bytes.end(), frame.tail, frame.tail + frame.tail_length);
  received_.push_back(std::move(received));
}

void EngineStage::turn() {
  if (engine_->next_deadline() <= now_) engine_->expire(now_);
  transport::TxFrame frames[64];
  for (int i = 0; engine_->wants_transmit(); ++i) {
    if (i == kMaxTurns) throw ScriptError("the engine reports packets to send, but emits none");
    const size_t n = engine_->transmit(frames, now_);
    for (size_t k = 0; k < n; ++k) take(frames[k]);
  }
  for (const bool receive : {false, true}) {
    Completion c;
    while ((receive ? recv_cq_ : send_cq_)->pop({&c, 1}) != 0)
      outcomes_.push_back({receive, c.status, c.id, c.byte_count, c.imm_or_key});
  }
}

bool EngineStage::until(const std::function<bool()>& something, Duration limit) {
  const Instant end = now_ + limit;
  for (;;) {
    turn();
    if (something()) return true;
    const Instant next = engine_->next_deadline();
    if (next > end) break;
    now_ = std::max(now_, next);
  }
  now_ = end;
  return false;
}

void EngineStage::say(const Bytes& bytes, const Meeting& meeting, const Draft& draft) {
  turn();
  const Bytes enclosed = enclose(bytes, meeting, draft);
  wire::Outer outer;
  wire::Transport inner;
  if (wire::parse_outer(enclosed.data(), static_cast<uint32_t>(enclosed.size()), outer, inner) !=
      wire::OuterError::none)
    return;                     // a port drops it
  if (outer.vlan != 0) return;  // of another network: this port has no VLAN
  const transport::Path path{.source = outer.source,
                             .destination = outer.destination,
                             .source_port = outer.source_port,
                             .traffic_class = outer.traffic_class,
                             .hop_limit = outer.hop_limit};
  const transport::Frame frame{.path = &path,
                               .bytes = inner.bytes,
                               .length = inner.length,
                               .ip_id = outer.ip_id,
                               .ecn = static_cast<uint8_t>(outer.traffic_class & 3)};
  engine_->receive({&frame, 1}, now_);
  turn();
}

std::optional<ReceivedPacket> EngineStage::expect(Duration limit) {
  if (!until([this] { return !received_.empty(); }, limit)) return {};
  ReceivedPacket received = std::move(received_.front());
  received_.pop_front();
  return received;
}

std::optional<Outcome> EngineStage::done(Duration limit) {
  if (!until([this] { return !outcomes_.empty(); }, limit)) return {};
  const Outcome outcome = outcomes_.front();
  outcomes_.pop_front();
  return outcome;
}

// Allocates from the upper half of the memory, cyclically.
uint64_t EngineStage::own_place(uint32_t length) {
  if (own_next_ + length > kMemory) own_next_ = kMemory / 2;
  const uint64_t place = own_next_;
  own_next_ += (length + 63) / 64 * 64;
  return place;
}

void EngineStage::post(const Post& post, const Meeting& meeting) {
  const uint64_t from = post.from ? *post.from : post.data ? own_place(post.length) : 0;
  const Sge piece{at(from, post.length), post.length, LKey{key_}};
  SendRequest request = post.request;
  if (post.data) fill(from, *post.data);
  request.sges = {&piece, 1};
  request.remote_address += meeting.peer.memory;
  request.rkey = meeting.peer.key;
  if (request.remote_srq == 0 && is_xrc(qp_->type)) request.remote_srq = meeting.peer.srq;
  const AddressHandle handle(to_peer_);
  if (qp_->type == QpType::ud) {
    request.to = &handle;
    request.remote_qpn = meeting.peer.qpn;
    request.remote_qkey = meeting.peer.qkey;
  }
  must(engine_->post_send(*qp_, {&request, 1}, now_));
  turn();
}

void EngineStage::receive(const Receive& receive) {
  const Sge piece{at(receive.from, receive.length), receive.length, LKey{key_}};
  const RecvRequest request{receive.id, {&piece, 1}};
  must(pool_ != nullptr ? engine_->post_recv(*pool_, {&request, 1})
                        : engine_->post_recv(*qp_, {&request, 1}));
  turn();
}

void EngineStage::fill(uint64_t offset, const Bytes& data) {
  std::byte* to = at(offset, data.size());
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
}

Bytes EngineStage::memory(uint64_t offset, size_t size) {
  const std::byte* from = at(offset, size);
  return {from, from + size};
}

void EngineStage::modify(QpState state) {
  QueuePairAttributes change{.state = state};
  if (state == QpState::rtr) change = to_rtr_;
  if (state == QpState::rts && qp_->state == QpState::rtr) change = to_rts_;
  must(engine_->modify_qp(*qp_, change));
  turn();
}

uint64_t EngineStage::count(const std::string& name) {
  turn();
  for (size_t i = 0; i < transport::kCountEnd; ++i)
    if (transport::kCountNames[i] == name)
      return engine_->counters()[static_cast<transport::Count>(i)];
  throw ScriptError("there is no counter " + name + " (weft_script words lists them)");
}

std::string EngineStage::event() {
  turn();
  AsyncEvent event;
  return engine_->next_event(event) ? std::string(name(event.type)) : "";
}

void EngineStage::wait(Duration time) {
  until([] { return false; }, time);
}

}  // namespace weft::script
