// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues of all services: which queue pair gets a receive, the limit event, and what
// becomes of one that a queue pair holds when it goes.
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;
using Pool = transport::SharedReceives;

// Two stations; each pair of endpoints a[i] -> b[i] is of the given type, and all b share.
struct Shared {
  World world;
  Station& station_a = world.add_station();
  Station& station_b = world.add_station();
  std::unique_ptr<Pool> pool;
  std::vector<std::unique_ptr<Endpoint>> a, b;

  explicit Shared(std::initializer_list<QpType> types, uint32_t receives = 64) {
    world.cable(station_a, station_b);
    pool = std::move(*station_b.engine().create_shared_receives(
        Station::kDomain, {.max_recv_wr = receives, .max_recv_sge = 2}));
    for (const QpType type : types) {
      transport::QpConfig config;
      config.type = type;
      a.push_back(std::make_unique<Endpoint>(station_a, config));
      config.shared = pool.get();
      b.push_back(std::make_unique<Endpoint>(station_b, config));
      world.connect(*a.back(), *b.back());
    }
  }
  void post(uint64_t id, uint32_t length = 4096) {
    const Sge sge = station_b.sge(id * 8192 % (1u << 19), length);
    const RecvRequest r{id, {&sge, 1}};
    REQUIRE(station_b.engine().post_recv(*pool, {&r, 1}));
  }
  void send(size_t from, uint32_t length, Opcode opcode = Opcode::send) {
    const Sge sge = station_a.sge(0, length);
    const AddressHandle to(AddressVector{.destination = station_b.address()});
    SendRequest r;
    r.opcode = opcode;
    r.sges = {&sge, 1};
    r.to = &to;
    r.remote_qpn = b[from]->qp().number;
    r.remote_qkey = ConnectOptions{}.qkey;
    r.remote_address = station_b.address_of(600'000);
    r.rkey = RKey{station_b.key()};
    REQUIRE(a[from]->send(r));
  }
  std::vector<AsyncEvent> events() {
    std::vector<AsyncEvent> all;
    for (AsyncEvent event; station_b.engine().next_event(event);) all.push_back(event);
    return all;
  }
  // One packet of a message that goes on, from a[from] to b[from].
  void begin_message(size_t from) {
    const std::vector<std::byte> payload(1024, std::byte{1});
    Forgery f;
    f.bth = {.opcode = wire::kRcSendFirst,
             .dest = b[from]->qp().number,
             .psn = b[from]->qp().res.expected};
    f.payload = payload;
    const transport::Path path = path_of(*a[from]);
    give(station_b.engine(), path, forge(path, f), world.now());
  }
};

TEST_CASE("queue pairs of all services share receives, roce:C-OPS-92") {
  Shared t({QpType::rc, QpType::uc, QpType::ud, QpType::rc});
  fill(t.station_a.at(0), 4096, 3);
  for (uint64_t id = 1; id <= 12; ++id) t.post(id);
  std::vector<uint64_t> taken;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 4; ++i) {
      t.send(i, 1000, Opcode::send_with_imm);
      REQUIRE(t.world.run());
      const Completion got = t.b[i]->only_received();
      REQUIRE(got.status == Status::success);
      CHECK(got.qp == t.b[i]->qp().number);
      const size_t header = t.b[i]->qp().type == QpType::ud ? kNetworkHeaderLength : 0;
      CHECK(got.byte_count == 1000 + header);
      CHECK(std::memcmp(t.station_a.at(0), t.station_b.at(got.id * 8192 + header), 1000) == 0);
      taken.push_back(got.id);
    }
  }
  CHECK(taken == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  t.send(0, 3000, Opcode::write_with_imm);
  REQUIRE(t.world.run());
  CHECK(t.b[0]->only_received().id == 9);
  CHECK(t.pool->ring.size() == 3);
  check_quiet(t.station_b);
}

