// SPDX-License-Identifier: BSD-3-Clause
// SRD engines on protected ports in a simulated network: what they exchange arrives under loss,
// damage, duplication and reordering, over restarts of both sides; clear packets and those of
// another secret do not.
#include "tests/secure/secure_ports.hpp"
#include "tests/srd/srd_two.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

constexpr std::string_view kText = "what must not be read on its way";

PortAbove protect(const sim::Network*& network, std::string_view secret = "one") {
  return [&network, key = secret_of(secret)](std::unique_ptr<transport::Port> port, uint64_t seed) {
    return std::make_unique<secure::SecurePort>(
        std::move(port), secure::SecurePortOptions{.library = &cryptographic_library(),
                                                   .secret = key,
                                                   .cipher = crypto::Cipher::aes_128_gcm,
                                                   .clock = [&network] { return network->now(); },
                                                   .random = base::SecureRandom(seed + 1),
                                                   .renew_after = 500});
  };
}

uint64_t count_of(SrdStation& station, std::string_view name) {
  std::vector<Counter> counters;
  station.life().port->append_counters(counters);
  for (const Counter& counter : counters)
    if (counter.name == name) return counter.value;
  FAIL("no counter " << name);
  return 0;
}

struct Protected {
  const sim::Network* network = nullptr;
  SrdOptions options;
  std::unique_ptr<SrdTwo> two;

  explicit Protected(SrdOptions given = {}) : options(std::move(given)) {
    options.above = protect(network);
    // Ports are made with the stations; no packet is sent before the network is known.
    two = std::make_unique<SrdTwo>(options);
    network = &two->world.network;
  }
  SrdStation& a() { return two->a; }
  SrdStation& b() { return two->b; }
  SrdWorld& world() { return two->world; }

