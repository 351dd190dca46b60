// SPDX-License-Identifier: BSD-3-Clause
// The fault port over a port that keeps what it gets: each fault alone, its counter, its seed, and
// the options that ask for it.
#include <cstring>
#include <deque>
#include <numeric>

#include "lib/wire/opcode.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "tests/support/catch.hpp"

namespace weft::middleware {
namespace {

using transport::Frame;
using transport::TxFrame;

// Sends into one list, receives from another; takes `room` frames per call at most.
class ListPort final : public transport::Port {
 public:
  using Bytes = std::vector<std::byte>;
  std::vector<Bytes> sent;
  std::vector<uint8_t> sent_ecn;
  std::deque<Bytes> arriving;
  size_t room = SIZE_MAX;
  size_t released = 0;

  ListPort() {
    capabilities_.integrity_bits = 0;
    capabilities_.train_frames = 64;
    capabilities_.gather = capabilities_.signs = capabilities_.by_reference = true;
    capabilities_.max_mtu = 65536;
  }
  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return {}; }
  size_t receive(std::span<Frame> frames) noexcept override {
    size_t n = 0;
    for (; n < frames.size() && !arriving.empty(); ++n) {
      lent_.push_back(std::move(arriving.front()));
      arriving.pop_front();
      frames[n] = {};
      frames[n].path = &path_;
      frames[n].bytes = lent_.back().data();
      frames[n].length = static_cast<uint32_t>(lent_.back().size());
    }
    return n;
  }
  void release(std::span<const Frame> frames) noexcept override { released += frames.size(); }
  size_t transmit(std::span<const TxFrame> frames) noexcept override {
    const size_t n = std::min(room, frames.size());
    for (const TxFrame& f : frames.first(n)) {
      Bytes bytes(f.head, f.head + f.head_length);
      for (uint32_t i = 0; i < f.span_count; ++i)
        bytes.insert(bytes.end(), f.spans[i].data, f.spans[i].data + f.spans[i].length);
      sent.push_back(bytes);
      sent_ecn.push_back(f.ecn);
    }
    return n;
  }
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return arriving.empty(); }

 private:
  transport::Capabilities capabilities_;
  transport::Path path_;
  std::deque<Bytes> lent_;
};

constexpr uint32_t kLength = 64;

struct Bench {
  Instant now;
  ListPort* inner;
  FaultPort port;

  explicit Bench(const FaultOptions& options)
      : inner(new ListPort),
        port(std::unique_ptr<transport::Port>(inner), options, [this] { return now; }) {}

  // Frame `number`: an RC WRITE (or an ACK) that carries its number.
  static ListPort::Bytes bytes(uint32_t number, uint8_t opcode = wire::kRcWriteOnly) {
    ListPort::Bytes b(kLength, std::byte{0x55});
    b[0] = static_cast<std::byte>(opcode);
    std::memcpy(&b[40], &number, sizeof number);
    return b;
  }
  static uint32_t number(const ListPort::Bytes& b) {
    uint32_t n = 0;
    if (b.size() >= 44) std::memcpy(&n, &b[40], sizeof n);
    return n;
  }
  size_t send(uint32_t first, uint32_t count, uint8_t opcode = wire::kRcWriteOnly) {
    std::vector<ListPort::Bytes> data;
    std::vector<TxFrame> frames(count);
    for (uint32_t i = 0; i < count; ++i) {
      data.push_back(bytes(first + i, opcode));
      frames[i].path = &path;
      frames[i].head = data[i].data();
      frames[i].head_length = kLength;
    }
    return port.transmit(frames);
  }
  // Numbers of what arrives.
  std::vector<uint32_t> fetch() {
    std::vector<uint32_t> numbers;
    Frame frames[32];
    while (const size_t n = port.receive(frames)) {
      for (const Frame& f : std::span(frames, n)) {
        CHECK(f.path != nullptr);
        numbers.push_back(number({f.bytes, f.bytes + f.length}));
      }
      port.release({frames, n});
    }
    return numbers;
  }
  std::vector<uint32_t> sent_numbers() const {
    std::vector<uint32_t> numbers;
    for (const auto& b : inner->sent) numbers.push_back(number(b));
    return numbers;
  }
  transport::Path path;
};

