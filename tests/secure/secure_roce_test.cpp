// SPDX-License-Identifier: BSD-3-Clause
// RoCE engines on protected ports in a simulated network: RC and UD arrive under loss and damage;
// clear packets of one who knows all numbers and keys of a connection do not.
#include "providers/port/middleware/fault_port.hpp"
#include "tests/secure/secure_ports.hpp"
#include "tests/virtual_time/world.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

struct Stations {
  World world;
  std::vector<secure::SecurePort*> ports;
  Station& a;
  Station& b;

  explicit Stations(const middleware::FaultOptions& faults = {})
      : a(world.add_station(options(faults, 1))), b(world.add_station(options(faults, 2))) {
    world.cable(a, b);
  }
  StationOptions options(middleware::FaultOptions faults, uint64_t seed) {
    StationOptions o;
    faults.seed = seed;
    o.wrap = [this, faults, seed](std::unique_ptr<transport::Port> port) {
      const auto clock = [this] { return world.now(); };
      port = std::make_unique<middleware::FaultPort>(std::move(port), faults, clock);
      auto protect = std::make_unique<secure::SecurePort>(
          std::move(port), secure::SecurePortOptions{.library = &cryptographic_library(),
                                                     .secret = secret_of("one"),
                                                     .cipher = crypto::Cipher::aes_128_gcm,
                                                     .layout = secure::kRoceLayout,
                                                     .udp_port = 4791,
                                                     .clock = clock,
                                                     .random = base::SecureRandom(seed)});
      ports.push_back(protect.get());
      return protect;
    };
    return o;
  }
  uint64_t count(size_t station, std::string_view name) const {
    std::vector<Counter> counters;
    ports[station]->append_counters(counters);
    for (const Counter& counter : counters)
      if (counter.name == name) return counter.value;
    FAIL("no counter " << name);
    return 0;
  }
};

}  // namespace

TEST_CASE("roce: what is lost and damaged on the way is repaired, and executed once, threat:A12") {
  middleware::FaultOptions faults;
  faults.loss = faults.dup = faults.corrupt = 10'000;
  Stations t(faults);
  Endpoint a(t.a), b(t.b);
  t.world.connect(a, b);
  for (uint64_t round = 0; round < 50; ++round) {
    for (size_t i = 0; i < 20'000; ++i) *t.a.at(i) = static_cast<std::byte>(i * 7 + round);
    const Sge text = t.a.sge(0, 20'000), word = t.a.sge(40'000, 8);
    SendRequest write{.id = 1, .opcode = Opcode::write, .sges = {&text, 1}};
    write.remote_address = t.b.address_of(100'000);
    write.rkey = RKey{t.b.key()};
    SendRequest add{.id = 2, .opcode = Opcode::fetch_add, .sges = {&word, 1}};
    add.remote_address = t.b.address_of(200'000);
    add.rkey = RKey{t.b.key()};
    add.compare_add = 1;
    CHECK(a.send(write).accepted == 1);
    CHECK(a.send(add).accepted == 1);
    CHECK(t.world.run());
    const std::vector<Completion> done = a.sent();
    REQUIRE(done.size() == 2);
    for (const Completion& c : done) CHECK(c.status == Status::success);
    CHECK(std::memcmp(t.b.at(100'000), t.a.at(0), 20'000) == 0);
  }
  uint64_t sum = 0;
  std::memcpy(&sum, t.b.at(200'000), sizeof sum);
  CHECK(sum == 50);
  CHECK(t.count(1, "secure_rx_forged") > 5);
  CHECK(t.count(1, "secure_rx_replayed") > 5);
  CHECK(t.b.count(Count::rx_icrc_error) == 0);
}

TEST_CASE("roce: clear packets with the right numbers and key write nothing, threat:A34") {
  Stations t;
  Endpoint a(t.a), b(t.b);
  t.world.connect(a, b);
  // The tap is above the protection: it has the packet in clear.
  std::vector<SentFrame> clear;
  t.a.tap().filter = [&](const SentFrame& frame) {
    clear.push_back(frame);
    return true;
  };
  std::memset(t.a.at(0), 1, 64);
  const Sge text = t.a.sge(0, 64);
  SendRequest write{.id = 1, .opcode = Opcode::write, .sges = {&text, 1}};
  write.remote_address = t.b.address_of(100'000);
  write.rkey = RKey{t.b.key()};
  CHECK(a.send(write).accepted == 1);
  CHECK(t.world.run());
  CHECK(a.only_sent().status == Status::success);
  REQUIRE(clear.size() == 1);
  const uint64_t received = t.b.count(Count::rx_packets);
  std::memset(t.b.at(100'000), 0, 64);
  for (uint32_t psn = 0; psn < 64; ++psn) {
    std::vector<std::byte> bytes = clear[0].bytes;
    reinterpret_cast<wire::Bth*>(bytes.data())->psn = clear[0].bth().psn + psn;
    bytes.resize(bytes.size() + wire::kIcrcLength);
    t.world.inject(t.b, clear[0].path, bytes);
  }
  CHECK(t.world.run());
  CHECK(t.count(1, "secure_rx_clear") == 64);
  CHECK(t.b.count(Count::rx_packets) == received);
  CHECK(*t.b.at(100'000) == std::byte{0});
}
