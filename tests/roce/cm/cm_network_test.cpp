// SPDX-License-Identifier: BSD-3-Clause
// The connection manager on production engines in the simulated network: queue pairs are connected
// by datagrams to queue pair 1, carry a message and are ended, while frames of all kinds are lost,
// repeated and overtake each other. The same seed gives the same events.
#include <map>

#include "lib/roce/cm/agent.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "tests/support/catch.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/pair.hpp"

namespace weft::test {
namespace {

using cm::Event;
using cm::EventKind;
using transport::Count;

constexpr uint64_t kService = cm::kPortSpaceTcp | 7174;

// An application on a station: it connects, or accepts, and each connection carries one SEND.
class App {
 public:
  App(World& world, Station& station, uint64_t seed)
      : world_(world),
        station_(station),
        random_(seed),
        agent_({.address = station.address(), .start = world.now()}, random_) {
    station.engine().attach_services(&agent_);
    station.driver().after_turn([this](Instant) { turn(); });
  }
  ~App() { station_.engine().attach_services(nullptr); }

  void listen() { REQUIRE(agent_.listen(kService, inbox_)); }
  void connect(const Station& to) {
    Line line = make_line();
    const Result<uint32_t> id = agent_.connect(
        to.address(), kService, {.qpn = line.end->qp().number, .psn = line.psn}, inbox_, now());
    REQUIRE(id);
    lines_[*id] = std::move(line);
    changed();
  }

  cm::Agent& agent() { return agent_; }
  uint64_t asked = 0, established = 0, ended = 0, failed = 0, words_sent = 0, words_received = 0;

 private:
  struct Line {
    std::unique_ptr<Endpoint> end;
    Psn psn;
  };
  Instant now() const { return world_.now(); }
  void changed() {
    station_.engine().services_changed();
    station_.driver().kick();
  }
  Line make_line() {
    Line line;
    line.end = std::make_unique<Endpoint>(station_, transport::QpConfig{}, 16);
    line.psn = Psn{random_.next32() & Psn::kMask};
    return line;
  }
  void walk(Line& line, const Gid& peer, QpNum qpn, Psn theirs) {
    const ConnectOptions options{.timeout = 12};
    world_.to_rtr(*line.end, peer, qpn, line.psn, options);
    world_.to_rts(*line.end, theirs, options);
  }

  void turn() {
    Event event;
    while (agent_.next(inbox_, event)) handle(event);
    for (auto& [id, line] : lines_) look(id, line);
  }
  void look(uint32_t id, Line& line) {
    for (const Completion& c : line.end->received()) words_received += c.status == Status::success;
    for (const Completion& c : line.end->sent()) {
      if (c.status != Status::success) continue;
      ++words_sent;
      (void)agent_.disconnect(id, now());  // after its SEND
      changed();
    }
  }

  void handle(Event& event) {
    const uint32_t id = event.id;
    if (event.kind == EventKind::request) {
      ++asked;
      const cm::Req& req = cm::body_of<cm::Req>(*event.mad);
      Line line = make_line();
      walk(line, event.peer, QpNum{req.local_qpn}, Psn{req.starting_psn});
      REQUIRE(line.end->recv(1, {station_.sge(64, 8)}));
      REQUIRE(agent_.accept(id, {.qpn = line.end->qp().number, .psn = line.psn}, now()));
      lines_[id] = std::move(line);
    } else if (event.kind == EventKind::reply) {
      ++established;
      const cm::Rep& rep = cm::body_of<cm::Rep>(*event.mad);
      Line& line = lines_.at(id);
      walk(line, event.peer, QpNum{rep.local_qpn}, Psn{rep.starting_psn});
      if (!agent_.confirm(id, now())) return;
      const Sge sge = station_.sge(0, 8);
      REQUIRE(line.end->send({.id = 1, .sges = {&sge, 1}}));
    } else if (event.kind == EventKind::established) {
      ++established;
    } else {
      ++(event.kind == EventKind::disconnected ? ended : failed);
      Line& line = lines_.at(id);
      for (const Completion& c : line.end->received())
        words_received += c.status == Status::success;
      station_.engine().destroy_qp(&line.end->qp());
      lines_.erase(id);
      agent_.release(id, now());
    }
    changed();
  }

