// SPDX-License-Identifier: BSD-3-Clause
// Latency and contention in the flow model compared with packets: near ranks load a receiver while
// data of far ranks are in flight.
#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/packet_model.hpp"
#include "lib/collective/model/selector.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

constexpr double kRate = 48e9, kLink_s = 1.5e-6;

struct Times {
  double flows, packets;
};

Times times_of(const Topology& topology, Collective collective, std::string_view name,
               uint64_t count) {
  const Algorithm& algorithm = **find_algorithm(name, collective, topology.chips);
  Shape shape{.collective = collective,
              .ranks = topology.chips,
              .count = count,
              .dimensions = topology.dimensions};
  shape.piece = model_piece(algorithm, count);
  Routes routes(topology);
  const std::vector<Program> programs = programs_of(algorithm, shape);
  const PacketCall call{.shape = shape, .programs = &programs};
  return {predict(shape, programs, 1, 1, topology, routes).seconds,
          simulate_packets({&call, 1}, topology, routes, {.packet_bytes = 1024}).seconds[0]};
}

TEST_CASE("incast: the receiver is busy before data of the farthest rank arrive") {
  const Topology torus = make_torus({{"x", 4, kRate}, {"y", 4, kRate}}, kLink_s);
  constexpr uint64_t kCount = 65536;
  const double bytes_s = 15.0 * kCount / (4 * kRate), farthest_s = 4 * kLink_s;
  const Times reduce = times_of(torus, Collective::reduce, "direct", kCount);
  CHECK(reduce.flows < 0.8 * (bytes_s + farthest_s));
  CHECK(reduce.flows >= bytes_s);
  CHECK(reduce.flows == Approx(reduce.packets).epsilon(0.1));
}

TEST_CASE("scatter: the sender is busy from the start, and the farthest rank receives last") {
  const Topology torus = make_torus({{"x", 4, kRate}, {"y", 4, kRate}}, kLink_s);
  constexpr uint64_t kCount = 65536;
  const Times broadcast = times_of(torus, Collective::broadcast, "direct", kCount);
  CHECK(broadcast.flows == Approx(broadcast.packets).epsilon(0.15));
}

TEST_CASE("a flow that shares an earlier link reaches its bottleneck late") {
  const Topology torus = make_torus({{"z", 4, 64e9}, {"x", 4, 128e9}, {"y", 4, 128e9}}, kLink_s);
  const Times reduce = times_of(torus, Collective::reduce, "bine", 1 << 20);
  CHECK(reduce.flows == Approx(reduce.packets).epsilon(0.12));
}

TEST_CASE("consecutive pieces pay the latency once") {
  // A line of three chips; the second link is the bottleneck.
  Topology line;
  line.chips = line.nodes = 3;
  line.link_s = kLink_s;
  line.connect(0, 1, kRate, "wide");
  line.connect(1, 2, kRate / 4, "narrow");
  const auto give = [&](uint64_t pieces) {
    constexpr uint64_t kCount = 400'000;
    const Shape shape{.collective = Collective::exchange, .ranks = 3, .piece = kCount / pieces};
    std::vector<Program> programs;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      Builder b(shape, rank);
      if (rank == 0) b.put(2, input(0, kCount));
      if (rank == 2) b.receive(0, output(0, kCount));
      programs.push_back(b.take_program());
    }
    Routes routes(line);
    CHECK(predict(shape, programs, 1, 1, line, routes).seconds ==
          Approx(kCount / (kRate / 4) + 2 * kLink_s));
  };
  give(1);
  give(10);
}

TEST_CASE("a route has the latency to each of its links") {
  Topology line;
  line.chips = line.nodes = 3;
  line.link_s = 1e-6;
  line.connect(0, 1, kRate, "a");
  line.link_s = 5e-6;
  line.connect(1, 2, kRate, "b");
  Routes routes(line);
  const Route& route = routes.between(2, 0);
  REQUIRE(route.shares.size() == 2);
  CHECK(route.shares[0].before_s == 0);
  CHECK(route.shares[1].before_s == Approx(5e-6));
  CHECK(route.latency_s == Approx(6e-6));
}

}  // namespace
}  // namespace weft::collective
