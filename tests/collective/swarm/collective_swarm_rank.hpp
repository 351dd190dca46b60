// SPDX-License-Identifier: BSD-3-Clause
// A rank of the collective swarm: a device on the simulated network, its groups and its calls; it
// makes progress when frames arrive and when time has passed, and may die.
#pragma once

#include "providers/port/middleware/rails_port.hpp"
#include "providers/port/sim/sim_port.hpp"
#include "tests/collective/swarm/collective_swarm_config.hpp"
#include "tests/collective/swarm/collective_swarm_device.hpp"
#include "tests/collective/swarm/collective_swarm_work.hpp"

namespace weft::test {

using collective::Link;
using collective::PeerConnections;
using collective::Team;
using middleware::FaultOptions;

inline constexpr Duration kBusyPause = Duration::from_ns(500), kIdlePause = Duration::from_us(5);
// RC retransmits at equal intervals: periodic cuts could hit every retransmission, so they end.
inline constexpr Duration kCutsEnd = Duration::from_ms(30);

class Rank final : public sim::EventHandler {
 public:
  Rank(sim::Network& network, const SwarmConfig& config, uint32_t rank)
      : network_(network), config_(config), rank_(rank) {
    for (uint32_t rail = 0; rail < config.rails; ++rail) {
      hosts_.push_back(&network.add_host(sim::host_address(rail * kMostRanks + rank)));
      hosts_.back()->notify(this, kArrival);
    }
  }

  sim::Host& host(uint32_t rail = 0) { return *hosts_[rail]; }
  PeerConnections& connections() { return *connections_; }
  bool dead() const { return dead_; }

  std::string open() {
    std::vector<std::unique_ptr<transport::Port>> rails;
    for (sim::Host* const host : hosts_) {
      FaultOptions faults = config_.faults;
      faults.seed += rank_ + kMostRanks * rails.size();
      auto faulty = std::make_unique<middleware::FaultPort>(std::make_unique<port::SimPort>(*host),
                                                            faults, update_time);
      fault_ports_.push_back(faulty.get());
      rails.push_back(std::move(faulty));
    }
    if (rails.size() == 1)
      next_port = std::move(rails[0]);
    else
      next_port = std::move(*middleware::RailsPort::bundle(std::move(rails)));
    Result<Device> device = Device::open(config_.provider + "+udp");  // the port is ours
    if (!device) return device.error().message;
    device_ = std::make_unique<Device>(*device);
    return prepare(rank_, config_.ranks);
  }

  // For links in a group of `ranks`.
  std::string prepare(uint32_t rank, uint32_t ranks) {
    Result<CompletionQueue> cq = device_->completion_queue({.capacity = 4096});
    Result<ProtectionDomain> pd = device_->protection_domain();
    if (!cq || !pd) return "no completion queue, or no domain";
    connections_.reset(new PeerConnections{*device_, *cq, *pd, rank, ranks, {}, {}, {}});
    connections_->lanes.assign(config_.classes.size(), std::vector<Link*>(ranks));
    return "";
  }

  void begin(sim::EventQueue& events) {
    work_in(new_team(), config_.program);
    wake(events, events.now());
  }

  // Continues in the group of the survivors.
  void go_on_without(sim::EventQueue& events) {
    first_ = teams_.size();
    work_in(new_team(), config_.without);
    wake(events, events.now());
  }

  void split(sim::EventQueue& events) {
    work_in(new_team(), config_.parts[config_.colours[rank_]]);
    work_in(*teams_.front(), config_.beside);
    wake(events, events.now());
  }

  void on_event(Instant now, uint64_t argument) override {
    if (dead_ || teams_.empty()) return;
    if (argument == kArrival) return wake(network_.events(), now + kBusyPause / 5);
    if (argument != ticket_) return;
    wakes_ = Instant::never();
    if (config_.victim == rank_ && now >= config_.dies) {
      dead_ = true;
      return;
    }
    set_clock(now);
    change_faults(now);
    cancel(now);
    bool busy = !host().received().empty();
    for (size_t i = first_; i < teams_.size(); ++i) {
      const uint64_t before = teams_[i]->runner().lanes().steps_done();
      teams_[i]->progress();
#ifndef NDEBUG
      collective::check_invariants(*teams_[i]);
#endif
      busy |= teams_[i]->runner().lanes().steps_done() != before;
    }
    for (Work& work : works_)
      if (work.team == teams_[first_].get()) refused_ += work.program->go_on(*work.team);
    busy |= !host().received().empty();
    wake(network_.events(), now + (busy ? kBusyPause : kIdlePause));
  }

