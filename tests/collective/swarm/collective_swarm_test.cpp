// SPDX-License-Identifier: BSD-3-Clause
// The collective swarm: one seed is a group of ranks on a simulated network that loses, duplicates,
// reorders, corrupts and delays frames, cuts paths for a while and a rail for good; ranks die and
// cancel calls. It runs the library in virtual time: teams, links, the engines of roce and srd,
// over ports of the simulator. Random calls, dispatch and combine, exchanges, sends and receives,
// of one traffic class or several, are compared with plain arithmetic. If no rank dies the ranks
// may split, and the parts work beside the whole group. A canceled call has succeeded, or is
// reported as canceled by that rank, and later calls are right. If a rank dies every survivor has
// an error that names it, and the survivors continue as a group over the same devices, as after
// shrink(). No call hangs. Dense builds check the invariants of each team after every turn.
// WEFT_TEST_SEED=N replays one seed, WEFT_TEST_SEEDS=M with it that many from there.
#include <cstdio>

#include "lib/base/virtual_process.hpp"
#include "tests/collective/swarm/collective_swarm_rank.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

using collective::Link;
using collective::PeerConnections;

constexpr Duration kLimit = Duration::from_s(10);  // a rank that has not ended by then hangs

std::string walk(const Link& link, const Gid& peer, QpNum number) {
  const Result<void> rtr = link.qp().modify({.state = QpState::rtr,
                                             .access = collective::kPeerAccess,
                                             .path = AddressVector{.destination = peer},
                                             .path_mtu = uint32_t{1024},
                                             .dest_qpn = number,
                                             .rq_psn = Psn{0},
                                             .max_dest_rd_atomic = uint8_t{16},
                                             .min_rnr_timer = uint8_t{1}});
  if (!rtr) return rtr.error().message;
  QueuePairAttributes rts{.state = QpState::rts, .sq_psn = Psn{0}};
  if (link.qp().type() == QpType::rc) {
    rts.max_rd_atomic = uint8_t{16};
    rts.timeout = uint8_t{12};  // 17 ms
    rts.retry_count = rts.rnr_retry = uint8_t{7};
  }
  const Result<void> ready = link.qp().modify(rts);
  return ready ? "" : ready.error().message;
}

std::string connect(Rank& a, Rank& b, const collective::LinkShape& shape, uint32_t lane) {
  const auto make = [&](PeerConnections& connections, uint32_t peer) {
    const QpType type = connections.device.attributes().qp_type;
    collective::LinkShape own = shape;  // as PeerConnections::connect makes it
    if (lane + 1 < connections.lanes.size()) own.copy_limit = collective::kUrgentCopyLimit;
    auto link =
        Link::create(connections.pd, connections.cq, type, own, uint32_t(connections.links.size()));
    REQUIRE(link);
    (*link)->lane = lane;
    connections.lanes[lane][peer] = link->get();
    connections.links.push_back(std::move(*link));
    return connections.lanes[lane][peer];
  };
  Link* const there = make(a.connections(), b.connections().rank);
  Link* const back = make(b.connections(), a.connections().rank);
  there->set_peer(b.connections().rank, back->address());
  back->set_peer(a.connections().rank, there->address());
  const std::string wrong = walk(*there, b.host().address(), back->qp().number());
  return wrong.empty() ? walk(*back, a.host().address(), there->qp().number()) : wrong;
}

struct Outcome {
  std::string violation;
  uint64_t packets = 0, failed = 0, canceled = 0, combined = 0, exchanged = 0;
  uint64_t went_on = 0, split = 0;
  Instant end;
};

using Ranks = std::vector<Rank*>;

// Until all ranks have ended, or the limit.
void run_until_over(sim::Network& network, const Ranks& ranks) {
  const Instant limit = network.now() + kLimit;
  const auto over = [&] {
    return std::all_of(ranks.begin(), ranks.end(), [](Rank* r) { return r->is_over(); });
  };
  while (!over() && network.now() < limit && network.events().step()) {
  }
}

std::string connect_all(const Ranks& ranks, const collective::LinkShape& shape) {
  std::string wrong;
  for (size_t a = 0; a < ranks.size(); ++a)
    for (size_t b = a + 1; b < ranks.size(); ++b)
      for (uint32_t lane = 0; lane < ranks[a]->connections().lanes.size(); ++lane)
        wrong += connect(*ranks[a], *ranks[b], shape, lane);
  return wrong;
}

// A group of these ranks, over their devices.
std::string regroup(sim::Network& network, const Ranks& members,
                    const collective::LinkShape& shape) {
  set_clock(network.now());
  std::string wrong;
  for (size_t i = 0; i < members.size(); ++i)
    wrong += members[i]->prepare(static_cast<uint32_t>(i), static_cast<uint32_t>(members.size()));
  return wrong + connect_all(members, shape);
}

std::string go_on_without(sim::Network& network, const Ranks& all,
                          const collective::LinkShape& shape) {
  Ranks alive;
  for (Rank* const rank : all)
    if (!rank->dead()) alive.push_back(rank);
  if (std::string wrong = regroup(network, alive, shape); !wrong.empty()) return wrong;
  for (Rank* const rank : alive) rank->go_on_without(network.events());
  run_until_over(network, alive);
  return "";
}

std::string split(sim::Network& network, const Ranks& all, const SwarmConfig& config) {
  for (const uint32_t colour : {0U, 1U}) {
    Ranks part;
    for (size_t i = 0; i < all.size(); ++i)
      if (config.colours[i] == colour) part.push_back(all[i]);
    if (std::string wrong = regroup(network, part, config.shape); !wrong.empty()) return wrong;
  }
  for (Rank* const rank : all) rank->split(network.events());
  run_until_over(network, all);
  return "";
}

