// SPDX-License-Identifier: BSD-3-Clause
// See swarm.hpp. A connection that breaks is closed at both ends, with all its requests accounted
// for, and opened again with new queue pairs a little later.
#include "tests/roce/swarm/swarm.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "providers/port/middleware/fault_port.hpp"
#include "tests/roce/swarm/swarm_unreliable.hpp"

namespace weft::test {

namespace {

constexpr Duration kSafety = Duration::from_ms(400);  // virtual time
constexpr Duration kLiveness = Duration::from_s(30);
constexpr Duration kSettle = Duration::from_ms(10);  // longer than a frame is ever late
constexpr uint64_t kMaxEvents = 30'000'000;

class Swarm final : public sim::EventHandler {
 public:
  Swarm(uint64_t seed, bool hashed);
  void run();
  SwarmResult result() const;
  void on_event(Instant now, uint64_t argument) override;

 private:
  enum class Phase : uint8_t { safety, liveness, over };
  struct Connection {
    std::unique_ptr<SwarmPeer> peers[2];
    bool open = false;
    Instant open_at;
    uint32_t idle[2] = {};  // polls that found nothing
    bool posted_last[2] = {};
  };
  // Two ends of UC or UD.
  struct Couple {
    std::unique_ptr<UnreliablePeer> peers[2];
  };
  void add_station(uint32_t index);
  void add_connections();
  void add_couples();
  void open(size_t index);
  void close(Connection& connection);
  void step_until(bool (Swarm::*done)(), Duration limit, const char* what);
  bool posted_enough() { return traffic_.packets >= config_.packets; }
  bool all_idle();
  bool never() { return false; }
  void look_at_couple(Instant now, uint64_t argument);
  void look_again(Instant now, uint64_t argument, bool happened, uint32_t& idle, Duration think);
  void end_couples();
  void change_links(Instant now);
  void mend_links() noexcept;
  void check_words();
  void check_pools();

  static constexpr uint64_t kChangeLinks = UINT64_MAX;  // the argument of its events