  bool is_over() const {
    return dead_ || !refused_.empty() ||
           std::all_of(works_.begin(), works_.end(),
                       [](const Work& work) { return work.program->is_over(); });
  }
  bool has_failed() const { return teams_.front()->failure().has_value(); }
  bool went_on() const { return works_.size() > 1; }
  std::vector<const SwarmWork*> works() const {
    std::vector<const SwarmWork*> all;
    for (const Work& work : works_) all.push_back(work.program.get());
    return all;
  }

  // Why the result of this rank is wrong, or empty.
  std::string invalid_reason() const {
    if (!refused_.empty()) return refused_;
    if (dead_) return "";
    std::string wrong = works_.front().program->invalid_reason(
        [&](int64_t call, const Error& error) { return may_fail(call, error); });
    for (size_t i = 1; i < works_.size() && wrong.empty(); ++i) {
      wrong = works_[i].program->invalid_reason([](int64_t, const Error&) { return false; });
      if (!wrong.empty()) wrong = (config_.victim >= 0 ? "survivor: " : "split: ") + wrong;
    }
    return wrong;
  }

 private:
  static constexpr uint64_t kArrival = 0;
  static constexpr uint32_t kMostRanks = 16;

  struct Work {
    Team* team = nullptr;
    std::unique_ptr<SwarmWork> program;
  };

  // Over the links of connections().
  Team& new_team() {
    CommunicatorOptions options{.patience = kPatience};
    options.slots = config_.shape.slots;
    options.slot_bytes = config_.shape.payload;
    options.traffic_class = config_.classes.back();
    options.more_classes = config_.classes;
    return *teams_.emplace_back(std::make_shared<Team>(std::move(*connections_), options));
  }

  void work_in(Team& team, const SwarmProgram& program) {
    works_.push_back({&team, std::make_unique<SwarmWork>(program, config_.classes)});
    refused_ += works_.back().program->issue(team);
  }

  bool may_fail(int64_t call, const Error& error) const {
    if (error.code == Code::peer_failed)
      return config_.victim >= 0 &&
             contains(error.message, "rank " + std::to_string(config_.victim) + " failed");
    return error.code == Code::canceled && call == config_.canceled && call >= 0 &&
           contains(error.message,
                    "canceled by rank " + std::to_string(config_.canceler) + ": late");
  }

  void cancel(Instant now) {
    if (canceled_ || config_.canceled < 0 || config_.canceler != rank_ || now < config_.cancels)
      return;
    canceled_ = true;
    if (Result<void> done =
            teams_.front()->cancel(works_.front().program->task(config_.canceled), "late");
        !done)
      refused_ += done.error().message;
  }

  // Cuts recover; a rail that dies stays down.
  void change_faults(Instant now) {
    for (size_t rail = 0; rail < fault_ports_.size(); ++rail) {
      FaultOptions faults = config_.faults;
      const bool dies = rail > 0 && now >= config_.rail_dies;
      if (!dies && now <= Instant{} + kCutsEnd) continue;
      faults.blackhole = dies ? middleware::FaultDirection::both : middleware::FaultDirection::none;
      if (dies) faults.flap_up = faults.flap_down = {};
      fault_ports_[rail]->change(faults);
    }
  }

  void wake(sim::EventQueue& events, Instant at) {
    if (at >= wakes_) return;
    wakes_ = at;
    events.schedule(at, *this, ++ticket_);
  }

  sim::Network& network_;
  const SwarmConfig& config_;
  const uint32_t rank_;
  std::vector<sim::Host*> hosts_;                    // by rail
  std::vector<middleware::FaultPort*> fault_ports_;  // of the device
  std::unique_ptr<Device> device_;
  std::unique_ptr<PeerConnections> connections_;
  std::vector<std::shared_ptr<Team>> teams_;  // survivors have a second one
  size_t first_ = 0;                          // team that makes progress
  std::vector<Work> works_;
  std::string refused_;
  Instant wakes_ = Instant::never();
  uint64_t ticket_ = 0;
  bool dead_ = false, canceled_ = false;
};

}  // namespace weft::test
