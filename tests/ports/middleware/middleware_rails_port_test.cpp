// SPDX-License-Identifier: BSD-3-Clause
// Several ports as one: frames leave by their source address and come in turns, what all can do is
// what the device can, and one that is down causes no event while another is up.
#include <unistd.h>

#include <deque>

#include "providers/port/middleware/rails_port.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::transport;

namespace {

Gid host(uint8_t last) { return Gid::from_ipv4(10, 0, 0, last); }

class Fake final : public Port {
 public:
  explicit Fake(const Gid& address) : address_(address) {
    if (::pipe(pipe_) != 0) pipe_[0] = pipe_[1] = -1;
  }
  ~Fake() override {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  const Capabilities& capabilities() const noexcept override { return can; }
  Gid address() const noexcept override { return address_; }
  QpnRange qpn_range() const noexcept override { return range; }
  uint16_t source_port(uint16_t wanted, uint32_t rail) noexcept override {
    CHECK(rail == 0);
    return static_cast<uint16_t>(wanted + shift);
  }
  size_t receive(std::span<Frame> frames) noexcept override {
    CHECK(lent == 0);
    while (lent < frames.size() && lent < waiting) frames[lent++] = Frame{.length = number};
    waiting -= lent;
    return lent;
  }
  void release(std::span<const Frame> frames) noexcept override {
    CHECK(frames.size() == lent);
    for (const Frame& frame : frames) CHECK(frame.length == number);
    lent = 0;
  }
  size_t transmit(std::span<const TxFrame> frames) noexcept override {
    const size_t n = std::min(frames.size(), take);
    for (const TxFrame& frame : frames.first(n)) CHECK(frame.path->source == address_);
    sent += n;
    take -= n;
    return n;
  }
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) noexcept override {
    if (waiting != 0) return false;
    descriptors.push_back({pipe_[0], POLLIN, 0});
    wanted_transmit = want_transmit;
    ++prepared;
    return true;
  }
  void finish_wait() noexcept override { --prepared; }
  int async_event_fd() const noexcept override { return pipe_[0]; }
  std::optional<EventType> next_event() noexcept override {
    if (queued_events.empty()) return {};
    const EventType first = queued_events.front();
    queued_events.pop_front();
    return first;
  }
  void append_counters(std::vector<Counter>& counters) const override {
    counters.push_back({"fake_sent", sent});
  }
  void wake() { CHECK(::write(pipe_[1], "", 1) == 1); }

  Capabilities can;
  QpnRange range;
  uint32_t number = 0;
  uint16_t shift = 0;
  size_t waiting = 0, lent = 0, take = SIZE_MAX, sent = 0;
  bool wanted_transmit = false;
  int prepared = 0;
  std::deque<EventType> queued_events;

 private:
  Gid address_;
  int pipe_[2];
};

struct Three {
  Fake* rail[3];
  std::unique_ptr<Port> port;
  Three() {
    std::vector<std::unique_ptr<Port>> ports;
    for (uint8_t i = 0; i < 3; ++i) {
      auto fake = std::make_unique<Fake>(host(static_cast<uint8_t>(i + 1)));
      fake->number = i;
      fake->shift = i;
      rail[i] = fake.get();
      ports.push_back(std::move(fake));
    }
    port = std::move(*middleware::RailsPort::bundle(std::move(ports)));
  }
};

}  // namespace

TEST_CASE("rails: the first address is the device's, each has its source ports") {
  Three t;
  CHECK(t.port->address() == host(1));
  REQUIRE(t.port->further_addresses().size() == 2);
  CHECK(t.port->further_addresses()[1] == host(3));
  CHECK(t.port->source_port(0xC000, 2) == 0xC002);
}

TEST_CASE("rails: frames leave by their source, and what is not taken stays in order") {
  Three t;
  Path paths[3];
  for (uint8_t i = 0; i < 3; ++i) paths[i].source = host(static_cast<uint8_t>(i + 1));
  TxFrame frames[6];
  const int order[] = {0, 0, 2, 2, 1, 2};
  for (int i = 0; i < 6; ++i) frames[i].path = &paths[order[i]];
  CHECK(t.port->transmit(frames) == 6);
  CHECK(t.rail[0]->sent == 2);
  CHECK(t.rail[1]->sent == 1);
  CHECK(t.rail[2]->sent == 3);
  t.rail[2]->take = 1;
  CHECK(t.port->transmit(frames) == 3);
  CHECK(t.rail[1]->sent == 1);
  // Only that one is waited for.
  std::vector<pollfd> descriptors;
  REQUIRE(t.port->prepare_wait(descriptors, true));
  CHECK(descriptors.size() == 3);
  CHECK(t.rail[2]->wanted_transmit);
  CHECK_FALSE(t.rail[0]->wanted_transmit);
  t.port->finish_wait();
  for (Fake* fake : t.rail) CHECK(fake->prepared == 0);
  std::vector<Counter> counters;
  t.port->append_counters(counters);
  REQUIRE(counters.size() == 1);
  CHECK(counters[0].value == 9);
}