  // Until a message arrives: one that was in progress when a process ended fails.
  void meet() {
    for (int tries = 0; tries < 4; ++tries) {
      CHECK(a().write(b(), 8, 300'000).accepted == 1);
      std::vector<Completion> done;
      CHECK(world().run_until([&] { return !(done = a().sent()).empty(); }));
      if (done[0].status == Status::success) return;
    }
    FAIL("no message arrives");
  }
  // A message of each kind from `a` to `b`; what they did is checked.
  void exchange(uint64_t round) {
    std::memcpy(a().at(0), kText.data(), kText.size());
    const Sge text = a().sge(0, 20'000), word = a().sge(40'000, 8), back = a().sge(50'000, 20'000);
    a().word(0) = round;
    const uint64_t before = b().word(256'000);
    CHECK(b().recv(1, b().sge(200'000, 20'000)).accepted == 1);
    SendRequest send = two->request(Opcode::send, 1, {&text, 1});
    SendRequest write = two->request(Opcode::write, 2, {&text, 1}, 100'000);
    SendRequest add = two->request(Opcode::fetch_add, 3, {&word, 1}, 256'000);
    add.compare_add = 1;
    for (const SendRequest& each : {send, write, add}) CHECK(a().post(b(), each).accepted == 1);
    std::vector<Completion> done;
    const auto collect = [&] {
      for (const Completion& c : a().sent()) done.push_back(c);
      return done.size();
    };
    CHECK(world().run_until([&] { return collect() == 3; }));
    SendRequest read = two->request(Opcode::read, 4, {&back, 1}, 100'000);
    CHECK(a().post(b(), read).accepted == 1);
    CHECK(world().run_until([&] { return collect() == 4; }));
    for (const Completion& c : done) CHECK(c.status == Status::success);
    CHECK(world().run_until([&] { return b().received().size() == 1; }));
    CHECK(std::memcmp(b().at(100'000), a().at(0), 20'000) == 0);
    CHECK(std::memcmp(b().at(200'000), a().at(0), 20'000) == 0);
    CHECK(std::memcmp(a().at(50'000), a().at(0), 20'000) == 0);
    CHECK(b().word(256'000) == before + 1);
  }
};

}  // namespace

TEST_CASE("messages arrive, and who records all packets finds neither payload nor keys in them") {
  Protected t;
  uint64_t packets = 0;
  bool leaks = false;
  base::Be32 key;
  key = t.b().key();
  const std::string_view key_bytes(reinterpret_cast<const char*>(&key), sizeof key);
  const auto look = [&](const SentFrame& frame) {
    ++packets;
    const std::string_view bytes(reinterpret_cast<const char*>(frame.bytes.data()),
                                 frame.bytes.size());
    leaks = leaks || bytes.find(kText) != std::string_view::npos ||
            bytes.substr(std::min(sizeof(wire::SrdBase), bytes.size())).find(key_bytes) !=
                std::string_view::npos;
    CHECK((static_cast<uint8_t>(frame.bytes[2]) & wire::srd_flag::kProtected) != 0);
    return true;
  };
  t.a().life().tap->filter = t.b().life().tap->filter = look;
  for (uint64_t round = 0; round < 20; ++round) t.exchange(round);
  CHECK_FALSE(leaks);
  CHECK(packets > 300);
  CHECK(count_of(t.a(), "secure_rx_forged") + count_of(t.b(), "secure_rx_forged") == 0);
  CHECK(count_of(t.a(), "secure_rx_unknown_association") == 0);
}

TEST_CASE("what is lost, damaged, repeated or late is repaired, and executed once, threat:A12") {
  SrdOptions options;
  options.faults.loss = options.faults.dup = 10'000;
  options.faults.reorder = options.faults.corrupt = 20'000;
  options.faults.truncate = options.faults.pad = 2'000;
  Protected t(options);
  for (uint64_t round = 0; round < 100; ++round) t.exchange(round);
  for (SrdStation* const station : {&t.a(), &t.b()}) {
    CHECK(count_of(*station, "secure_rx_forged") > 10);
    CHECK(count_of(*station, "secure_rx_replayed") > 10);
    CHECK(count_of(*station, "secure_rx_malformed") + count_of(*station, "secure_rx_clear") > 0);
    // The key has changed meanwhile.
    CHECK(count_of(*station, "secure_keys_received") > 3);
    CHECK(station->count(Count::rx_icrc_error) == 0);
  }
}

TEST_CASE("endpoints with several addresses are protected on each route") {
  SrdOptions options;
  options.rails = 3;
  options.config.paths = 2;
  Protected t(options);
  for (uint64_t round = 0; round < 50; ++round) t.exchange(round);
  CHECK(count_of(t.b(), "secure_keys_granted") >= 3);  // each address is connected to one
  CHECK(count_of(t.b(), "secure_rx_forged") == 0);
}

TEST_CASE("either side restarts, and packets of dead processes are worth nothing, threat:A25") {
  Protected t;
  std::vector<SentFrame> recorded;
  const auto tap = [&] {
    t.a().life().tap->filter = [&](const SentFrame& frame) {
      if (recorded.size() < 20'000) recorded.push_back(frame);
      return true;
    };
  };
  tap();
  for (uint64_t round = 0; round < 12; ++round) {
    t.exchange(round);
    if (round % 2 == 0) t.b().restart();
    if (round % 3 == 0) {
      t.a().restart();
      tap();
    }
    t.meet();
  }
  t.exchange(12);
  t.world().run_for(Duration::from_ms(100));
  const uint64_t before = t.b().count(Count::rx_packets);
  const uint64_t executed = t.b().word(256'000);
  for (const SentFrame& frame : recorded) {
    t.b().inject(frame);
    t.world().run_for(Duration::from_us(1));
  }
  t.world().run_for(Duration::from_ms(1));
  CHECK(recorded.size() > 200);
  CHECK(t.b().count(Count::rx_packets) == before);
  CHECK(t.b().word(256'000) == executed);
  t.exchange(13);
}

TEST_CASE("clear and protected endpoints do not reach each other, threat:A34") {
  for (const bool sender_is_clear : {true, false}) {
    SrdOptions options;
    options.config.dead_peer_timeout = Duration::from_ms(50);
    Protected t(options);
    SrdStation& clear = sender_is_clear ? t.a() : t.b();
    clear.options().above = {};
    clear.restart();
    std::memset(t.b().at(100'000), 0, 64);
    std::memset(t.a().at(0), 1, 64);
    CHECK(t.a().write(t.b(), 64, 100'000).accepted == 1);
    std::vector<Completion> done;
    CHECK(t.world().run_until([&] { return !(done = t.a().sent()).empty(); }));
    CHECK(done[0].status == Status::retry_exceeded);
    CHECK(t.b().word(100'000) == 0);
    if (sender_is_clear) {
      CHECK(count_of(t.b(), "secure_rx_clear") > 0);
      CHECK(t.b().count(Count::rx_packets) == 0);
    } else {
      CHECK(t.b().count(Count::rx_bad_version) > 0);
    }
  }
}

TEST_CASE("an endpoint with another secret is not reached") {
  SrdOptions options;
  options.config.dead_peer_timeout = Duration::from_ms(50);
  Protected t(options);
  t.a().options().above = protect(t.network, "another");
  t.a().restart();
  CHECK(t.a().write(t.b(), 64, 100'000).accepted == 1);
  std::vector<Completion> done;
  CHECK(t.world().run_until([&] { return !(done = t.a().sent()).empty(); }));
  CHECK(done[0].status == Status::retry_exceeded);
  CHECK(count_of(t.b(), "secure_rx_bad_exchange") > 0);
  CHECK(count_of(t.b(), "secure_keys_granted") == 0);
  CHECK(t.b().count(Count::rx_packets) == 0);
}
