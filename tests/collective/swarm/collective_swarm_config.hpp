// SPDX-License-Identifier: BSD-3-Clause
// What a seed of the collective swarm determines: ranks, cables, faults, traffic classes, calls,
// which rank dies, which cancels a call, and how the ranks split.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/collective/run/link.hpp"
#include "lib/sim/frames/network.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "tests/collective/moe/collective_moe_layer.hpp"
#include "tests/collective/plan/collective_random.hpp"

namespace weft::test {

// Every rank sends to its image under a permutation, maybe itself; or one rank to another, by
// send() and receive().
struct Permuted {
  uint64_t seed = 0;
  size_t bytes = 0;
  bool is_pair = false;
};

// What ranks call in a group: calls, behind each its permutation, then a layer of experts.
struct SwarmProgram {
  std::vector<RandomCall> calls;
  std::vector<std::optional<Permuted>> permuted;
  std::optional<Layer> layer;
};

struct SwarmConfig {
  std::string provider;
  uint32_t ranks = 2;
  sim::LinkOptions cable;
  middleware::FaultOptions faults;
  collective::LinkShape shape;
  std::vector<uint32_t> classes = {2};  // that of a call follows from its seed
  SwarmProgram program;
  int64_t victim = -1;
  Instant dies;
  SwarmProgram without;           // of the survivors
  std::vector<uint32_t> colours;  // empty: no split
  SwarmProgram parts[2];          // of the ranks of a colour
  SwarmProgram beside;            // of all, meanwhile
  int64_t canceled = -1;          // one of the calls
  uint32_t canceler = 0;
  Instant cancels;
  uint32_t rails = 1;
  Instant rail_dies = Instant::never();  // the last one, for good
};

inline middleware::FaultOptions draw_faults(base::Random& r) {
  const auto rate = [&](uint32_t most) { return r.below(2) == 0 ? uint32_t(r.below(most)) : 0; };
  middleware::FaultOptions f;
  f.seed = r.next();
  f.loss = rate(20'000);
  f.dup = rate(50'000);
  f.reorder = rate(50'000);
  f.reorder_time = Duration::from_us(1 + static_cast<int64_t>(r.below(60)));
  f.corrupt = rate(10'000);
  f.truncate = rate(5'000);
  f.ack_loss = rate(30'000);
  f.jitter = Duration::from_us(static_cast<int64_t>(r.below(20)));
  if (r.below(4) != 0) return f;
  f.blackhole = middleware::FaultDirection::both;  // the path fails, and recovers
  f.flap_down = Duration::from_us(100 + static_cast<int64_t>(r.below(2000)));
  f.flap_up = f.flap_down * 3 + Duration::from_us(static_cast<int64_t>(r.below(4000)));
  return f;
}

inline std::string describe(const middleware::FaultOptions& f) {
  return "loss " + std::to_string(f.loss) + " dup " + std::to_string(f.dup) + " reorder " +
         std::to_string(f.reorder) + " corrupt " + std::to_string(f.corrupt) + " truncate " +
         std::to_string(f.truncate) + " ack_loss " + std::to_string(f.ack_loss) + " cut for " +
         std::to_string(f.flap_down.us()) + " us of " +
         std::to_string((f.flap_up + f.flap_down).us());
}

inline std::vector<RandomCall> draw_calls(base::Random& r, uint32_t ranks) {
  std::vector<RandomCall> calls;
  const uint64_t wanted = 1 + r.below(4);
  while (calls.size() < wanted) {
    RandomCall call = random_call(r, ranks);
    if (call.count * ranks * size_of(call.type) <= (1U << 20)) calls.push_back(call);
  }
  return calls;
}

inline SwarmProgram draw_program(base::Random& r, uint32_t ranks) {
  return {draw_calls(r, ranks), {}, {}};
}

inline void draw_permuted(base::Random& r, SwarmProgram& program) {
  program.permuted.resize(program.calls.size());
  for (std::optional<Permuted>& each : program.permuted)
    if (r.below(3) == 0)
      each = {r.next(), r.below(r.below(2) == 0 ? 300 : 200'000), r.below(2) == 0};
}

// From an independent random sequence.
inline void draw_classes_and_parts(uint64_t seed, SwarmConfig& c) {
  base::Random r(seed ^ 0x5157'4152'4D53);
  if (r.below(2) == 0) {
    c.classes.clear();
    for (uint32_t each = 0; each < kTrafficClasses; ++each)
      if (r.below(2) == 0) c.classes.push_back(each);
    if (c.classes.empty()) c.classes = {static_cast<uint32_t>(r.below(kTrafficClasses))};
  }
  if (c.victim < 0 && r.below(3) == 0) {
    uint32_t sizes[2] = {};
    for (uint32_t rank = 0; rank < c.ranks; ++rank) {
      c.colours.push_back(static_cast<uint32_t>(r.below(2)));
      ++sizes[c.colours.back()];
    }
    for (const uint32_t colour : {0, 1})
      if (sizes[colour] > 0) c.parts[colour] = draw_program(r, sizes[colour]);
    c.beside = draw_program(r, c.ranks);
  }
  for (SwarmProgram* const program : {&c.program, &c.without, &c.parts[0], &c.parts[1], &c.beside})
    draw_permuted(r, *program);
}

inline SwarmConfig draw_ranks_and_calls(base::Random& r) {
  SwarmConfig c;
  c.provider = r.below(2) == 0 ? "roce" : "srd";
  c.ranks = 2 + static_cast<uint32_t>(r.below(5));
  c.cable.rate = Rate::from_gbps(10 + static_cast<double>(r.below(90)));
  c.cable.delay = Duration::from_ns(200 + static_cast<int64_t>(r.below(5000)));
  if (r.below(4) != 0) c.faults = draw_faults(r);
  c.shape.slots = 2 + static_cast<uint32_t>(r.below(15));
  c.shape.payload = 64 * (2 + static_cast<uint32_t>(r.below(r.below(2) == 0 ? 4 : 512)));
  const auto soon = [&] {
    return Instant{} + Duration::from_us(static_cast<int64_t>(r.below(1000)));
  };
  c.program = draw_program(r, c.ranks);
  if (r.below(3) == 0) {
    c.program.layer = random_layer(r, c.ranks);
    if (c.program.layer->algorithm == "racks") c.program.layer->algorithm = "";
    const size_t choices = 30 * 4 * c.ranks;  // of all ranks, at most
    c.program.layer->width = std::min(
        c.program.layer->width, 1 + (size_t{1} << 20) / choices / size_of(c.program.layer->type));
  }
  if (c.provider == "srd" && r.below(3) == 0) {
    c.rails = 2;
    if (r.below(2) == 0) c.rail_dies = soon();
  }
  if (r.below(3) == 0) {
    c.canceled = static_cast<int64_t>(r.below(c.program.calls.size()));
    c.canceler = static_cast<uint32_t>(r.below(c.ranks));
    c.cancels = r.below(2) == 0 ? Instant{} : soon();
  }
  if (r.below(3) != 0) return c;
  c.victim = static_cast<int64_t>(r.below(c.ranks));
  c.dies = soon();
  c.without = draw_program(r, c.ranks - 1);
  return c;
}

inline SwarmConfig draw(uint64_t seed) {
  base::Random r(seed);
  SwarmConfig c = draw_ranks_and_calls(r);
  draw_classes_and_parts(seed, c);
  return c;
}

}  // namespace weft::test
