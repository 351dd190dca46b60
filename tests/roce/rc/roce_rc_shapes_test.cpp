// SPDX-License-Identifier: BSD-3-Clause
// Shapes of requests: sizes around MTU multiples up to several MiB, READs in chunks, scatter/gather
// lists, inline data.
#include <algorithm>

#include "tests/support/scale.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

// Sizes around multiples of the MTU, each MTU, each operation.
TEST_CASE("all sizes around MTU multiples, roce:C-OPS-70 roce:C-OPS-71 roce:C-PSN-18") {
  const uint32_t mtu = GENERATE(256u, 512u, 1024u, 2048u, 4096u);
  const Opcode opcode = GENERATE(Opcode::send, Opcode::write, Opcode::read);
  Pair p(options_with(Psn{0xFFFFF8}, mtu));
  uint64_t id = 0;
  std::vector<uint32_t> sizes = {0, 1, 3, 4, 7, 8, 63, 255};
  for (const uint32_t packets : {1u, 2u, 3u, 15u, 16u, 17u, 33u}) {
    for (const int delta : {-1, 0, 1, 2})
      sizes.push_back(packets * mtu + static_cast<uint32_t>(delta));
  }
  for (const uint32_t size : sizes) {
    ++id;
    const size_t from = id % 7, to = (id * 3) % 11;
    const bool is_read = opcode == Opcode::read;
    Station& source = is_read ? p.station_b : p.station_a;
    Station& sink = is_read ? p.station_a : p.station_b;
    fill(source.at(from), size, id);
    std::memset(sink.at(to), 0xEE, size + 32);
    if (opcode == Opcode::send) CHECK(p.b.recv(id, {sink.sge(to, size)}));
    const Sge sge = p.station_a.sge(is_read ? to : from, size);
    CHECK(p.a.send(p.request(opcode, id, {&sge, 1}, is_read ? from : to)));
    REQUIRE(p.world.run());
    INFO("size " << size);
    const Completion c = p.a.only_sent();
    CHECK(c.status == Status::success);
    CHECK(c.id == id);
    CHECK(std::memcmp(source.at(from), sink.at(to), size) == 0);
    CHECK(all_are(sink.at(to + size), 32, std::byte{0xEE}));
    if (opcode == Opcode::send) CHECK(p.b.only_received().byte_count == size);
  }
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

TEST_CASE("several MiB in one request, roce:C-OPS-79 roce:C-PSN-18") {
  const uint32_t mtu = GENERATE(256u, 4096u);
  const Opcode opcode = GENERATE(Opcode::send, Opcode::write, Opcode::read);
  const uint32_t size = (5u << 20) + 123;
  PairOptions o = options_with(Psn{0xFFFFFC}, mtu, 16u << 20);
  o.link.queue_bytes = 4u << 20;
  Pair p(o);
  const bool is_read = opcode == Opcode::read;
  Station& source = is_read ? p.station_b : p.station_a;
  Station& sink = is_read ? p.station_a : p.station_b;
  fill(source.at(5), size, mtu);
  if (opcode == Opcode::send) CHECK(p.b.recv(1, {sink.sge(9, size)}));
  const Sge sge = p.station_a.sge(is_read ? 9 : 5, size);
  CHECK(p.a.send(p.request(opcode, 1, {&sge, 1}, is_read ? 5 : 9)));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  CHECK(std::memcmp(source.at(5), sink.at(9), size) == 0);
  CHECK(all_are(sink.at(9 + size), 4096, std::byte{0}));
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

TEST_CASE("PSNs wrap around, roce:C-PSN-23") {
  // 2^24 packets and some more, in both directions by turns, with the wrap in the middle.
  constexpr uint32_t kSize = 1u << 18, kPackets = kSize / 256;
  const uint64_t requests = scaled((1u << 24) / kPackets + 4);
  const auto before_wrap = static_cast<uint32_t>(requests * kPackets / 2);
  Pair p(options_with(Psn{} + (Psn::kMask + 1 - before_wrap), 256));
  std::byte *const near = p.station_a.at(0), *const far = p.station_b.at(0);
  const Sge sge = p.station_a.sge(0, kSize);
  for (uint64_t i = 0; i < requests; ++i) {
    const bool read = i % 2 == 1;
    fill((read ? far : near) + i % 64 * 4096, 4096, i);
    REQUIRE(p.a.send(p.request(read ? Opcode::read : Opcode::write, i, {&sge, 1})));
    REQUIRE(p.world.run());
    REQUIRE(p.a.only_sent().status == Status::success);
    REQUIRE(std::memcmp(near, far, kSize) == 0);
  }
  CHECK(p.a.qp().req.una >> 24 == 2);  // wide PSNs began in the first round
  check_quiet(p.station_a);
  check_quiet(p.station_b);
}

TEST_CASE("a long READ is requested in chunks below 2^23 PSNs, roce:C-PSN-22") {
  PairOptions o = options_with(Psn{0xFFFF00}, 256, 8u << 20);
  Pair p(o);
  uint32_t requests = 0, largest = 0;
  uint64_t next = p.station_b.address_of(0);
  p.station_a.tap().filter = [&](const SentFrame& f) {
    if (f.opcode() != wire::kRcReadRequest) return true;
    ++requests;
    largest = std::max<uint32_t>(largest, f.reth().length);
    CHECK(f.reth().address == next);
    next += f.reth().length;
    return true;
  };
  const uint32_t size = 4u << 20;
  fill(p.station_b.at(0), size, 1);
  const Sge sge = p.station_a.sge(0, size);
  CHECK(p.a.send(p.request(Opcode::read, 1, {&sge, 1})));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), size) == 0);
  CHECK(requests > 1);
  CHECK(largest <= 64 * 256);
  CHECK(next == p.station_b.address_of(size));
}