TEST_CASE("an empty SRQ: RC sends RNR NAKs, UC and UD drop") {
  Shared t({QpType::rc, QpType::uc, QpType::ud});
  t.send(1, 100);
  t.send(2, 100);
  REQUIRE(t.world.run());
  CHECK(t.station_b.count(Count::rx_no_receive) == 2);
  t.send(0, 100);
  t.world.run_for(Duration::from_us(100));
  CHECK(t.station_b.count(Count::tx_rnr_naks) > 0);
  t.post(1);
  REQUIRE(t.world.run());
  CHECK(t.b[0]->only_received().status == Status::success);
  CHECK(t.a[0]->only_sent().status == Status::success);
}

TEST_CASE("the limit event is raised once, and again when armed again, roce:C-OPS-92") {
  Shared t({QpType::rc, QpType::ud});
  for (uint64_t id = 1; id <= 8; ++id) t.post(id);
  t.pool->limit = 6;
  for (int i = 0; i < 5; ++i) {
    t.send(static_cast<size_t>(i % 2), 100);
    REQUIRE(t.world.run());
    const std::vector<AsyncEvent> events = t.events();
    CHECK(events.size() == (i == 2 ? 1 : 0));  // five are left
    if (events.empty()) continue;
    CHECK(events[0].type == EventType::srq_limit_reached);
    CHECK(events[0].shared_queue == t.pool->number);
  }
  t.pool->limit = 6;
  t.send(0, 100);
  REQUIRE(t.world.run());
  CHECK(t.events().size() == 1);
}

TEST_CASE("a queue pair in ERR flushes its receive and takes no more, roce:C-STATE-68") {
  Shared t({QpType::rc, QpType::rc});
  for (uint64_t id = 1; id <= 3; ++id) t.post(id);
  t.begin_message(0);
  CHECK(t.pool->ring.size() == 2);
  REQUIRE(t.station_b.engine().modify_qp(t.b[0]->qp(), {.state = QpState::err}));
  const Completion flushed = t.b[0]->only_received();
  CHECK(flushed.id == 1);
  CHECK(flushed.status == Status::flushed);
  const std::vector<AsyncEvent> events = t.events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].type == EventType::last_wqe_reached);
  CHECK(events[0].qp == t.b[0]->qp().number);
  t.send(1, 100);
  REQUIRE(t.world.run());
  CHECK(t.b[1]->only_received().id == 2);
}

TEST_CASE("a destroyed queue pair returns its receive") {
  Shared t({QpType::rc, QpType::rc});
  t.post(1);
  t.begin_message(0);
  CHECK(t.pool->ring.empty());
  if (GENERATE(true, false))
    t.station_b.engine().destroy_qp(&t.b[0]->qp());
  else
    REQUIRE(t.station_b.engine().modify_qp(t.b[0]->qp(), {.state = QpState::reset}));
  CHECK(t.pool->ring.size() == 1);
  t.send(1, 100);
  REQUIRE(t.world.run());
  CHECK(t.b[1]->only_received().id == 1);
}

TEST_CASE("receives are posted to the SRQ only, up to its size") {
  Shared t({QpType::rc}, 3);
  CHECK(t.b[0]->recv(1, {t.station_b.sge(0, 8)}).code == Code::invalid_argument);
  const Sge sges[3] = {t.station_b.sge(0, 8), t.station_b.sge(0, 8), t.station_b.sge(0, 8)};
  const RecvRequest wide{1, sges};
  CHECK(t.station_b.engine().post_recv(*t.pool, {&wide, 1}).code == Code::invalid_argument);
  for (uint64_t id = 1; id <= 3; ++id) t.post(id);
  const RecvRequest more{4, {sges, 1}};
  CHECK(t.station_b.engine().post_recv(*t.pool, {&more, 1}).code == Code::queue_full);
  CHECK(!t.station_b.engine().create_shared_receives(1, {.max_recv_wr = 0}));
}

}  // namespace
}  // namespace weft::test
