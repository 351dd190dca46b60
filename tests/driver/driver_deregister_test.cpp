// SPDX-License-Identifier: BSD-3-Clause
// Deregistration while a port takes no frames: those that point into the memory are dropped, others
// are sent, the key is gone before, and the port lets go of the memory last. //= threat:A36
#include <array>
#include <functional>
#include <vector>

#include "lib/driver/driver.hpp"
#include "tests/support/catch.hpp"

namespace weft::driver {
namespace {

// A port that takes nothing until it is told to.
struct FullPort : transport::Port {
  transport::Capabilities caps;
  transport::Path path;
  bool full = true;
  std::vector<uint32_t> sent;  // by TxFrame::crc, which numbers them here
  std::function<void()> on_detach;

  const transport::Capabilities& capabilities() const noexcept override { return caps; }
  Gid address() const noexcept override { return {}; }
  size_t receive(std::span<transport::Frame>) noexcept override { return 0; }
  void release(std::span<const transport::Frame>) noexcept override {}
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override {
    if (full) return 0;
    for (const transport::TxFrame& frame : frames) sent.push_back(frame.crc);
    return frames.size();
  }
  void detach(void*, size_t) noexcept override {
    if (on_detach) on_detach();
  }
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return true; }
};

// Builds one frame for each span that it is given, once.
struct SpanMachine : transport::Machine {
  SpanMachine(FullPort& port, base::SecureRandom& random) : Machine(port, random), port(port) {}
  void receive(std::span<const transport::Frame>, Instant) noexcept override {}
  size_t transmit(std::span<transport::TxFrame> frames, Instant) noexcept override {
    size_t made = 0;
    for (; made < spans.size() && made < frames.size(); ++made) {
      frames[made] = {};
      frames[made].path = &port.path;
      frames[made].spans = spans[made].data();
      frames[made].span_count = 2;
      frames[made].crc = static_cast<uint32_t>(made);
    }
    kept = std::move(spans);
    spans.clear();
    return made;
  }
  void expire(Instant) noexcept override {}
  bool wants_transmit() const noexcept override { return !spans.empty(); }
  bool has_active() const noexcept override { return !spans.empty(); }

  FullPort& port;
  using Pair = std::array<transport::Span, 2>;
  std::vector<Pair> spans, kept;
};

}  // namespace

TEST_CASE("deregistration drops the unsent frames that point into the memory, threat:A36") {
  auto* const port = new FullPort;
  Driver driver(std::unique_ptr<transport::Port>(port),
                [port](transport::Port&, base::SecureRandom& random) {
                  return std::make_unique<SpanMachine>(*port, random);
                },
                {.single_thread = true});
  REQUIRE(driver.start());
  auto& machine = static_cast<SpanMachine&>(driver.machine());
  alignas(4096) static std::byte memory[3 * 4096];
  std::byte* const region = memory + 4096;
  constexpr size_t kSize = 4096;
  const memory::Registration description{
      {region, kSize, reinterpret_cast<uint64_t>(region)}, Access::local_write, 1};
  const auto key = driver.register_memory(description);
  REQUIRE(key);
  const auto at = [](std::byte* from, uint32_t length) {
    return SpanMachine::Pair{{{memory, 1}, {from, length}}};
  };
  machine.spans = {at(region, 1),                  // 0: the first byte
                   at(region - 1, 1),              // 1: ends where it begins
                   at(region + kSize - 1, 1),      // 2: the last byte
                   at(region + kSize, 16),         // 3: begins where it ends
                   at(region - 16, 17),            // 4: reaches in from below
                   at(memory, sizeof memory),      // 5: holds all of it
                   {{{region, 1}, {memory, 1}}}};  // 6: in the first span
  std::byte* where = nullptr;
  REQUIRE(machine.keys().check(*key, 1u, reinterpret_cast<uint64_t>(region), 1, Access::none,
                               &where) == memory::Verdict::ok);
  driver.after_post(1);
  REQUIRE(machine.kept.size() == 7);
  REQUIRE(port->sent.empty());
  bool detached = false;
  port->on_detach = [&] {
    detached = true;
    std::byte* where = nullptr;
    CHECK(machine.keys().check(*key, 1u, reinterpret_cast<uint64_t>(region), 1, Access::none,
                               &where) != memory::Verdict::ok);
    port->full = false;  // what the port could still send now, it would send
  };
  driver.deregister_memory(*key, description);
  CHECK(detached);
  driver.after_post(1);
  CHECK(port->sent == std::vector<uint32_t>{1, 3});
}

}  // namespace weft::driver
