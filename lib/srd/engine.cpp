// SPDX-License-Identifier: BSD-3-Clause
// The four calls of the packet side, and the lists and timers they are in.
#include "lib/srd/engine.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::srd {

namespace {
constexpr size_t kMostReplies = 256;
constexpr uint32_t kBlockBits = 16;

std::optional<HostQueue> queue_of(const Config& config) {
  if (!config.congestion || config.congestion->kind->signal != congestion::Signal::digest)
    return std::nullopt;
  return HostQueue(config.congestion->line_rate, config.congestion->base_rtt_ns);
}
}  // namespace

Engine::Engine(Port& port, const Config& config, base::SecureRandom& random)
    : Machine(port, random),
      config_(config),
      mtu_(capabilities_.active_mtu),
      wheel_(config.start),
      number_order_(0xFFFF, random),
      peer_table_(64),
      messages_(random.next32()),
      own_queue_(queue_of(config_)),
      flow_rules_{.preset = config_.congestion ? &*config_.congestion : nullptr,
                  .own_queue = own_queue_ ? &*own_queue_ : nullptr,
                  .halves = !config_.congestion && config_.halves,
                  .absorbed = capabilities_.in_flight_limit,
                  .packet_overhead = capabilities_.packet_overhead,
                  .mtu = mtu_},
      pacer_(config_.credit) {
  // All our QPNs have the same top 8 bits: with the address they name this device.
  const Port::QpnRange range = port.qpn_range();
  block_ = (range.first + (1u << kBlockBits) - 1) >> kBlockBits;
  opened_ = config.epoch != 0 ? config.epoch : 1;
  find_source_ports();
  replies_.reserve(kMostReplies);
  paths_.resize(std::max(64u, capabilities_.burst));
  for (uint32_t& word : secret_) word = random.next32();
  aliases_ = decltype(aliases_)(0, AliasHash{uint64_t{secret_[0]} << 32 | secret_[1]});
}

Engine::~Engine() = default;

// For each address as many different ones as are wanted, or as the port has for all of them.
void Engine::find_source_ports() {
  addresses_.push_back(port_.address());
  const std::span<const Gid> further = port_.further_addresses();
  addresses_.insert(addresses_.end(), further.begin(), further.end());
  WEFT_CHECK(further.size() <= wire::kSrdMostRails);
  uses_rails_ = addresses_.size() > 1;
  entropies_ = std::clamp(config_.paths, 1u, kMostPaths);
  std::vector<std::vector<uint16_t>> found(addresses_.size());
  for (uint32_t rail = 0; rail < found.size(); ++rail) {
    std::vector<uint16_t>& ports = found[rail];
    const uint32_t enough = entropies_;
    for (uint32_t i = 0; i < 16 * enough && ports.size() < enough; ++i) {
      const auto wanted = static_cast<uint16_t>(0xC000 + (random_.next32() & 0x3FFF));
      const uint16_t got = port_.source_port(wanted, rail);
      if (std::find(ports.begin(), ports.end(), got) == ports.end()) ports.push_back(got);
    }
    entropies_ = std::min(entropies_, static_cast<uint32_t>(ports.size()));
  }
  for (const std::vector<uint16_t>& ports : found)
    source_ports_.insert(source_ports_.end(), ports.begin(), ports.begin() + entropies_);
}

void Engine::receive(std::span<const Frame> frames, Instant now) noexcept {
  now_ = now;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + 1 < frames.size()) __builtin_prefetch(frames[i + 1].bytes);
    receive_one(frames[i], now);
  }
  make_grants(now);
}

size_t Engine::transmit(std::span<TxFrame> frames, Instant now) noexcept {
  now_ = now;
  builder_.begin_burst(frames.first(std::min(frames.size(), paths_.size())));
  paths_used_ = 0;
  bulk_posted_ = false;
  send_replies();
  send_calls(now);
  // Before data: who sends all the time would answer no one else, and those wait for it.
  if (config_.answer_first.ps == 0 || acks_first_) send_acks(now);
  // One turn for each peer that has something, then again while there is room.
  while (!active_.empty() && room()) {
    Peer& peer = active_.pop();
    const size_t before = builder_.count();
    send_peer(peer, now);
    let_wait_behind(peer, builder_.count() - before);
  }
  send_due_acks(now);
  acks_first_ = !room();
  ++turn_;
  counters_.add(Count::tx_bytes, builder_.bytes());
  counters_.add(Count::tx_packets, builder_.count());
  return builder_.count();
}

void Engine::expire(Instant now) noexcept {
  while (base::TimerNode* node = wheel_.pop_expired(now))
    on_timer(*static_cast<PeerTimer*>(node)->owner, now);
  make_grants(now);
  end_promises(now);
  next_deadline_ = std::min({wheel_.next_deadline(), grant_at_, lapse_at_});
}

// May fire early: on_timer looks at what is really due.
void Engine::arm(Peer& peer, Instant deadline) noexcept {
  if (deadline.is_never()) return;
  if (peer.timer.armed()) {
    if (peer.timer.deadline <= deadline) return;
    wheel_.remove(peer.timer);
  }
  wheel_.insert(peer.timer, deadline);
  next_deadline_ = std::min(next_deadline_, deadline);
}

uint32_t Engine::epoch_at(Instant now) const noexcept {
  const uint32_t epoch = opened_ + static_cast<uint32_t>((now - config_.start).ms());
  return epoch != 0 ? epoch : 1;
}

void Engine::activate(Peer& peer) noexcept { active_.push(peer); }

void Engine::complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                      bool solicited) noexcept {
  if (deliver(qp.number, cq, completion, solicited) || qp.state == QpState::err) return;
  qp.state = QpState::err;
  raise(EventType::qp_fatal, qp.number);
}

}  // namespace weft::srd