Outcome run(uint64_t seed) {
  const SwarmConfig config = draw(seed);
  sim::Network network;
  network.hash_arrivals(false);
  std::vector<std::unique_ptr<Rank>> owned;
  Ranks ranks;
  Outcome outcome;
  set_clock(network.now());
  base::draw_secure_numbers_from(seed);
  for (uint32_t r = 0; r < config.ranks; ++r) {
    ranks.push_back(owned.emplace_back(std::make_unique<Rank>(network, config, r)).get());
    outcome.violation += ranks.back()->open();
  }
  for (uint32_t a = 0; a < config.ranks; ++a)
    for (uint32_t b = a + 1; b < config.ranks; ++b)
      for (uint32_t rail = 0; rail < config.rails; ++rail)
        network.connect(ranks[a]->host(rail), ranks[b]->host(rail), config.cable);
  outcome.violation += connect_all(ranks, config.shape);
  if (!outcome.violation.empty()) return outcome;
  for (Rank* const rank : ranks) rank->begin(network.events());
  run_until_over(network, ranks);
  const bool all_know = std::all_of(ranks.begin(), ranks.end(), [](const Rank* rank) {
    return rank->dead() || (rank->is_over() && rank->has_failed());
  });
  if (config.victim >= 0 && all_know)
    outcome.violation += go_on_without(network, ranks, config.shape);
  const bool fine = std::all_of(ranks.begin(), ranks.end(), [](const Rank* rank) {
    return rank->is_over() && rank->invalid_reason().empty();
  });
  if (!config.colours.empty() && fine) outcome.violation += split(network, ranks, config);
  outcome.end = network.now();
  outcome.packets = network.packets();
  for (uint32_t r = 0; r < config.ranks; ++r) {
    for (const SwarmWork* const work : ranks[r]->works()) {
      outcome.failed += work->ended_with(Code::peer_failed);
      outcome.canceled += work->ended_with(Code::canceled);
      outcome.combined += work->has_combined();
      outcome.exchanged += work->exchanged();
    }
    (config.colours.empty() ? outcome.went_on : outcome.split) += ranks[r]->went_on();
    if (const std::string wrong = ranks[r]->invalid_reason(); !wrong.empty())
      outcome.violation += "rank " + std::to_string(r) + " of " + std::to_string(config.ranks) +
                           " over " + config.provider + ": " + wrong + "\n";
  }
  if (!outcome.violation.empty()) {
    outcome.violation +=
        describe(config.faults) + ", slots " + std::to_string(config.shape.slots) + " of " +
        std::to_string(config.shape.payload) + ", dies " + std::to_string(config.victim) + " at " +
        std::to_string((config.dies - Instant{}).us()) + " us, rails " +
        std::to_string(config.rails) + ", call " + std::to_string(config.canceled) +
        " canceled by " + std::to_string(config.canceler) + " at " +
        std::to_string((config.cancels - Instant{}).us()) + " us, " +
        std::to_string(config.classes.size()) + " classes\n";
  }
  return outcome;
}

TEST_CASE("collectives under faults are right, or name the rank that died") {
  const char* const one = std::getenv("WEFT_TEST_SEED");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 0) : 1;
  const char* const many = std::getenv("WEFT_TEST_SEEDS");
  const uint64_t seeds = many != nullptr  ? std::strtoull(many, nullptr, 0)
                         : one != nullptr ? 1
                                          : scaled(300);
  Outcome all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Outcome outcome = run(seed);
    all.packets += outcome.packets;
    all.failed += outcome.failed;
    all.canceled += outcome.canceled;
    all.combined += outcome.combined;
    all.exchanged += outcome.exchanged;
    all.went_on += outcome.went_on;
    all.split += outcome.split;
    INFO("replay: WEFT_TEST_SEED=" << seed << " collective_swarm_test");
    CHECK(outcome.violation == "");
  }
  std::printf(
      "%lu seeds, %lu packets; calls of ranks: %lu failed as a rank had died, %lu canceled, %lu "
      "combined, %lu exchanges; %lu ranks continued without a dead one, %lu split\n",
      static_cast<unsigned long>(seeds), static_cast<unsigned long>(all.packets),
      static_cast<unsigned long>(all.failed), static_cast<unsigned long>(all.canceled),
      static_cast<unsigned long>(all.combined), static_cast<unsigned long>(all.exchanged),
      static_cast<unsigned long>(all.went_on), static_cast<unsigned long>(all.split));
  if (one != nullptr) return;
  CHECK(all.failed > 0);
  CHECK(all.canceled > 0);
  CHECK(all.combined > 0);
  CHECK(all.exchanged > 0);
  CHECK(all.went_on > 0);
  CHECK(all.split > 0);
}

TEST_CASE("a seed is reproducible") {
  for (const uint64_t seed : {2, 3, 4, 5, 6, 7}) {
    const Outcome once = run(seed), again = run(seed);
    INFO("seed " << seed);
    CHECK(once.packets == again.packets);
    CHECK(once.end == again.end);
    CHECK(once.failed == again.failed);
    CHECK(once.canceled == again.canceled);
  }
}

}  // namespace
}  // namespace weft::test

namespace weft::verbs {

// Replaces the providers of the build by devices on the simulated network.
std::span<const Provider> providers() {
  static const bool in_virtual_time = base::live_in_virtual_time(test::update_time);
  static const Provider kSimulated[] = {{"roce", &test::open_simulated, &test::list_none},
                                        {"srd", &test::open_simulated, &test::list_none}};
  return in_virtual_time ? std::span<const Provider>(kSimulated) : std::span<const Provider>();
}

}  // namespace weft::verbs
