// SPDX-License-Identifier: BSD-3-Clause
// The packet model compared with results computed by hand, with bounds and with the flow model; a
// small call concurrent with a large one, with and without classes; and the bytes that a dispatch
// over racks saves on the cables between them.
#include <algorithm>

#include "lib/base/random.hpp"
#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/packet_model.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "tests/collective/model/known_topology.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

Topology packet_star(uint32_t chips, double bytes_per_s, double link_s) {
  return make_switched_racks(
      {.racks = 1, .trays = chips, .chips_per_tray = 1, .planes = 1, .backplane = bytes_per_s},
      link_s);
}

struct Call {
  Shape shape;
  std::vector<Program> programs;
  Call(const Topology& topology, Collective collective, std::string_view algorithm, uint64_t count,
       uint64_t piece = 0)
      : shape{.collective = collective,
              .ranks = topology.chips,
              .count = count,
              .dimensions = topology.dimensions,
              .piece = piece},
        programs(programs_of(**find_algorithm(algorithm, collective, topology.chips), shape)) {}
  PacketCall of_class(uint32_t traffic_class, double start_s = 0) const {
    return {shape, &programs, 1, 1, traffic_class, start_s};
  }
};

TEST_CASE("packets are stored and forwarded, one at a time over each link") {
  const Topology two = packet_star(2, 1e9, 1e-6);
  Routes routes(two);
  const Call call(two, Collective::broadcast, "direct", 10'000);
  const PacketCall calls[] = {call.of_class(0)};
  const PacketOutcome outcome = simulate_packets(calls, two, routes, {.packet_bytes = 4000});
  // The second link begins when it has the first packet, and then has all to send.
  CHECK(outcome.seconds[0] == Approx(4'000e-9 + 10'000e-9 + 2e-6));
  CHECK(outcome.packets == 6);
}

TEST_CASE("packet times are above every lower bound, and near the flow model") {
  for (const char* name : {"trn2-torus-4x4", "trn3-nl32x2-gen1"}) {
    const Topology topology = known(name);
    Routes routes(topology);
    for (const auto& [collective, algorithm] : {std::pair{Collective::all_to_all, "direct"},
                                                {Collective::all_gather, "ring"},
                                                {Collective::reduce_scatter, "direct"},
                                                {Collective::all_reduce, "bucket"}}) {
      constexpr uint64_t kBytes = 4 << 20;
      const bool whole = collective == Collective::all_reduce;
      const Call call(topology, collective, algorithm, whole ? kBytes : kBytes / topology.chips);
      const PacketCall calls[] = {call.of_class(0)};
      const PacketOutcome packets = simulate_packets(calls, topology, routes);
      const double flows = predict(call.shape, call.programs, 1, 1, topology, routes).seconds;
      INFO(name << " " << weft::name(collective) << " " << algorithm);
      CHECK(packets.seconds[0] >= lower_bound(collective, double{kBytes}, topology).seconds);
      CHECK(packets.seconds[0] <= 1.3 * flows);
      CHECK(packets.seconds[0] >= 0.9 * flows);
    }
  }
}

// The 99th percentile of 100 all-to-alls of 64 KiB, one after the other, with an all-reduce that
// fills the links all the while, or without it.
double p99(const Topology& topology, bool beside_bulk, uint32_t small_class, uint32_t bulk_class) {
  Routes routes(topology);
  constexpr int kCalls = 100;
  constexpr double kPause_s = 10e-6;
  const Call small(topology, Collective::all_to_all, "direct", 65'536 / topology.chips);
  const Call bulk(topology, Collective::all_reduce, "direct", 384 << 20, 1 << 20);
  std::vector<PacketCall> calls;
  for (int i = 0; i < kCalls; ++i)
    calls.push_back(small.of_class(small_class, 20e-6 + i * kPause_s));
  if (beside_bulk) calls.push_back(bulk.of_class(bulk_class));
  PacketOutcome outcome = simulate_packets(calls, topology, routes);
  if (beside_bulk && outcome.seconds.back() < kCalls * kPause_s) FAIL("the bulk is too short");
  outcome.seconds.resize(kCalls);
  std::sort(outcome.seconds.begin(), outcome.seconds.end());
  return outcome.seconds[kCalls * 99 / 100 - 1];
}

TEST_CASE("a bulk all-reduce hardly delays an all-to-all of the highest class") {
  const Topology topology = known("trn2-torus-4x4");
  const double idle = p99(topology, false, 0, 3);
  const double first = p99(topology, true, 0, 3), same = p99(topology, true, 2, 2);
  INFO("p99 idle " << idle * 1e6 << " us, beside bulk in a class before it " << first * 1e6
                   << " us, in the same class " << same * 1e6 << " us");
  CHECK(first <= 1.5 * idle);
  CHECK(same > 1.5 * idle);
}

TEST_CASE("weighted classes share a link, strict classes have priority") {
  const Topology two = packet_star(2, 1e9, 0);
  Routes routes(two);
  const Call call(two, Collective::broadcast, "direct", 4'000'000);
  // Both are in progress until the first is done: three quarters of the link are its.
  const PacketCall calls[] = {call.of_class(1), call.of_class(2)};
  const auto seconds = [&](std::array<double, kTrafficClasses> weights) {
    return simulate_packets(calls, two, routes, {.weights = weights}).seconds;
  };
  CHECK(seconds({0, 3, 1, 1})[0] == Approx(4e-3 * 4 / 3).epsilon(0.02));
  CHECK(seconds({0, 3, 1, 1})[1] == Approx(8e-3).epsilon(0.02));
  CHECK(seconds({0, 0, 0, 0})[0] == Approx(4e-3).epsilon(0.02));
  CHECK(seconds({0, 1, 3, 1})[0] == Approx(8e-3).epsilon(0.02));
}

// ---- failure of a plane ----

TEST_CASE("the failure of one plane of four during a call costs a third of the time") {
  constexpr uint32_t kPlanes = 4, kDomains = 4, kPlaces = 4;
  const Topology topology =
      make_rails(make_torus({{"x", kPlaces, 10e9}}, 1e-6),
                 {.domains = kDomains, .planes = kPlanes, .bytes_per_s = 4e9, .link_s = 5e-6});
  PacketLoss plane{.detection_s = 50e-6};
  for (uint32_t place = 0; place < kPlaces; ++place)
    plane.nodes.push_back(topology.chips + place * kPlanes + 1);
  Routes routes(topology);
  for (const auto& [collective, algorithm, count] :
       {std::tuple{Collective::all_reduce, "hierarchical", 16 << 20},
        {Collective::all_reduce, "bucket", 16 << 20},
        {Collective::all_to_all, "direct", 1 << 20}}) {
    const Call call(topology, collective, algorithm, static_cast<uint64_t>(count));
    const PacketCall calls[] = {call.of_class(0)};
    const double whole = simulate_packets(calls, topology, routes).seconds[0];
    for (const double part : {0.0, 0.3, 0.6}) {
      plane.at_s = part * whole;
      const PacketOutcome outcome = simulate_packets(calls, topology, routes, {.loss = plane});
      INFO(algorithm << " " << weft::name(collective) << ": " << outcome.seconds[0] / whole
                     << " times, after " << part);
      CHECK(outcome.seconds[0] <= 1.25 * kPlanes / (kPlanes - 1) * whole);
      CHECK(outcome.seconds[0] > 1.02 * whole);  // it completes, with a delay
      CHECK((part == 0 || outcome.lost > 0));
      CHECK(outcome.lost < outcome.packets / 20);  // failure detection works
    }
  }
}

// ---- dispatch over racks ----

// Each rank sends `tokens` tokens of `width` to `choices` distinct experts each; every rank has two
// experts.
Shape uniform_dispatch(const Topology& topology, uint32_t tokens, uint32_t choices,
                       uint64_t width) {
  constexpr uint32_t kParts = 2;
  const uint32_t ranks = topology.chips, experts = ranks * kParts;
  Shape shape{.collective = Collective::dispatch, .ranks = ranks};
  Blocks& blocks = shape.blocks;
  blocks = {.parts = kParts,
            .stride = uint64_t{ranks} * tokens * width,
            .width = width,
            .racks = topology.racks};
  base::Random random(7);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<uint32_t>> tokens_of(experts);
    for (uint32_t token = 0; token < tokens; ++token)
      for (uint32_t left = choices; left > 0;) {
        std::vector<uint32_t>& of_expert = tokens_of[random.below(experts)];
        if (!of_expert.empty() && of_expert.back() == token) continue;
        of_expert.push_back(token);
        --left;
      }
    std::vector<uint32_t>& same = blocks.first_equal_row.emplace_back();
    std::vector<uint32_t> first;
    for (uint32_t expert = 0; expert < experts; ++expert) {
      if (expert % (experts / topology.racks) == 0) first.assign(tokens, UINT32_MAX);
      blocks.counts.push_back(tokens_of[expert].size() * width);
      for (const uint32_t token : tokens_of[expert]) {
        if (first[token] == UINT32_MAX) first[token] = static_cast<uint32_t>(same.size());
        same.push_back(first[token]);
      }
    }
  }
  return shape;
}

struct Crossing {
  double bytes = 0, seconds = 0;
};

Crossing crossing(const Topology& topology, const Shape& shape, std::string_view algorithm) {
  const std::vector<Program> programs =
      programs_of(**find_algorithm(algorithm, shape.collective, shape.ranks), shape);
  Routes routes(topology);
  const PacketCall calls[] = {{shape, &programs, 2, 2}};
  const PacketOutcome outcome = simulate_packets(calls, topology, routes);
  Crossing crossing{0, outcome.seconds[0]};
  for (size_t link = 0; link < topology.links.size(); ++link)
    if (topology.links[link].medium == "cross-rack") crossing.bytes += outcome.link_bytes[link];
  return crossing;
}

TEST_CASE("uniform top-8 crosses the racks a fourth as often when each token crosses once") {
  for (const char* name : {"trn3-nl32x2-gen1", "trn3-nl72x2-gen1"}) {
    const Topology topology = known(name);
    const Shape shape = uniform_dispatch(topology, 32, 8, 7168);
    const Crossing flat = crossing(topology, shape, "direct");
    const Crossing once = crossing(topology, shape, "racks");
    INFO(name << ": " << flat.bytes << " bytes in " << flat.seconds * 1e6 << " us, " << once.bytes
              << " in " << once.seconds * 1e6);
    // (k/2) / (1 - 2^-k) = 4.02 for choices that are drawn with repetition.
    CHECK(flat.bytes / once.bytes > 3.9);
    CHECK(flat.bytes / once.bytes < 4.2);
    CHECK(flat.seconds > 1.4 * once.seconds);
  }
}

// The partial sums of a combine over racks: one row for each token between mirror ranks.
Shape way_back(const Shape& dispatch) {
  const uint32_t ranks = dispatch.ranks, per_rack = ranks / dispatch.blocks.racks;
  Shape shape{.collective = Collective::all_to_all_v, .ranks = ranks};
  shape.blocks.counts.assign(size_t{ranks} * ranks, 0);
  for (uint32_t to = 0; to < ranks; ++to)
    for (uint32_t rack = 0; rack < dispatch.blocks.racks; ++rack) {
      const uint32_t mirror = rack * per_rack + to % per_rack;
      const uint32_t last = (rack + 1) * per_rack - 1;
      const uint64_t width = dispatch.blocks.width;
      const uint64_t begin = send_block(dispatch, to, rack * per_rack).offset / width;
      const uint64_t end = send_block(dispatch, to, last, dispatch.blocks.parts - 1).end() / width;
      for (uint64_t row = begin; row < end && mirror != to; ++row)
        if (first_equal_row(dispatch, to, row) == row)
          shape.blocks.counts[size_t{mirror} * ranks + to] += width;
    }
  return shape;
}

TEST_CASE("a combine over racks crosses them a fourth as often, and inside them not at all") {
  for (const char* name : {"trn3-nl32x2-gen1", "trn3-nl72x2-gen1"}) {
    const Topology topology = known(name);
    const Shape dispatch = uniform_dispatch(topology, 32, 8, 7168);
    Shape combine = dispatch;
    combine.collective = Collective::combine;
    const Crossing flat = crossing(topology, combine, "direct");
    const Crossing inside = crossing(topology, combine, "racks");
    const Crossing back = crossing(topology, way_back(dispatch), "direct");
    INFO(name << ": " << flat.bytes << " bytes in " << flat.seconds * 1e6 << " us; " << back.bytes
              << " in " << inside.seconds * 1e6 << " and " << back.seconds * 1e6);
    CHECK(inside.bytes == 0);
    CHECK(flat.bytes / back.bytes > 3.9);
    CHECK(flat.bytes / back.bytes < 4.2);
    CHECK(flat.seconds > inside.seconds + back.seconds);
  }
}

}  // namespace
}  // namespace weft::collective
