// SPDX-License-Identifier: BSD-3-Clause
// See srd_swarm_net.hpp.
#include "tests/srd/swarm/srd_swarm_net.hpp"

#include <algorithm>

namespace weft::test {

namespace {

constexpr uint32_t kMostStations = 5;

void draw_engine(base::Random& r, SrdOptions& o) {
  o.config.paths = uint32_t{1} << r.below(7);
  o.config.policy = static_cast<srd::PathChoice>(r.below(6));
  constexpr const char* kControllers[] = {"none",      "halved", "nscc",     "rccc",
                                          "nscc+rccc", "swift",  "dcqcn-nic"};
  const uint64_t controller = r.below(7);
  o.config.halve_on_loss = controller == 1;
  if (controller >= 2)
    o.config.congestion = *congestion::make_preset(
        kControllers[controller],
        {.line = Rate::from_gbps(100), .rtt = Duration::from_us(10), .network = {}});
  o.config.dead_peer_timeout = Duration::from_s(20);
  o.capabilities.active_mtu = o.capabilities.max_mtu = 256u << r.below(5);
  if (r.below(3) == 0) o.capabilities.train_frames = 16, o.capabilities.train_bytes = 60'000;
  if (r.below(3) == 0) o.config.ack_every = 2 + static_cast<uint32_t>(r.below(30));
  if (r.below(2) == 0) o.config.ack_piggyback_delay = Duration::from_us(1 + r.below(60));
}

void draw_faults(base::Random& r, middleware::FaultOptions& faults) {
  const auto some = [&r](uint32_t most) {
    return r.below(2) == 0 ? 0 : static_cast<uint32_t>(r.below(most));
  };
  faults.loss = some(100'000);
  faults.burst = some(3'000);
  faults.dup = some(50'000);
  faults.reorder = some(100'000);
  faults.corrupt = some(20'000);
  faults.truncate = some(5'000);
  faults.jitter = r.below(3) == 0 ? Duration::from_us(20) : Duration{};
  faults.reorder_time = Duration::from_us(1 + static_cast<int64_t>(r.below(200)));
}

sim::LinkOptions draw_cable(base::Random& r) {
  constexpr int64_t kGbps[] = {1, 10, 25, 100, 400};
  sim::LinkOptions link;
  link.rate = Rate::from_gbps(kGbps[r.below(5)]);
  link.delay = Duration::from_ns(static_cast<int64_t>(r.below(20'000)));
  link.queue_bytes = uint64_t{1} << (14 + r.below(7));
  link.drops = r.below(2) == 0;
  if (r.below(2) == 0) link.mark_bytes = link.queue_bytes / 4;
  return link;
}

}  // namespace

SrdSwarmConfig draw_srd_swarm(uint64_t seed) {
  base::Random r(seed * 77 + 5);
  SrdSwarmConfig c;
  SrdOptions& o = c.options;
  o.seed = seed;
  o.stations = 2 + static_cast<uint32_t>(r.below(kMostStations - 1));
  o.cq_capacity = 4096;
  draw_engine(r, o);
  draw_faults(r, o.faults);
  c.shape = static_cast<SrdSwarmConfig::Shape>(r.below(3));
  for (uint32_t i = 0; i < kMostStations * kMostStations; ++i) c.cables.push_back(draw_cable(r));
  c.buffer = uint64_t{1} << (16 + r.below(6));
  c.spines.spines = 1u << r.below(5);
  c.spines.spine_gbps = 10 + static_cast<int64_t>(r.below(90));
  for (int64_t& delay : c.spines.delays_us = std::vector<int64_t>(8))
    delay = 1 + static_cast<int64_t>(r.below(r.below(2) == 0 ? 4 : 40));
  if (r.below(2) == 0) c.parked_one_in = 50 + static_cast<uint32_t>(r.below(400));
  if (r.below(4) == 0) c.rnr_retry = static_cast<uint8_t>(r.below(7));
  if (r.below(2) == 0) c.flawed_ppm = 20'000;
  if (r.below(2) == 0) c.disturbed_ppm = 40'000;
  c.requests = 8000;
  if (r.below(2) == 0) o.rails = 2 + static_cast<uint32_t>(r.below(2));
  c.crossed = r.below(2) == 0;
  return c;
}

SrdSwarmNet::SrdSwarmNet(const SrdSwarmConfig& config, uint64_t seed)
    : random_(seed + 99), parked_one_in_(config.parked_one_in) {
  for (uint32_t i = 0; i < config.options.stations; ++i)
    stations.push_back(std::make_unique<SrdStation>(network, i, config.options));
  dead_.resize(stations.size());
  connect(config);
}

void SrdSwarmNet::connect(const SrdSwarmConfig& config) {
  size_t cable = 0;
  const uint32_t rails = config.options.rails;
  for (size_t i = 0; i < stations.size(); ++i)
    for (size_t j = i; j < stations.size(); ++j)
      for (uint32_t r = 0; r < rails; ++r)
        for (uint32_t s = i == j ? r : 0; s < rails; ++s)
          if (i == j ||
              (config.shape == SrdSwarmConfig::Shape::cables && (r == s || config.crossed)))
            network.connect(stations[i]->host(r), stations[j]->host(s),
                            config.cables[cable++ % config.cables.size()]);
  if (config.shape == SrdSwarmConfig::Shape::star)
    switch_ = star_of(network, stations, config.buffer);
  if (config.shape != SrdSwarmConfig::Shape::spines) return;
  sim::LinkOptions link;
  link.queue_bytes = 4u << 20;
  exit_ = std::make_unique<Exit>(network, link);
  leaf_ = std::make_unique<Leaf>(network, *exit_, config.spines);
  for (auto& station : stations) {
    for (uint32_t rail = 0; rail < rails; ++rail) {
      exit_->lead_to(station->host(rail));
      network.uplink(station->host(rail), *leaf_, link);
    }
  }
}

bool SrdSwarmNet::dead(const Gid& address) const {
  for (size_t i = 0; i < stations.size(); ++i)
    for (uint32_t rail = 0; rail < stations[i]->rails(); ++rail)
      if (dead_[i][rail] && stations[i]->host(rail).address() == address) return true;
  return false;
}

// The frame itself goes on, or only its copy arrives; at a time from a microsecond to seconds.
void SrdSwarmNet::park_from(size_t i) {
  TapPort& tap = *stations[i]->life().tap;
  if (stations[i]->rails() > 1)
    tap.cut = [this](const transport::Path& path) {
      return any_dead_ && (dead(path.source) || dead(path.destination));
    };
  if (parked_one_in_ == 0) return;
  tap.every = parked_one_in_;
  tap.filter = [this](const SentFrame& frame) {
    if (calm_) return true;
    const Duration wait = Duration::from_us(int64_t{1} << random_.below(22));
    frames_.push_back(std::make_unique<SentFrame>(frame));
    ++parked_;
    count(Disturbance::parked);
    network.events().schedule(network.now() + wait, *this, frames_.size() - 1);
    return random_.below(2) == 0;
  };
}

void SrdSwarmNet::on_event(Instant, uint64_t argument) {
  const std::unique_ptr<SentFrame> frame = std::move(frames_[argument]);
  --parked_;
  for (auto& station : stations)
    for (uint32_t rail = 0; rail < station->rails(); ++rail)
      if (station->host(rail).address() == frame->path.destination) station->inject(*frame);
}

void SrdSwarmNet::disturb_rail(base::Random& random) {
  const size_t i = random.below(stations.size());
  std::array<bool, kMostRails>& dead = dead_[i];
  const size_t rail = random.below(stations[i]->rails());
  const uint32_t used = stations[i]->options().rails;
  dead[rail] = !dead[rail];
  count(Disturbance::rail_cut);
  if (std::find(dead.begin(), dead.begin() + used, false) == dead.begin() + used)
    dead[rail] = false;
  any_dead_ = true;
}

void SrdSwarmNet::disturb(base::Random& random) {
  if (stations[0]->rails() > 1 && random.below(2) == 0) return disturb_rail(random);
  if (leaf_ == nullptr) return;
  const size_t spine = random.below(leaf_->cut.size());
  switch (random.below(3)) {
    case 0:
      // One always works.
      if (spine == 0) break;
      leaf_->cut[spine] = !leaf_->cut[spine];
      count(Disturbance::spine_cut);
      break;
    case 1:
      leaf_->loss_ppm[spine] = static_cast<uint32_t>(random.below(200'000));
      count(Disturbance::spine_loss);
      break;
    default:
      leaf_->salt = static_cast<uint32_t>(random.next());
      count(Disturbance::reroute);
  }
}

void SrdSwarmNet::mend() {
  any_dead_ = false;
  dead_.assign(dead_.size(), {});
  if (leaf_ != nullptr) leaf_->cut.assign(leaf_->cut.size(), false);
}

void SrdSwarmNet::calm() {
  calm_ = true;
  for (auto& station : stations) station->life().fault->change({});
  mend();
  if (leaf_ != nullptr) leaf_->loss_ppm.assign(leaf_->loss_ppm.size(), 0);
}

}  // namespace weft::test