  World& world_;
  Station& station_;
  base::SecureRandom random_;
  cm::Agent agent_;
  cm::Inbox inbox_;
  std::map<uint32_t, Line> lines_;
};

uint64_t run_many(uint64_t seed, const middleware::FaultOptions& faults, uint64_t connections) {
  World world(seed);
  StationOptions options;
  options.wrap = [&](std::unique_ptr<transport::Port> inner) {
    return std::make_unique<middleware::FaultPort>(std::move(inner), faults,
                                                   [&world] { return world.now(); });
  };
  Station& a = world.add_station(options);
  Station& b = world.add_station(options);
  world.cable(a, b);
  App client(world, a, seed), server(world, b, seed + 1);
  server.listen();
  client.listen();
  for (uint64_t i = 0; i < connections; ++i) {
    client.connect(b);
    if (i % 8 == 0) server.connect(a);  // at the same time, in the other direction
    if (i % 10 == 9) world.run_for(Duration::from_s(6));
  }
  REQUIRE(world.run());
  const uint64_t back = (connections + 7) / 8;
  for (App* const app : {&client, &server}) {
    CHECK(app->agent().connections() == 0);
    CHECK(app->failed == 0);
    // The SEND implies that the client is ready, where its RTU is lost.
    CHECK(app->ended == connections + back);
    CHECK(app->established == app->ended);
  }
  CHECK(server.asked == connections);
  CHECK(client.asked == back);
  CHECK(client.words_sent == connections);
  CHECK(server.words_received == connections);
  CHECK(server.words_sent == back);
  CHECK(client.words_received == back);
  return world.network().hash().value();
}

TEST_CASE("connections over a network without faults (C-CM-106)") { (void)run_many(1, {}, 100); }

TEST_CASE("connections while frames are lost, repeated and late (C-CM-106, C-CM-107)") {
  const middleware::FaultOptions faults{
      .loss = 50'000, .dup = 50'000, .reorder = 50'000, .reorder_time = Duration::from_ms(2)};
  const uint64_t first = run_many(7, faults, 300);
  CHECK(run_many(7, faults, 300) == first);
}

TEST_CASE("queue pair 1 accepts MADs and nothing else, roce:C-HDR-10") {
  World world(1);
  Station& a = world.add_station();
  Station& b = world.add_station();
  world.cable(a, b);
  App server(world, b, 2);
  server.listen();
  transport::Path path;
  path.source = a.address();
  path.destination = b.address();
  std::vector<std::byte> mad(256);
  Forgery f;
  f.bth = {.opcode = wire::kUdSendOnly, .dest = wire::kGsiQpn};
  f.qkey = 0x80010000;
  f.source_qp = wire::kGsiQpn;
  f.payload = mad;
  const auto say = [&] { give(b.engine(), path, forge(path, f), world.now()); };
  say();
  CHECK(server.agent().count(cm::AgentCount::malformed) == 1);
  f.qkey = 0x80010001;
  say();
  CHECK(b.count(Count::rx_bad_qkey) == 1);
  f.qkey = 0x80010000;
  f.source_qp = QpNum{2};
  say();
  f.source_qp = wire::kGsiQpn;
  mad.resize(260);
  f.payload = mad;
  say();
  mad.resize(252);
  f.payload = mad;
  say();
  CHECK(b.count(Count::rx_bad_payload) == 3);
  f.bth.opcode = wire::kRcSendOnly;
  say();
  CHECK(b.count(Count::rx_wrong_service) == 1);
  CHECK(server.agent().count(cm::AgentCount::received) == 1);
  b.engine().attach_services(nullptr);
  f.bth.opcode = wire::kUdSendOnly;
  say();
  CHECK(b.count(Count::rx_unknown_qp) == 1);
}

}  // namespace
}  // namespace weft::test
