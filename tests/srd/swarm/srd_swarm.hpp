// SPDX-License-Identifier: BSD-3-Clause
// The SRD swarm: one seed is one random network of stations (srd_swarm_net.hpp) under random work,
// while processes stand still, die and come back with other incarnations and other numbers of paths
// and addresses, queue pairs fail, packets are parked, routes change, addresses die and come back.
// A model knows what may be true:
//
// - each request completes once, well unless something happened to it or to the peer meanwhile;
// - what was sent arrives once and whole, ordered SENDs in order, and a SEND that succeeded has
//   arrived;
// - atomics and adds happen once; those of unknown fate once or not;
// - when the faults end all work ends, nothing is left in any engine, and what was parked and comes
//   then changes nothing.
#pragma once

#include <string>

#include "tests/roce/swarm/swarm.hpp"
#include "tests/srd/swarm/srd_swarm_net.hpp"

namespace weft::test {

struct SrdSwarmResult : SwarmResult {
  std::array<uint64_t, kDisturbanceEnd> disturbances{};
};

class SrdSwarm {
 public:
  SrdSwarm(uint64_t seed, bool hashed);
  void run();  // throws Violation
  SrdSwarmResult result();

 private:
  static constexpr uint32_t kDepth = 8;     // requests outstanding per station
  static constexpr uint32_t kReceives = 3;  // per station
  static constexpr uint32_t kLives = 4;     // of a station: it dies, or its queue pair does
  static constexpr uint32_t kSlot = 40'000;
  static constexpr uint32_t kMargin = 64;  // at the end of each slot: never changed
  static constexpr uint32_t kMost = kSlot - kMargin;
  static constexpr uint32_t kAddWords = 512;
  static constexpr size_t kWord = 0;      // for FetchAdd
  static constexpr size_t kAdded = 4096;  // for WRITE_ADD

  enum class Flaw : uint8_t { none, key, too_long };
  struct Request {
    Opcode opcode{};
    Flaw flaw = Flaw::none;
    bool pending = false;
    uint32_t to = 0, length = 0;
    uint32_t disturbances = 0;  // of `to`, when it was posted
    bool met = false;           // a request to `to` has succeeded since then
    bool last = false;          // of us to `to`
    uint64_t pattern = 0, addend = 0;
  };
  // A SEND or a WRITE with immediate, by the upper bits of its pattern.
  struct Sent {
    uint64_t pattern = 0;
    uint32_t from = 0, to = 0, length = 0;
    uint32_t disturbances = 0;
    bool is_write = false, ordered = false, succeeded = false, seen = false;
  };
  struct Application {
    std::vector<uint32_t> free;     // slots for requests
    std::vector<Request> live;      // by slot
    std::vector<uint64_t> waiting;  // receives to be posted again
    uint32_t posted_receives = 0;
    uint32_t lives = 0;         // what was written in an earlier one may still change
    uint32_t disturbances = 0;  // restarts, and what else lets requests to it fail
    bool failing = false;       // flushes are due
    AddedWord added;
    std::vector<SummedWord> sums = std::vector<SummedWord>(kAddWords);
    std::vector<uint64_t> last_ordered;  // by sender
    std::vector<bool> parted;            // by station: our last request to it has succeeded
    std::vector<uint32_t> met;           // by station: its disturbances when we last succeeded
  };

  // Places in a station's memory.
  size_t source(uint32_t slot) const { return kAdded + kAddWords * 8 + size_t{kSlot} * slot; }
  size_t inbox(uint64_t slot) const { return source(kDepth + static_cast<uint32_t>(slot)); }
  size_t readable(uint32_t reader, uint32_t slot) const {
    return source(kDepth + kReceives + reader * kDepth + slot);
  }
  size_t written(uint32_t writer, uint32_t life, uint32_t slot) const {
    const auto stations = static_cast<uint32_t>(config_.options.stations);
    return source(kDepth + kReceives + (stations + writer * kLives + life) * kDepth + slot);
  }

  // srd_swarm_app.cpp
  void step(uint32_t i);
  void expect_receive(uint32_t i, uint64_t slot);
  void post(uint32_t i, uint32_t to);
  void part(uint32_t i);
  SendRequest request(uint32_t i, uint32_t slot, Sge& sge);
  void describe_operation(uint32_t i, Request& q, SendRequest& r, std::byte* from);
  void note_sent(uint32_t i, Request& q, SendRequest& r);
  void on_sent(uint32_t i, const Completion& c);
  void succeed(uint32_t i, uint32_t slot, const Request& q);
  void leave_unknown(const Request& q);
  bool excused(uint32_t i, const Request& q, Status status) const;
  void on_received(uint32_t i, const Completion& c);
  void look(uint32_t i);  // at what has completed

  // srd_swarm.cpp
  void begin_life(uint32_t i);
  void disturb();
  void restart(uint32_t i);
  void fail(uint32_t i);
  void check_delivered(uint32_t i, bool ordered_too);
  void check_bounds();
  void check_rest();
  void check_counters();
  void check_memory();
  void pass_time();
  bool all_done() const;
  std::string describe() const;

  const uint64_t seed_;
  SrdSwarmConfig config_;
  base::Random random_;
  SrdSwarmNet net_;
  std::vector<Application> apps_;
  std::vector<Sent> sent_;
  Instant silent_until_;  // no station posts until then
  bool draining_ = false;
  int64_t slice_us_ = 1;
  Traffic traffic_;
};

SrdSwarmResult run_srd_swarm(uint64_t seed, bool hashed = true);

// Of a run of the SRD swarm: the faults that it draws (srd_swarm_net.cpp), and its disturbances.
inline std::string not_fired(const SrdSwarmResult& sums) {
  const std::string faults =
      not_fired(sums.faults, middleware::kFaultNames,
                {"fault_ack_loss", "fault_pad", "fault_merge", "fault_blackhole", "fault_ecn",
                 "fault_overflow", "fault_rate"});
  const std::string disturbances = not_fired(sums.disturbances, kDisturbanceNames);
  return faults + (faults.empty() || disturbances.empty() ? "" : ", ") + disturbances;
}

}  // namespace weft::test
