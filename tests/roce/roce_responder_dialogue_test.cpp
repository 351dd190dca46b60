// SPDX-License-Identifier: BSD-3-Clause
// The responder, packet by packet: its responses to requests in sequence, ahead of it and behind
// it, and what it executes. Each case exchanges packets with the valid peer, whose requests are
// forged.
#include "tests/virtual_time/dialogue.hpp"

namespace weft::test {
namespace {

using transport::Count;

std::vector<std::byte> bytes_of(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  fill(bytes.data(), size, seed);
  return bytes;
}

bool same(std::span<const std::byte> a, const std::byte* b) {
  return std::memcmp(a.data(), b, a.size()) == 0;
}

// One answer of this syndrome for this PSN, and nothing else.
void check_answer(const std::vector<SentFrame>& responses, uint8_t syndrome, Psn psn) {
  REQUIRE(responses.size() == 1);
  CHECK(responses[0].opcode() == wire::kRcAcknowledge);
  CHECK(responses[0].aeth().syndrome == syndrome);
  CHECK(psn_of(responses[0]) == psn.value);
}

PairOptions without_credits(Psn psn = Psn{0x123456}) {
  PairOptions o = options_with(psn);
  o.station_a.engine.credits = o.station_b.engine.credits = false;
  return o;
}
constexpr uint8_t kAck = wire::kSyndromeAck | wire::kCreditUnlimited;

TEST_CASE("a gap is NAKed once until it closes, roce:C-PSN-19 roce:C-PSN-17") {
  Dialogue d(without_credits(start_psn()));
  const std::vector<std::byte> data = bytes_of(64, 1);
  const Psn psn = d.expected();
  CHECK(d.responses_to(d.write(psn + 1, data, 128)).empty());  // the missing one may be late
  check_answer(d.wait(Duration::from_us(50)), wire::kNakSequence, psn);
  CHECK(d.responses_to(d.write(psn + 2, data, 192)).empty());
  CHECK(d.responses_to(d.write(psn + 1, data, 128)).empty());
  CHECK(d.wait(Duration::from_us(5000)).empty());
  CHECK_FALSE(same(data, d.station_b.at(128)));
  check_answer(d.responses_to(d.write(psn, data)), kAck, psn + 1);
  CHECK(same(data, d.station_b.at(0)));
  check_answer(d.responses_to(d.write(psn + 2, data, 192)), kAck, psn + 2);
  CHECK(d.responses_to(d.write(psn + 4, data)).empty());
  check_answer(d.wait(Duration::from_us(50)), wire::kNakSequence, psn + 3);  // the next gap
  CHECK(d.count(Count::rx_out_of_sequence) == 4);
}

TEST_CASE(
    "a packet far ahead is NAKed only if the expected PSN does not advance, threat:A02 "
    "roce:C-PSN-19") {
  Dialogue d(without_credits());
  const std::vector<std::byte> data = bytes_of(8, 1);
  const Psn psn = d.expected();
  CHECK(d.responses_to(d.write(psn + 100'000, data)).empty());
  CHECK(d.wait(Duration::from_us(998)).empty());
  CHECK(d.responses_to(d.write(psn + 200'000, data)).empty());
  check_answer(d.wait(Duration::from_us(2)), wire::kNakSequence, psn);
  CHECK(d.responses_to(d.write(psn + 300'000, data)).empty());  // once
  check_answer(d.responses_to(d.write(psn, data)), kAck, psn);
  CHECK(d.responses_to(d.write(psn + 100'000, data))
            .empty());  // `expected` advanced: the time restarts
  CHECK(d.wait(Duration::from_us(999)).empty());
  check_answer(d.responses_to(d.write(psn + 1, data)), kAck, psn + 1);
  CHECK(d.wait(Duration::from_us(2000)).empty());  // the timer finds that it advanced
  CHECK(d.responses_to(d.write(psn + 100'000, data)).empty());
  check_answer(d.wait(Duration::from_us(1000)), wire::kNakSequence, psn + 2);  // without another
  CHECK(d.wait(Duration::from_us(5000)).empty());
}

TEST_CASE("the MSN counts every kind of message, and wraps at 2^24, roce:C-ACK-33") {
  Dialogue d(without_credits(start_psn()));
  const std::vector<std::byte> data = bytes_of(8, 1);
  const Psn psn = d.expected();
  d.b.qp().res.msn = 0xFFFFFE;
  const auto msn_of = [](const std::vector<SentFrame>& responses) {
    REQUIRE(responses.size() == 1);
    CHECK(responses[0].aeth().syndrome == kAck);
    return uint32_t{responses[0].aeth().msn};
  };
  CHECK(msn_of(d.responses_to(d.write(psn, data))) == 0xFFFFFF);
  CHECK(msn_of(d.responses_to(d.write(psn + 1, data))) == 0);
  CHECK(msn_of(d.responses_to(d.read(psn + 2, 8))) == 1);
  d.b.qp().res.msn = 0xFFFFFF;
  CHECK(msn_of(d.responses_to(d.read(psn + 3, 8))) == 0);
  d.b.qp().res.msn = 0xFFFFFF;
  CHECK(msn_of(d.responses_to(d.write(psn + 4, data))) == 0);
}

TEST_CASE("a duplicate WRITE is acknowledged and not executed, roce:C-DUP-24") {
  Dialogue d(without_credits(start_psn()));
  const std::vector<std::byte> first = bytes_of(64, 1), second = bytes_of(64, 2);
  const Psn psn = d.expected();
  check_answer(d.responses_to(d.write(psn, first)), kAck, psn);
  check_answer(d.responses_to(d.write(psn + 1, first, 64)), kAck, psn + 1);
  d.world.run_for(Duration::from_us(10));
  check_answer(d.responses_to(d.write(psn, second)), kAck, psn + 1);  // for ePSN - 1
  CHECK(same(first, d.station_b.at(0)));
}

// Kernel rxe takes an ACK with the PSN of a READ for the READ's completion, without its data.
TEST_CASE("an ACK behind READs and atomics carries the PSN of the last WRITE, roce:C-ACK-31") {
  Dialogue d(without_credits(start_psn()));
  const std::vector<std::byte> data = bytes_of(64, 1);
  const Psn psn = d.expected();
  check_answer(d.responses_to(d.write(psn, data)), kAck, psn);
  REQUIRE(d.responses_to(d.read(psn + 1, 2000)).size() == 2);
  REQUIRE(d.responses_to(d.fetch_add(psn + 3, 1, 4096)).size() == 1);
  d.world.run_for(Duration::from_us(10));
  check_answer(d.responses_to(d.write(psn, data)), kAck, psn);  // a duplicate
  check_answer(d.responses_to(d.write(psn + 4, data)), kAck, psn + 4);
  d.world.run_for(Duration::from_us(10));
  check_answer(d.responses_to(d.write(psn, data)), kAck, psn + 4);
}

// An older PSN would be a new one after the wrap: behind many READs the ACK acknowledges some.
TEST_CASE("the PSN in ACKs is at most 2^22 behind, roce:C-DUP-24") {
  constexpr uint32_t kFarthest = 1 << 22;
  for (const uint32_t more : {0u, 1u}) {
    INFO("READs of 2^22 + " << more << " packets");
    Dialogue d(without_credits());
    const std::vector<std::byte> data = bytes_of(64, 1);
    const Psn psn = d.expected();
    check_answer(d.responses_to(d.write(psn, data)), kAck, psn);
    d.b.qp().res.expected = psn + kFarthest + more;  // as after READs of so many packets, less one
    REQUIRE(d.responses_to(d.read(psn + kFarthest + more, 8)).size() == 1);
    d.world.run_for(Duration::from_us(10));
    const Psn next = psn + kFarthest + more + 1;
    check_answer(d.responses_to(d.write(next + Psn::kMask, data)), kAck,
                 more == 0 ? psn : next + (Psn::kMask - kFarthest / 2));
  }
}

TEST_CASE("a duplicate READ is executed again, also a part of it, roce:C-DUP-25 roce:C-PSN-22") {
  Dialogue d(without_credits(start_psn()));
  const Psn psn = d.expected();
  fill(d.station_b.at(0), 3000, 1);
  REQUIRE(d.responses_to(d.read(psn, 3000)).size() == 3);
  CHECK(d.responses[0].opcode() == wire::kRcReadResponseFirst);
  CHECK(d.responses[2].opcode() == wire::kRcReadResponseLast);
  for (uint32_t i = 0; i < 3; ++i) CHECK(psn_of(d.responses[i]) == (psn + i).value);
  CHECK(d.expected() == psn + 3);

  fill(d.station_b.at(0), 3000, 2);  // the repeat brings what is there now
  REQUIRE(d.responses_to(d.read(psn, 3000)).size() == 3);
  CHECK(same(payload_of(d.responses[1]), d.station_b.at(1024)));
  REQUIRE(d.responses_to(d.read(psn + 1, 1976, 1024)).size() == 2);
  CHECK(d.responses[0].opcode() == wire::kRcReadResponseFirst);
  CHECK(psn_of(d.responses[0]) == (psn + 1).value);
  CHECK(same(payload_of(d.responses[0]), d.station_b.at(1024)));
  REQUIRE(d.responses_to(d.read(psn + 2, 952, 2048)).size() == 1);
  CHECK(d.responses[0].opcode() == wire::kRcReadResponseOnly);
  CHECK(d.expected() == psn + 3);
  CHECK(d.count(Count::rx_replayed_reads) == 3);
}

TEST_CASE("a duplicate READ with another range is dropped, roce:C-DUP-26") {
  Dialogue d(without_credits());
  const Psn psn = d.expected();
  REQUIRE(d.responses_to(d.read(psn, 2000, 4096)).size() == 2);
  CHECK(d.responses_to(d.read(psn, 2001, 4096)).empty());      // longer
  CHECK(d.responses_to(d.read(psn, 1000, 4095)).empty());      // from before
  CHECK(d.responses_to(d.read(psn + 1, 2000, 4096)).empty());  // more packets than requested
  Forgery other = d.read(psn, 2000, 4096);
  other.rkey = RKey{other.rkey.value ^ 1};
  CHECK(d.responses_to(other).empty());
  CHECK(d.responses_to(d.fetch_add(psn, 1, 4096)).empty());  // no READ at all
  CHECK(d.responses_to(d.read(psn + 0xFFFFFF, 8, 4096)).empty());
  CHECK(d.count(Count::rx_lost_resource) == 6);
  CHECK(d.b.qp().state == QpState::rts);
}

TEST_CASE(
    "a duplicate atomic gets the saved result while its resource exists, roce:C-DUP-27 "
    "roce:C-DUP-28 threat:A30") {
  Dialogue d(without_credits(start_psn()));
  uint64_t& word = *reinterpret_cast<uint64_t*>(d.station_b.at(0));
  word = 40;
  const Psn psn = d.expected();
  const auto original = [&d] {
    base::Be64 value;
    std::memcpy(&value, d.responses.at(0).bytes.data() + wire::kBthLength + 4, 8);
    return static_cast<uint64_t>(value);
  };
  REQUIRE(d.responses_to(d.fetch_add(psn, 2)).size() == 1);
  CHECK(original() == 40);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(d.responses_to(d.fetch_add(psn, 2)).size() == 1);
    CHECK(d.responses[0].opcode() == wire::kRcAtomicAcknowledge);
    CHECK(original() == 40);
    CHECK(word == 42);
  }
  for (uint32_t i = 1; i < 16; ++i) REQUIRE(d.responses_to(d.fetch_add(psn + i, 1)).size() == 1);
  REQUIRE(d.responses_to(d.fetch_add(psn, 2)).size() == 1);  // max_dest_rd_atomic is 16
  CHECK(original() == 40);
  REQUIRE(d.responses_to(d.fetch_add(psn + 16, 1)).size() == 1);
  CHECK(word == 58);
  CHECK(d.responses_to(d.fetch_add(psn, 2)).empty());  // its resource is reused
  CHECK(d.count(Count::rx_lost_resource) == 1);
  CHECK(word == 58);
}

TEST_CASE("an acknowledgement is sent where requested, with the MSN, roce:C-ACK-30 C-ACK-33") {
  Dialogue d(without_credits());
  const std::vector<std::byte> data = bytes_of(8, 1);
  d.b.qp().res.msn = 0xFFFFFD;
  const Psn psn = d.expected();
  Forgery quiet = d.write(psn, data);
  quiet.bth.ack_request = false;
  CHECK(d.responses_to(quiet).empty());
  check_answer(d.responses_to(d.write(psn + 1, data)), kAck, psn + 1);
  CHECK(d.responses[0].aeth().msn == 0xFFFFFF);  // two messages
  REQUIRE(d.responses_to(d.read(psn + 2, 2000)).size() == 2);
  CHECK(d.responses[1].aeth().msn == 0);  // a READ counts when it is executed
  check_answer(d.responses_to(d.write(psn + 4, data)), kAck, psn + 4);
  CHECK(d.responses[0].aeth().msn == 1);
}

TEST_CASE("an acknowledgement carries the posted receives as a credit code, roce:C-ACK-34") {
  Dialogue d;
  const std::vector<std::byte> data = bytes_of(8, 1);
  const uint8_t codes[] = {0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7};  // of 0, 1, 2, .. receives
  for (uint32_t receives = 0; receives < std::size(codes); ++receives) {
    const Psn psn = d.expected();
    check_answer(d.responses_to(d.write(psn, data)), codes[receives], psn);
    CHECK(d.b.recv(receives, {}));
  }
}

TEST_CASE("each opcode is valid only in its place of a message, roce:C-OPS-69") {
  constexpr uint8_t kOpcodes[] = {
      wire::kRcSendFirst,  wire::kRcSendMiddle,   wire::kRcSendLast,    wire::kRcSendLastImm,
      wire::kRcSendOnly,   wire::kRcSendOnlyImm,  wire::kRcSendLastInv, wire::kRcSendOnlyInv,
      wire::kRcWriteFirst, wire::kRcWriteMiddle,  wire::kRcWriteLast,   wire::kRcWriteLastImm,
      wire::kRcWriteOnly,  wire::kRcWriteOnlyImm, wire::kRcReadRequest, wire::kRcCompareSwap,
      wire::kRcFetchAdd};
  const uint8_t before = GENERATE(as<uint8_t>{}, wire::kRcSendOnly, wire::kRcSendFirst,
                                  wire::kRcSendMiddle, wire::kRcWriteFirst, wire::kRcWriteMiddle);
  const std::vector<std::byte> packet = bytes_of(1024, 1);
  for (const uint8_t opcode : kOpcodes) {
    const wire::OpcodeInfo &now = wire::opcode_info(opcode), &then = wire::opcode_info(before);
    Dialogue d(without_credits());
    for (uint64_t i = 0; i < 4; ++i) REQUIRE(d.b.recv(i, {d.station_b.sge(0, 8192)}));
    const auto inject = [&](uint8_t code, uint32_t length) {
      Forgery f = d.request(code, d.expected());
      f.length = length;
      f.imm = d.station_b.key();
      if (wire::opcode_info(code).payload) f.payload = packet;
      d.responses_to(f);
    };
    // The WRITE ends where its LAST would be, if that is what comes.
    const uint32_t parts = (before == wire::kRcWriteMiddle) + (now.ends_message() ? 2u : 3u);
    if (before == wire::kRcWriteMiddle) inject(wire::kRcWriteFirst, parts * 1024);
    if (before == wire::kRcSendMiddle) inject(wire::kRcSendFirst, 0);
    inject(before, parts * 1024);
    REQUIRE(d.b.qp().state == QpState::rts);
    inject(opcode, !now.ends_message() ? 2048 : now.payload ? 1024 : 8);
    const bool open = !then.ends_message();
    const bool legal = now.starts_message() ? !open : open && now.operation == then.operation;
    INFO(then.name << " then " << now.name);
    CHECK((d.b.qp().state == QpState::rts) == legal);
    if (!legal) {
      REQUIRE(d.responses.size() == 1);
      CHECK(d.responses[0].aeth().syndrome == wire::kNakInvalidRequest);
    }
  }
}

}  // namespace
}  // namespace weft::test
