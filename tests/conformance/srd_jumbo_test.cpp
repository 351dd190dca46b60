// SPDX-License-Identifier: BSD-3-Clause
// Packets of SRD longer than a path MTU of RoCE (udp.mtu): every length that fits the interface, a
// peer that sends shorter ones, and what is refused.
#include "tests/conformance/srd_nodes.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kBytes = 300'000;

// WRITE, SEND and READ of `bytes`, compared.
void exchange(Two& t, uint32_t bytes) {
  fill(t.a.memory.bytes(0, bytes), bytes);
  const Sge out = t.a.memory.sge(0, bytes), in = t.a.memory.sge(600'000, bytes);
  REQUIRE(t.finish(t.request(Opcode::write, 1, {&out, 1}, 400'000)).status == Status::success);
  CHECK(equal(t.a.memory.bytes(0, bytes), t.b.memory.bytes(400'000, bytes)));
  t.b.expect(2, 0, bytes);
  REQUIRE(t.finish(t.request(Opcode::send, 3, {&out, 1}, 0)).status == Status::success);
  CHECK(t.wait(t.b).byte_count == bytes);
  CHECK(equal(t.a.memory.bytes(0, bytes), t.b.memory.bytes(0, bytes)));
  REQUIRE(t.finish(t.request(Opcode::read, 4, {&in, 1}, 400'000)).status == Status::success);
  CHECK(equal(t.a.memory.bytes(0, bytes), t.a.memory.bytes(600'000, bytes)));
}

TEST_CASE("SRD: packets are as long as udp.mtu says") {
  for (const uint32_t mtu : {1000u, 4097u, 8800u, 9001u, 65'000u}) {
    INFO("udp.mtu=" << mtu);
    Two t("srd+udp:lo,udp.mtu=" + std::to_string(mtu));
    CHECK(t.a.side.device.attributes().active_mtu == mtu);
    for (const uint32_t bytes : {1u, mtu - 1, mtu, mtu + 1, kBytes}) exchange(t, bytes);
    const uint64_t before = t.a.side.counter("tx_packets");
    const Sge out = t.a.memory.sge(0, kBytes);
    REQUIRE(t.finish(t.request(Opcode::write, 5, {&out, 1}, 0)).status == Status::success);
    const uint64_t needed = (kBytes + mtu - 1) / mtu;
    const uint64_t sent = t.a.side.counter("tx_packets") - before;
    CHECK(sent >= needed);
    CHECK(sent < 2 * needed + 8);
  }
}

TEST_CASE("SRD: each side of a conversation cuts its messages as it likes") {
  Two t("srd+udp:lo,udp.mtu=8800", "srd+udp:lo");
  exchange(t, kBytes);
  Two back("srd+udp:lo", "srd+udp:lo,udp.mtu=8800");
  exchange(back, kBytes);
}

void srd_jumbo_refused(const std::string& spec, const std::string& word) {
  const Result<Device> device = Device::open(spec);
  REQUIRE(!device);
  CHECK(device.error().code == Code::invalid_argument);
  CHECK(device.error().message.find(word) != std::string::npos);
}

TEST_CASE("udp.mtu that cannot be is refused, and says what can") {
  srd_jumbo_refused("roce+udp:lo,udp.mtu=3000", "2048");
  srd_jumbo_refused("roce+udp:lo,udp.mtu=8192", "4096");
  srd_jumbo_refused("srd+udp:lo,udp.mtu=255", "256..65000");
  srd_jumbo_refused("srd+udp:lo,udp.mtu=70000", "256..65000");
  const Result<Device> less = Device::open("roce+udp:lo,udp.mtu=512");
  REQUIRE(less);
  CHECK(less->attributes().active_mtu == 512);
}

}  // namespace
}  // namespace weft::test