TEST_CASE("rails: all are received from, none starves, and each gets its frames back") {
  Three t;
  size_t got[3] = {};
  for (Fake* fake : t.rail) fake->waiting = 40;
  Frame frames[16];
  for (int round = 0; round < 12; ++round) {
    const size_t n = t.port->receive(frames);
    for (const Frame& frame : std::span(frames).first(n)) ++got[frame.length];
    t.port->release(std::span(frames).first(n));
    if (round == 2) CHECK(std::min({got[0], got[1], got[2]}) > 0);
  }
  CHECK(got[0] + got[1] + got[2] == 120);
  t.rail[1]->waiting = 1;
  std::vector<pollfd> descriptors;
  CHECK_FALSE(t.port->prepare_wait(descriptors, false));
  for (Fake* fake : t.rail) CHECK(fake->prepared == 0);
}

TEST_CASE("rails: the device can what all can, in any order of the ports") {
  const Capabilities more = {.max_mtu = 8192,
                             .active_mtu = 4096,
                             .burst = 32,
                             .train_frames = 16,
                             .train_bytes = 60'000,
                             .integrity_bits = 32,
                             .gather = true,
                             .signs = true,
                             .by_reference = true,
                             .ecn = true,
                             .lossless = true,
                             .telemetry = true,
                             .in_flight_limit = 1u << 21,
                             .packet_overhead = 100};
  const Capabilities less = {.max_mtu = 2048,
                             .active_mtu = 1024,
                             .burst = 128,
                             .train_frames = 4,
                             .train_bytes = 9'000,
                             .integrity_bits = 16,
                             .in_flight_limit = 1u << 19,
                             .packet_overhead = 300};
  for (const size_t weaker : {0u, 1u, 2u}) {  // 2: none is
    INFO(weaker);
    std::vector<std::unique_ptr<Port>> ports;
    for (uint8_t i = 0; i < 2; ++i) {
      auto fake = std::make_unique<Fake>(host(i));
      fake->can = i == weaker ? less : more;
      fake->range = i == weaker ? Port::QpnRange{0x10000, 0x18000} : Port::QpnRange{0, 0x20000};
      ports.push_back(std::move(fake));
    }
    const auto both = middleware::RailsPort::bundle(std::move(ports));
    REQUIRE(both);
    const Capabilities& can = (*both)->capabilities();
    const Capabilities& wanted = weaker < 2 ? less : more;
    CHECK(can.max_mtu == wanted.max_mtu);
    CHECK(can.active_mtu == wanted.active_mtu);
    CHECK(can.burst == wanted.burst);  // the larger: a port takes what it can of it
    CHECK(can.train_frames == wanted.train_frames);
    CHECK(can.train_bytes == wanted.train_bytes);
    CHECK(can.integrity_bits == wanted.integrity_bits);
    CHECK(can.gather == wanted.gather);
    CHECK(can.signs == wanted.signs);
    CHECK(can.ecn == wanted.ecn);
    CHECK(can.lossless == wanted.lossless);
    CHECK(can.in_flight_limit == wanted.in_flight_limit);
    CHECK(can.packet_overhead == wanted.packet_overhead);
    CHECK_FALSE(can.by_reference);
    CHECK_FALSE(can.telemetry);
    const Port::QpnRange range = (*both)->qpn_range();
    CHECK(range.first == (weaker < 2 ? 0x10000 : 0));
    CHECK(range.count == (weaker < 2 ? 0x10000 : 0x20000));
  }
}

TEST_CASE("rails: an address twice, or no common queue pair number, is refused") {
  for (const bool twice : {true, false}) {
    std::vector<std::unique_ptr<Port>> ports;
    for (uint8_t i = 0; i < 2; ++i) {
      auto fake = std::make_unique<Fake>(host(twice ? 1 : i));
      if (!twice) fake->range = {uint32_t{i} << 16, 0x10000};
      ports.push_back(std::move(fake));
    }
    const auto both = middleware::RailsPort::bundle(std::move(ports));
    REQUIRE_FALSE(both);
    CHECK(both.error().message.find(twice ? "10.0.0.1 is there twice" : "share") !=
          std::string::npos);
  }
}

TEST_CASE("rails: events when all ports are down, and when one of them comes back") {
  Three t;
  REQUIRE(t.port->async_event_fd() >= 0);
  pollfd readable{t.port->async_event_fd(), POLLIN, 0};
  CHECK(::poll(&readable, 1, 0) == 0);
  t.rail[2]->wake();
  CHECK(::poll(&readable, 1, 0) == 1);
  t.rail[0]->queued_events = {EventType::port_error};
  t.rail[2]->queued_events = {EventType::port_error, EventType::gid_change};
  CHECK(t.port->next_event() == EventType::gid_change);
  CHECK(t.port->next_event() == std::nullopt);
  t.rail[1]->queued_events = {EventType::port_error};
  CHECK(t.port->next_event() == EventType::port_error);
  t.rail[0]->queued_events = {EventType::port_active};
  t.rail[2]->queued_events = {EventType::port_active};
  CHECK(t.port->next_event() == EventType::port_active);
  CHECK(t.port->next_event() == std::nullopt);
}