  SwarmConfig config_;
  base::Random random_;
  base::Random link_random_;
  World world_;
  std::vector<Station*> stations_;
  std::vector<middleware::FaultPort*> faults_;
  std::vector<std::unique_ptr<Land>> lands_;
  std::vector<std::unique_ptr<SwarmReceives>> shared_;  // of each station, for UC and UD
  std::vector<Connection> connections_;
  std::vector<Couple> couples_;
  std::vector<uint32_t> couple_idle_;
  Traffic traffic_;
  Phase phase_ = Phase::safety;
  bool links_failed_ = false;
  const Station* down_ = nullptr;  // not reached
  uint64_t lost_by_down_links_ = 0;
};

Swarm::Swarm(uint64_t seed, bool hashed)
    : config_(draw_swarm(seed)), random_(seed + 77), link_random_(seed + 78), world_(seed) {
  world_.network().hash_arrivals(hashed);
  const auto count = static_cast<uint32_t>(config_.stations.size());
  for (uint32_t i = 0; i < count; ++i) add_station(i);
  size_t cable = 0;
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t j = i; j < count; ++j)
      world_.cable(*stations_[i], *stations_[j], config_.cables[cable++]);
  uint32_t largest = 0;
  for (const SwarmConnection& c : config_.connections) largest = std::max(largest, c.largest);
  for (uint32_t i = 0; i < count; ++i) {
    lands_.push_back(std::make_unique<Land>());
    lands_[i]->lay_out(*stations_[i], (largest + 262'144) & ~7u, seed * 16 + i);
  }
  add_connections();
  add_couples();
}

void Swarm::add_connections() {
  for (const SwarmConnection& c : config_.connections) {
    Connection connection;
    const QpType first = c.xrc ? QpType::xrc_initiator : QpType::rc;
    const QpType second = c.xrc ? QpType::xrc_target : QpType::rc;
    connection.peers[0] = std::make_unique<SwarmPeer>(c, first, *lands_[c.a], *lands_[c.b],
                                                      random_.next(), config_.faulty, traffic_);
    connection.peers[1] = std::make_unique<SwarmPeer>(c, second, *lands_[c.b], *lands_[c.a],
                                                      random_.next(), config_.faulty, traffic_);
    connection.peers[0]->join(*connection.peers[1]);
    connection.peers[1]->join(*connection.peers[0]);
    connections_.push_back(std::move(connection));
  }
}

void Swarm::add_couples() {
  uint32_t largest = 0;
  for (const SwarmConnection& c : config_.unreliable) largest = std::max(largest, c.largest);
  for (const std::unique_ptr<Land>& land : lands_) {
    shared_.push_back(
        std::make_unique<SwarmReceives>(*land, 32, largest + uint32_t{kNetworkHeaderLength}));
    shared_.back()->share(land->station->engine());
  }
  for (const SwarmConnection& c : config_.unreliable) {
    Couple couple;
    for (size_t side = 0; side < 2; ++side)
      couple.peers[side] = std::make_unique<UnreliablePeer>(
          c, *lands_[side == 0 ? c.a : c.b], *lands_[side == 0 ? c.b : c.a], random_.next(),
          !config_.faulty, traffic_);
    couple.peers[0]->open(*couple.peers[1], c.shares ? shared_[c.a].get() : nullptr);
    couple.peers[1]->open(*couple.peers[0], c.shares ? shared_[c.b].get() : nullptr);
    world_.connect(couple.peers[0]->endpoint(), couple.peers[1]->endpoint(), c.connect);
    couples_.push_back(std::move(couple));
  }
  couple_idle_.resize(2 * couples_.size());
}

void Swarm::add_station(uint32_t index) {
  StationOptions options = config_.stations[index];
  options.wrap = [this, index](std::unique_ptr<transport::Port> inner) {
    auto port = std::make_unique<middleware::FaultPort>(std::move(inner), config_.faults[index],
                                                        [this] { return world_.now(); });
    faults_.push_back(port.get());
    return std::unique_ptr<transport::Port>(std::move(port));
  };
  stations_.push_back(&world_.add_station(options));
}

void Swarm::open(size_t index) {
  Connection& connection = connections_[index];
  ConnectOptions options = config_.connections[index].connect;
  if (traffic_.connections >= connections_.size()) {  // again: other first PSNs
    options.psn_a = Psn{static_cast<uint32_t>(random_.below(1u << 24))};
    options.psn_b = Psn{static_cast<uint32_t>(random_.below(1u << 24))};
  }
  for (auto& peer : connection.peers) peer->open();
  world_.connect(connection.peers[0]->endpoint(), connection.peers[1]->endpoint(), options);
  connection.open = true;
  ++traffic_.connections;
}

void Swarm::close(Connection& connection) {
  for (auto& peer : connection.peers) peer->flush();
  for (auto& peer : connection.peers) peer->close();
  connection.open = false;
  connection.open_at =
      world_.now() + Duration::from_ns(static_cast<int64_t>(random_.below(200'000)));
}

// One poll of one peer.
void Swarm::on_event(Instant now, uint64_t argument) {
  if (phase_ == Phase::over) return;
  if (argument == kChangeLinks) return change_links(now);
  const size_t index = argument / 2, side = argument % 2;
  if (index >= connections_.size()) return look_at_couple(now, argument);
  Connection& connection = connections_[index];
  if (!connection.open && phase_ == Phase::safety && now >= connection.open_at) open(index);
  bool happened = false;
  if (connection.open) {
    SwarmPeer& peer = *connection.peers[side];
    bool& posted_last = connection.posted_last[side];
    happened = peer.act(phase_ == Phase::safety);
    if (phase_ == Phase::liveness && !posted_last && !peer.broken()) posted_last = peer.post_last();
    if (connection.peers[0]->broken() || connection.peers[1]->broken()) close(connection);
  }
  look_again(now, argument, happened, connection.idle[side], config_.connections[index].think);
}

void Swarm::mend_links() noexcept {
  down_ = nullptr;
  for (Station* const station : stations_) {
    station->tap().longest = UINT32_MAX;
    station->tap().refuses = false;
  }
}

// A link fault begins, or the one that there is ends.
void Swarm::change_links(Instant now) {
  mend_links();
  if (phase_ != Phase::safety) return;
  links_failed_ = !links_failed_;
  Station& station = *stations_[link_random_.below(stations_.size())];
  const uint64_t kind = link_random_.below(kLinkFaultEnd);
  uint64_t microseconds = 50 + link_random_.below(3000);
  if (links_failed_) {
    microseconds = 1 + link_random_.below(3000);
    if (kind == static_cast<uint64_t>(LinkFault::link_down)) down_ = &station;
    if (kind == static_cast<uint64_t>(LinkFault::mtu_shrink))
      station.tap().longest = 40 + static_cast<uint32_t>(link_random_.below(2000));
    if (kind == static_cast<uint64_t>(LinkFault::port_full)) station.tap().refuses = true;
  }
  world_.network().events().schedule(now + Duration::from_us(static_cast<int64_t>(microseconds)),
                                     *this, kChangeLinks);
}

void Swarm::look_at_couple(Instant now, uint64_t argument) {
  const size_t index = argument / 2 - connections_.size(), side = argument % 2;
  const bool happened = couples_[index].peers[side]->act(phase_ == Phase::safety);
  look_again(now, argument, happened, couple_idle_[2 * index + side],
             config_.unreliable[index].think);
}

// Backs off while nothing happens.
void Swarm::look_again(Instant now, uint64_t argument, bool happened, uint32_t& idle,
                       Duration think) {
  idle = happened ? 0 : std::min(idle + 1, 6u);
  const auto mean = static_cast<uint64_t>(think.ps);
  const uint64_t wait = (mean / 2 + random_.below(mean)) << idle;
  world_.network().events().schedule(now + Duration::from_ps(static_cast<int64_t>(wait)), *this,
                                     argument);
}

bool Swarm::all_idle() {
  for (const Connection& c : connections_) {
    if (!c.open) continue;
    for (size_t side = 0; side < 2; ++side)
      if (!c.posted_last[side] || !c.peers[side]->idle()) return false;
  }
  for (const Couple& c : couples_)
    if (!c.peers[0]->idle() || !c.peers[1]->idle()) return false;
  return true;
}

void Swarm::step_until(bool (Swarm::*done)(), Duration limit, const char* what) {
  const Instant end = world_.now() + limit;
  for (uint64_t i = 0;; ++i) {
    if (i % 16 == 0 && (this->*done)()) return;
    if (world_.now() > end || i > kMaxEvents) break;
    if (!world_.network().events().step()) break;
    for (const Station* station : stations_) station->engine().check_invariants();
  }
  if (what == nullptr) return;
  std::string state = what;
  for (const Connection& c : connections_)
    for (const auto& peer : c.peers) state += "\n  " + peer->describe();
  throw Violation(state);
}

void Swarm::run() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    open(i);
    for (uint64_t side = 0; side < 2; ++side)
      world_.network().events().schedule(Instant{}, *this, 2 * i + side);
  }
  for (uint64_t i = 2 * connections_.size(); i < 2 * (connections_.size() + couples_.size()); ++i)
    world_.network().events().schedule(Instant{}, *this, i);
  if (config_.links_fail) {
    for (Station* const station : stations_)
      station->tap().cut = [this](const transport::Path& path) {
        const bool lost = down_ != nullptr &&
                          (path.source == down_->address() || path.destination == down_->address());
        lost_by_down_links_ += lost;
        return lost;
      };
    change_links(world_.now());
  }
  step_until(&Swarm::posted_enough, kSafety, nullptr);
  phase_ = Phase::liveness;
  mend_links();
  for (middleware::FaultPort* port : faults_) port->change({});
  step_until(&Swarm::all_idle, kLiveness, "work did not drain after the faults had stopped");
  if (!couples_.empty()) step_until(&Swarm::never, kSettle, nullptr);
  for (Connection& connection : connections_)
    if (connection.open) close(connection);
  end_couples();
  phase_ = Phase::over;
  expect(world_.run(kMaxEvents), "events go on for ever");
  expect(world_.network().pool().lent() == 0, "a frame was never given back");
  check_words();
  check_pools();
}

// Each message was checked when it arrived; this checks the sums.
void Swarm::end_couples() {
  uint64_t missing = 0, again = 0, refused = 0, copies = 0;
  for (const Couple& couple : couples_) {
    for (const auto& peer : couple.peers) {
      peer->close();
      missing += peer->missing();
      again += peer->again();
      refused += peer->refused();
    }
  }
  for (const std::unique_ptr<SwarmReceives>& receives : shared_) receives->check_end();
  for (const middleware::FaultPort* port : faults_) copies += (*port)[middleware::Fault::dup];
  expect(again <= copies, "more messages came twice than the network doubled packets");
  if (config_.faulty) return;
  uint64_t no_receive = 0, bad_qkey = 0;
  for (const Station* station : stations_) {
    no_receive += station->count(transport::Count::rx_no_receive);
    bad_qkey += station->count(transport::Count::rx_bad_qkey);
  }
  expect(missing == no_receive, "a message was lost on a network that loses none");
  expect(refused == bad_qkey, "a datagram with a wrong Q_Key was not counted");
}

void Swarm::check_words() {
  for (const std::unique_ptr<Land>& land : lands_) {
    for (uint32_t i = 0; i < 2 * Land::kWords; ++i) {
      uint64_t value;
      std::memcpy(&value, land->station->at(land->words + 8 * i), 8);
      const std::string invalid_reason =
          i < Land::kWords ? land->added[i].invalid_reason(value)
                           : land->swapped[i - Land::kWords].invalid_reason(value);
      if (!invalid_reason.empty()) throw Violation("atomics: " + invalid_reason);
    }
  }
}

// The pool, which is only read, is unchanged.
void Swarm::check_pools() {
  for (size_t i = 0; i < lands_.size(); ++i) {
    base::Random random(config_.seed * 16 + i);
    for (size_t at = 0; at < lands_[i]->pool_size; at += 8) {
      const uint64_t word = random.next();
      expect(std::memcmp(lands_[i]->station->at(at), &word, 8) == 0,
             "memory was written that no request named");
    }
  }
}

SwarmResult Swarm::result() const {
  SwarmResult r;
  Swarm& self = const_cast<Swarm&>(*this);
  r.packets = self.world_.network().packets();
  r.hash = self.world_.network().hash().value();
  r.end = self.world_.now();
  r.traffic = traffic_;
  for (size_t i = 0; i < middleware::kFaultEnd; ++i)
    for (const middleware::FaultPort* port : faults_)
      r.faults[i] += (*port)[static_cast<middleware::Fault>(i)];
  r.link_faults[static_cast<size_t>(LinkFault::link_down)] = lost_by_down_links_;
  for (Station* const station : self.stations_) {
    r.link_faults[static_cast<size_t>(LinkFault::mtu_shrink)] += station->tap().too_long;
    r.link_faults[static_cast<size_t>(LinkFault::port_full)] += station->tap().refused;
  }
  for (size_t i = 0; i < transport::kCountEnd; ++i)
    for (const Station* station : stations_)
      r.counters[i] += station->count(static_cast<transport::Count>(i));
  return r;
}

}  // namespace

SwarmResult run_swarm(uint64_t seed, bool hashed) {
  Swarm swarm(seed, hashed);
  std::string violation;
  try {
    swarm.run();
  } catch (const Violation& v) {
    violation = v.what();
  }
  SwarmResult result = swarm.result();
  result.violation = violation;
  return result;
}

}  // namespace weft::test
