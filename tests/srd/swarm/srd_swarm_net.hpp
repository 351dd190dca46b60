// SPDX-License-Identifier: BSD-3-Clause
// What one seed of the SRD swarm runs on: stations, the configuration of their engines, the links
// between them and what it does to packets, all drawn from the seed. Each kind of fault is on or
// off by its own coin. Copies of some packets are parked, and arrive when everything else has moved
// on.
#pragma once

#include <array>
#include <string_view>

#include "tests/srd/srd_spines.hpp"

namespace weft::test {

struct SrdSwarmConfig {
  enum class Shape : uint8_t { cables, star, spines };
  SrdOptions options;
  Shape shape = Shape::cables;
  std::vector<sim::LinkOptions> cables;  // one per pair of stations
  bool crossed = false;                  // cables also between different rails
  uint64_t buffer = 0;                   // of the star's switch
  SpineOptions spines;
  uint32_t parked_one_in = 0;  // 0: none
  uint8_t rnr_retry = 7;
  uint32_t flawed_ppm = 0;     // requests that must fail
  uint32_t disturbed_ppm = 0;  // moments at which something happens to a station
  uint64_t requests = 0;
};

SrdSwarmConfig draw_srd_swarm(uint64_t seed);

// What happens to stations and routes, besides the faults of packets.
enum class Disturbance : uint8_t {
  silence,
  pause,
  failure,
  restart,
  spine_cut,
  spine_loss,
  reroute,
  rail_cut,
  parked,
  end_
};
inline constexpr size_t kDisturbanceEnd = static_cast<size_t>(Disturbance::end_);
inline constexpr std::array<std::string_view, kDisturbanceEnd> kDisturbanceNames = {
    "silence",    "pause",   "failure",  "restart", "spine_cut",
    "spine_loss", "reroute", "rail_cut", "parked"};

class SrdSwarmNet final : public sim::EventHandler {
 public:
  SrdSwarmNet(const SrdSwarmConfig& config, uint64_t seed);

  // Delays packets of the present process of station `i`.
  void park_from(size_t i);
  // Another spine is cut or loses, or all routes change; or an address of a station dies, or comes
  // back. One of each always lives.
  void disturb(base::Random& random);
  // Nothing is cut any more.
  void mend();
  // No more faults.
  void calm();
  bool parked() const { return parked_ != 0; }
  void count(Disturbance d) { ++disturbances[static_cast<size_t>(d)]; }
  void on_event(Instant now, uint64_t argument) override;

  sim::Network network;
  SrdStations stations;
  std::array<uint64_t, kDisturbanceEnd> disturbances{};

 private:
  static constexpr uint32_t kMostRails = 3;

  void connect(const SrdSwarmConfig& config);
  bool dead(const Gid& address) const;
  void disturb_rail(base::Random& random);

  base::Random random_;
  const uint32_t parked_one_in_;
  bool calm_ = false;
  uint64_t parked_ = 0;
  std::vector<std::array<bool, kMostRails>> dead_;  // by station and rail
  bool any_dead_ = false;
  std::vector<std::unique_ptr<SentFrame>> frames_;
  std::unique_ptr<sim::SwitchNode> switch_;
  std::unique_ptr<Exit> exit_;
  std::unique_ptr<Leaf> leaf_;
};

}  // namespace weft::test
