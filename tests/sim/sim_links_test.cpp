// SPDX-License-Identifier: BSD-3-Clause
// Links that fail during a run. By hand: what is lost, when routes change, that pauses are
// forgotten. As a property: whatever happens to links, if in the end all are up, every flow
// finishes, and every packet is accounted for (run() itself checks that).
#include <algorithm>

#include "lib/base/random.hpp"
#include "lib/sim/scenario/networks.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

using fabric::LinkChange;

constexpr uint64_t kSeeds = 40;

bool all_finished(const RunResult& r) {
  return std::all_of(r.flows.begin(), r.flows.end(), [](const auto& f) { return f.fct_ns > 0; });
}

TEST_CASE("a dead link is avoided after the detection time, by every kind of host") {
  // Two leaves (8, 9), two spines (10, 11); ECMP or spraying may take either.
  const fabric::Topology topology = leaf_spine(4, 100'000);
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back({.src = i, .dst = 4 + i, .bytes = 5'000'000});
  for (const char* controller : {"hpcc", "dcqcn-hpccsim", "hpcc-pint", "nscc"}) {
    INFO(controller);
    RunOptions options;
    options.link_changes = {{.at_ns = 100'000, .from = 8, .to = 10, .up = false}};
    options.detection_ns = 50'000;
    const RunResult r = simulate(topology, controller, flows, Parameters(), options);
    CHECK(all_finished(r));
    CHECK(r.counters.lost > 0);
    // 50 us of one link at most, both ways.
    CHECK(r.counters.lost < 3000);
    CHECK(r.retransmitted > 0);
    // Never known: what is hashed to that link is lost for ever, or sprayed again and again.
    options.detection_ns = 1'000'000'000'000;
    options.until_ns = 3'000'000;
    const RunResult blind = simulate(topology, controller, flows, Parameters(), options);
    CHECK(blind.counters.lost > r.counters.lost);
  }
}

TEST_CASE("a host that stays unreachable is reported as a stalled run") {
  for (const char* controller : {"hpcc", "dctcp", "nscc"}) {
    INFO(controller);
    RunOptions options;
    options.link_changes = {{.at_ns = 20'000, .from = 3, .to = 2, .up = false}};
    const RunResult r = simulate(
        star(3), controller,
        {{.src = 0, .dst = 1, .bytes = 1'000'000}, {.src = 0, .dst = 2, .bytes = 1'000'000}},
        Parameters(), options);
    CHECK(r.stalled);
    CHECK(r.flows[0].fct_ns > 0);
    CHECK(r.flows[1].fct_ns == -1);
  }
}

TEST_CASE("a flow keeps a path that was given, dead or not") {
  const fabric::Topology topology = leaf_spine(2, 100'000);
  RunOptions options;
  options.link_changes = {{.at_ns = 10'000, .from = 4, .to = 6, .up = false},
                          {.at_ns = 900'000, .from = 6, .to = 4, .up = true}};
  const RunResult r = simulate(topology, "none+win",
                               {{.src = 0, .dst = 2, .bytes = 1'000'000, .path = {0, 4, 6, 5, 2}},
                                {.src = 1, .dst = 3, .bytes = 1'000'000, .path = {1, 4, 7, 5, 3}}},
                               Parameters(), options);
  CHECK(r.flows[0].fct_ns > 900'000);
  CHECK(r.flows[1].fct_ns < 200'000);
}

TEST_CASE("packets in flight when routes change follow cables") {
  const fabric::Topology topology = leaf_spine(4, 100'000);
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back({.src = i, .dst = 4 + i, .bytes = 2'000'000});
  RunOptions options;
  options.link_changes = {{.at_ns = 0, .from = 8, .to = 10, .up = false},
                          {.at_ns = 100'000, .from = 8, .to = 10, .up = true}};
  options.detection_ns = 0;
  const RunResult r = simulate(topology, "hpcc", flows, Parameters(), options);
  CHECK(r.counters.lost + r.counters.pauses == 0);
  for (uint32_t node = 8; node < 12; ++node) {
    int64_t through = 0;
    for (const uint32_t port : topology.ports_of(node))
      through += static_cast<int64_t>(r.ports[port ^ 1].sent_bytes) -
                 static_cast<int64_t>(r.ports[port].sent_bytes);
    INFO(node);
    CHECK(through == 0);
  }
  CHECK(r.ports[topology.port_between(8, 10)].sent_bytes > 0);
}

TEST_CASE("a rate that changes is the bottleneck's from then on, in one direction or both") {
  // 1 MB: 1000 packets, 83 ns each at 100G; at 25G 335 ns each.
  const auto fct = [](bool both, uint32_t from, uint32_t to) {
    RunOptions options;
    options.link_changes = {{.at_ns = 0, .from = from, .to = to, .both = both, .mbps = 25'000}};
    return simulate(star(2), "none", {{.src = 0, .dst = 1, .bytes = 1'000'000}}, Parameters(),
                    options)
        .flows[0]
        .fct_ns;
  };
  CHECK(fct(false, 2, 1) > 335'000);
  CHECK(fct(true, 1, 2) > 335'000);
  CHECK(fct(false, 1, 2) < 90'000);
}

TEST_CASE("a lossy link loses its share of packets, which are retransmitted") {
  RunOptions options;
  options.link_changes = {{.at_ns = 0, .from = 2, .to = 1, .both = false, .loss = 0.01}};
  const RunResult r = simulate(star(2), "none+win", {{.src = 0, .dst = 1, .bytes = 20'000'000}},
                               Parameters(), options);
  CHECK(r.flows[0].fct_ns > 0);
  // 1 % of 20,000 and of what go-back-N sends again; deviation 15.
  const double share = double(r.counters.lost) / double(r.data_delivered + r.counters.lost);
  CHECK(share == Approx(0.01).epsilon(0.25));
  CHECK(r.retransmitted > r.counters.lost);
}

TEST_CASE("a PAUSE ends when its link goes down") {
  // The receiver's link stops; its switch pauses all senders; then each sender's own link blinks.
  std::vector<LinkChange> changes = {
      {.at_ns = 10'000, .from = 17, .to = 0, .both = false, .mbps = 1}};
  for (uint32_t i = 1; i < 17; ++i) {
    changes.push_back({.at_ns = 400'000, .from = i, .to = 17, .up = false});
    changes.push_back({.at_ns = 400'500, .from = i, .to = 17, .up = true});
  }
  changes.push_back({.at_ns = 500'000, .from = 17, .to = 0, .mbps = 100'000});
  RunOptions options;
  options.link_changes = changes;
  const RunResult r =
      simulate(star(17), "none", incast(16, 200'000), with({{"switch.buffer_mb", "1"}}), options);
  CHECK(r.counters.pauses > 16);
  CHECK(all_finished(r));
}

TEST_CASE("whatever happens to links, all flows end once all are up, and packets are accounted") {
  const char* const kControllers[] = {"hpcc",     "dctcp", "dcqcn-hpccsim", "hpcc-pint",
                                      "none+win", "nscc",  "nscc+rccc"};
  uint64_t lost = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed << ": netsim_links_test 'whatever*' repeats it");
    base::Random random(seed);
    const fabric::Topology topology = seed % 2 == 0
                                          ? *scenario::make_fat_tree({.k = 4})
                                          : *scenario::make_torus({.k = 3, .dimensions = 2});
    const auto hosts = static_cast<uint32_t>(topology.hosts().size());
    std::vector<FlowSpec> flows;
    for (int i = 0; i < 20; ++i) {
      const auto src = static_cast<uint32_t>(random.below(hosts));
      const auto dst = static_cast<uint32_t>((src + 1 + random.below(hosts - 1)) % hosts);
      flows.push_back({.start_ns = static_cast<int64_t>(random.below(200'000)),
                       .src = src,
                       .dst = dst,
                       .bytes = 1 + random.below(400'000)});
    }
    RunOptions options{.seed = seed};
    options.detection_ns = static_cast<int64_t>(random.below(60'000));
    for (int i = 0; i < 12; ++i) {
      const auto port = static_cast<uint32_t>(random.below(topology.port_count()));
      LinkChange change{.at_ns = static_cast<int64_t>(random.below(300'000)),
                        .from = topology.from(port),
                        .to = topology.to(port),
                        .both = random.below(2) == 0};
      LinkChange end = change;
      end.at_ns += 1 + static_cast<int64_t>(random.below(400'000));
      const uint64_t kind = random.below(3);
      if (kind == 0) {
        change.up = false;
        end.up = true;
      } else if (kind == 1) {
        change.mbps = 10'000;
        end.mbps = 100'000;
      } else {
        change.loss = 0.2;
        end.loss = 0;
      }
      options.link_changes.push_back(change);
      options.link_changes.push_back(end);
    }
    // Two failures of one link may end in "down": at last all are up.
    for (uint32_t port = 0; port < topology.port_count(); port += 2)
      options.link_changes.push_back({.at_ns = 800'000,
                                      .from = topology.from(port),
                                      .to = topology.to(port),
                                      .up = true,
                                      .loss = 0});
    const char* const controller = kControllers[seed % std::size(kControllers)];
    INFO(controller);
    const bool engine = controller[0] == 'n' && seed % 4 < 2;  // nscc, nscc+rccc, none
    INFO((engine ? "engine" : "flow"));
    const Parameters parameters = with({{"switch.buffer_mb", seed % 3 == 0 ? "0.3" : "32"},
                                        {"host.fidelity", engine ? "engine" : "flow"}});
    const RunResult r = simulate(topology, controller, flows, parameters, options);
    CHECK(all_finished(r));
    CHECK(!r.stalled);
    lost += r.counters.lost;
    CHECK(simulate(topology, controller, flows, parameters, options).digest == r.digest);
  }
  CHECK(lost > 1000);
}

}  // namespace
}  // namespace weft::sim::flow