TEST_CASE("scatter/gather lists with empty entries, roce:C-OPS-77") {
  PairOptions o = options_with(start_psn());
  o.qp_a.max_send_sge = o.qp_b.max_recv_sge = 8;
  Pair p(o);
  const Opcode opcode = GENERATE(Opcode::send, Opcode::write, Opcode::read);
  const Sge here[] = {p.station_a.sge(0, 1),      p.station_a.sge(100, 0),
                      p.station_a.sge(200, 1500), p.station_a.sge(2000, 7),
                      p.station_a.sge(3000, 0),   p.station_a.sge(3100, 900),
                      p.station_a.sge(5000, 255)};
  std::vector<std::byte> flat(1 + 1500 + 7 + 900 + 255);
  fill(flat.data(), flat.size(), 3);
  const bool is_read = opcode == Opcode::read;
  std::byte* at = flat.data();
  for (const Sge& s : here) {
    if (!is_read && s.length != 0) std::memcpy(s.address, at, s.length);
    at += s.length;
  }
  if (is_read) std::memcpy(p.station_b.at(10000), flat.data(), flat.size());
  CHECK(p.b.recv(1, {p.station_b.sge(10000, 0), p.station_b.sge(10000, 11),
                     p.station_b.sge(10011, 1024), p.station_b.sge(11035, 5000)}));
  CHECK(p.a.send(p.request(opcode, 1, here, 10000)));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  CHECK(std::memcmp(p.station_b.at(10000), flat.data(), flat.size()) == 0);
  if (!is_read) return;
  at = flat.data();
  for (const Sge& s : here) {
    CHECK((s.length == 0 || std::memcmp(s.address, at, s.length) == 0));
    at += s.length;
  }
}

TEST_CASE("inline data is copied at post, roce:C-OPS-76") {
  Pair p(options_with(start_psn()));
  const Opcode opcode = GENERATE(Opcode::send, Opcode::write);
  const uint32_t size = GENERATE(0u, 5u, 64u);
  std::byte local[64];  // not registered
  fill(local, size, 9);
  const std::vector<std::byte> copy(local, local + size);
  CHECK(p.b.recv(1, {p.station_b.sge(0, 64)}));
  const Sge sge{local, size, LKey{}};
  SendRequest r = p.request(opcode, 1, {&sge, 1});
  r.flags = SendFlags::signaled | SendFlags::inline_data;
  CHECK(p.a.send(r));
  std::memset(local, 0, sizeof local);
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  CHECK((size == 0 || std::memcmp(p.station_b.at(0), copy.data(), size) == 0));
}
}  // namespace
}  // namespace weft::test