uint32_t per_cent(uint32_t n) { return n * 10'000; }

TEST_CASE("without faults every frame passes as it is") {
  Bench bench({});
  CHECK(bench.send(0, 500) == 500);
  REQUIRE(bench.inner->sent.size() == 500);
  for (uint32_t i = 0; i < 500; ++i) CHECK(bench.inner->sent[i] == Bench::bytes(i));
  for (uint32_t i = 0; i < 100; ++i) bench.inner->arriving.push_back(Bench::bytes(i));
  CHECK(bench.fetch().size() == 100);
  CHECK(bench.inner->released == 100);
}

TEST_CASE("a fault port wants an ICRC, and no trains, gather or references") {
  Bench bench({});
  const transport::Capabilities& c = bench.port.capabilities();
  CHECK(c.integrity_bits == 32);
  CHECK(c.train_frames == 1);
  CHECK_FALSE(c.gather);
  CHECK_FALSE(c.signs);
  CHECK_FALSE(c.by_reference);
  CHECK(c.max_mtu == 4096);
}

TEST_CASE("loss takes about its share, of both directions, and counts it") {
  Bench bench({.loss = per_cent(10)});
  CHECK(bench.send(0, 10000) == 10000);
  const size_t lost = 10000 - bench.inner->sent.size();
  CHECK(lost > 800);
  CHECK(lost < 1200);
  CHECK(bench.port[Fault::loss] == lost);
  for (uint32_t i = 0; i < 10000; ++i) bench.inner->arriving.push_back(Bench::bytes(i));
  const size_t lost_receiving = 10000 - bench.fetch().size();
  CHECK(lost_receiving > 800);
  CHECK(lost_receiving < 1200);
  CHECK(bench.inner->released == 10000);
}

TEST_CASE("the seed repeats a run") {
  const auto run = [](uint64_t seed) {
    Bench bench({.loss = per_cent(5), .dup = per_cent(5), .corrupt = per_cent(5), .seed = seed});
    for (uint32_t i = 0; i < 50; ++i) {
      CHECK(bench.send(i * 10, 10) == 10);
      bench.now = bench.now + Duration::from_us(5);
    }
    return bench.inner->sent;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("bursts lose neighbours") {
  Bench bench({.burst = per_cent(1), .burst_frames = 20});
  bench.send(0, 10000);
  const size_t lost = 10000 - bench.inner->sent.size();
  CHECK(lost > 900);
  CHECK(lost < 2600);
  int gaps = 0;
  const std::vector<uint32_t> sent = bench.sent_numbers();
  for (size_t i = 1; i < sent.size(); ++i) gaps += sent[i] != sent[i - 1] + 1;
  CHECK(gaps < 200);
}

TEST_CASE("ack_loss takes responses only") {
  Bench bench({.ack_loss = per_cent(50)});
  bench.send(0, 1000);
  CHECK(bench.inner->sent.size() == 1000);
  bench.send(0, 1000, wire::kRcAcknowledge);
  CHECK(bench.inner->sent.size() < 1700);
  CHECK(bench.port[Fault::ack_loss] == 2000 - bench.inner->sent.size());
}

TEST_CASE("dup repeats at once or later") {
  Bench bench({.dup = per_cent(20)});
  for (uint32_t i = 0; i < 1000; ++i) {
    CHECK(bench.send(i, 1) == 1);
    bench.now = bench.now + Duration::from_us(1);
  }
  bench.now = bench.now + Duration::from_ms(1);
  bench.fetch();
  std::vector<uint32_t> sent = bench.sent_numbers();
  const size_t twice = sent.size() - 1000;
  CHECK(twice > 120);
  CHECK(twice < 280);
  CHECK(bench.port[Fault::dup] == twice);
  CHECK_FALSE(std::is_sorted(sent.begin(), sent.end()));
  std::sort(sent.begin(), sent.end());
  CHECK(static_cast<size_t>(std::unique(sent.begin(), sent.end()) - sent.begin()) == 1000);
}

TEST_CASE("reorder holds back, loses nothing, and keeps the port awake meanwhile") {
  Bench bench({.reorder = per_cent(10), .direction = FaultDirection::transmit});
  bench.send(0, 200);
  CHECK(bench.inner->sent.size() < 200);
  std::vector<pollfd> none;
  CHECK_FALSE(bench.port.prepare_wait(none, false));
  bench.now = bench.now + Duration::from_us(21);
  bench.fetch();
  CHECK(bench.inner->sent.size() == 200);
  CHECK(bench.port.prepare_wait(none, false));
  std::vector<uint32_t> sent = bench.sent_numbers();
  CHECK_FALSE(std::is_sorted(sent.begin(), sent.end()));
}

TEST_CASE("delay and jitter keep the order") {
  Bench bench({.delay = Duration::from_us(10), .jitter = Duration::from_us(5)});
  for (uint32_t i = 0; i < 100; ++i) {
    bench.send(i, 1);
    bench.inner->arriving.push_back(Bench::bytes(i));
    const std::vector<uint32_t> early = bench.fetch();
    CHECK((i >= 9 || early.empty()));
    bench.now = bench.now + Duration::from_us(1);
  }
  CHECK(bench.inner->sent.size() < 100);
  bench.now = bench.now + Duration::from_us(20);
  bench.fetch();
  const std::vector<uint32_t> sent = bench.sent_numbers();
  CHECK(sent.size() == 100);
  CHECK(std::is_sorted(sent.begin(), sent.end()));
}

// Frames that grow are held while the others would pass.
TEST_CASE("frames that are only damaged keep their place among those that are not") {
  FaultOptions options;
  options.pad = 300'000;
  options.direction = FaultDirection::both;
  Bench bench(options);
  for (uint32_t i = 0; i < 200; ++i) bench.inner->arriving.push_back(Bench::bytes(i));
  std::vector<uint32_t> wanted(200);
  std::iota(wanted.begin(), wanted.end(), 0u);
  CHECK(bench.fetch() == wanted);
  for (uint32_t i = 0; i < 200; i += 20) REQUIRE(bench.send(i, 20) == 20);
  CHECK(bench.sent_numbers() == wanted);
  CHECK(bench.port[Fault::pad] > 50);
}

TEST_CASE("corrupt flips one bit: of headers, payload and ICRC") {
  Bench bench({.corrupt = per_cent(100)});
  bench.send(0, 300);
  REQUIRE(bench.inner->sent.size() == 300);
  for (uint32_t i = 0; i < 300; ++i) {
    const ListPort::Bytes before = Bench::bytes(i);
    int bits = 0;
    for (uint32_t b = 0; b < kLength; ++b)
      bits += __builtin_popcount(static_cast<unsigned>(bench.inner->sent[i][b] ^ before[b]));
    CHECK(bits == 1);
  }
  CHECK(bench.port[Fault::corrupt_header] > 50);
  CHECK(bench.port[Fault::corrupt_payload] > 50);
  CHECK(bench.port[Fault::corrupt_icrc] > 50);
}

TEST_CASE("truncate, pad and merge change lengths") {
  Bench shorter({.truncate = per_cent(100)}), longer({.pad = per_cent(100)}),
      glued({.merge = per_cent(100)});
  shorter.send(0, 100);
  longer.send(0, 100);
  glued.send(0, 100);
  CHECK(shorter.inner->sent.size() == 100);
  for (const auto& b : shorter.inner->sent) CHECK(b.size() < kLength);
  for (const auto& b : longer.inner->sent) CHECK(b.size() > kLength);
  CHECK(glued.inner->sent.size() == 50);
  for (const auto& b : glued.inner->sent) CHECK(b.size() == 2 * kLength);
}

TEST_CASE("ecn marks") {
  Bench bench({.ecn = per_cent(100)});
  bench.send(0, 10);
  CHECK(bench.inner->sent_ecn == std::vector<uint8_t>(10, 3));
  CHECK(bench.inner->sent[3] == Bench::bytes(3));
}

TEST_CASE("a blackhole drops its direction, a flap its part of the time") {
  Bench one_way({.blackhole = FaultDirection::transmit});
  one_way.send(0, 10);
  one_way.inner->arriving.push_back(Bench::bytes(1));
  CHECK(one_way.inner->sent.empty());
  CHECK(one_way.fetch().size() == 1);
  Bench flap({.blackhole = FaultDirection::both,
              .flap_up = Duration::from_us(70),
              .flap_down = Duration::from_us(30)});
  for (uint32_t i = 0; i < 1000; ++i) {
    flap.send(i, 1);
    flap.now = flap.now + Duration::from_us(1);
  }
  CHECK(flap.inner->sent.size() == 700);
}

TEST_CASE("backpressure of the inner port is passed on, and no copy is lost") {
  Bench bench({.dup = per_cent(30), .direction = FaultDirection::transmit, .seed = 3});
  bench.inner->room = 1;
  uint32_t next = 0;
  for (int call = 0; next < 300 && call < 3000; ++call) {
    bench.inner->room = call % 3 == 0 ? 0 : 2;
    next += static_cast<uint32_t>(bench.send(next, std::min(7u, 300 - next)));
    bench.now = bench.now + Duration::from_us(1);
  }
  bench.inner->room = SIZE_MAX;
  bench.now = bench.now + Duration::from_ms(1);
  bench.fetch();
  CHECK(next == 300);
  std::vector<uint32_t> sent = bench.sent_numbers();
  std::sort(sent.begin(), sent.end());
  CHECK(static_cast<size_t>(std::unique(sent.begin(), sent.end()) - sent.begin()) == 300);
}

TEST_CASE("options are parsed, and wrong ones named") {
  const auto parsed = parse_fault_options({{"loss", "0.01"},
                                           {"dup", "0.005"},
                                           {"reorder_us", "2.5"},
                                           {"blackhole", "rx"},
                                           {"seed", "12345678901"}});
  REQUIRE(parsed);
  CHECK(parsed->loss == 10000);
  CHECK(parsed->dup == 5000);
  CHECK(parsed->reorder_time == Duration::from_ns(2500));
  CHECK(parsed->blackhole == FaultDirection::receive);
  CHECK(parsed->seed == 12345678901);
  const auto unknown = parse_fault_options({{"lost", "1"}});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("no key fault.lost") != std::string::npos);
  CHECK(unknown.error().message.find("fault.truncate") != std::string::npos);
  for (const char* wrong : {"2", "-0.1", "x", "", "nan", "0.1x"})
    CHECK_FALSE(parse_fault_options({{"loss", wrong}}));
  CHECK_FALSE(parse_fault_options({{"burst_frames", "0"}}));
  CHECK_FALSE(parse_fault_options({{"direction", "up"}}));
  CHECK_FALSE(parse_fault_options({{"seed", "-1"}}));
}

}  // namespace
}  // namespace weft::middleware
