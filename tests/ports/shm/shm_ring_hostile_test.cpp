// SPDX-License-Identifier: BSD-3-Clause
// The ring between two processes with a side that writes garbage, and the bounds that its consumer
// checks.
#include "tests/ports/shm/shm_ring_support.hpp"

using namespace shm_test;
using weft::port::shm::DataPlace;
using weft::port::shm::kDataHead;
using weft::port::shm::kLongReferenceHead;
using weft::port::shm::kReferenceHead;
using weft::port::shm::ReferencePlace;
using weft::port::shm::SlotKind;
using weft::port::shm::SlotLabel;

TEST_CASE("ring: invalid writes of a producer are detected or harmless (threat:A13)") {
  const uint64_t seed = test_seed();
  Random random(seed);
  uint64_t corrupt = 0, frames = 0, revoked = 0;
  for (int round = 0; round < 3000; ++round) {
    Ring ring(64, 65536);
    RingConsumer consumer(ring.memory, ring.geometry);
    Sink sink;
    auto* slots = reinterpret_cast<uint64_t*>(ring.memory + RingGeometry::kControlBytes);
    for (uint32_t i = 0; i < 64; ++i) {
      const uint64_t kind = random.below(16) == 0 ? random.below(256) : random.below(5);
      const uint64_t head = random.below(8) == 0 ? random.below(65536) : random.below(57);
      slots[i * 8] = (i + 1) | head << 32 | kind << 48 | random.below(256) << 56;
      for (int word = 1; word < 8; ++word) slots[i * 8 + word] = random.next();
      // Places near the bounds.
      if (random.below(2) == 0)
        slots[i * 8 + 1] = random.below(65536 + 2) | random.below(65536 + 2) << 32;
      if (kind == 3 || kind == 4) slots[i * 8 + 2] = random.below(kLargestFrame + 2);
      if (kind == 4 && random.below(4) != 0) {
        slots[i * 8] &= ~(uint64_t{0xffff} << 32);
        slots[i * 8 + 3] = random.below(65536 + 2) | random.below(300) << 32;
      }
    }
    auto* claims = reinterpret_cast<uint32_t*>(slots + 64 * 8);
    for (uint32_t i = 0; i < 64; ++i) claims[i] = static_cast<uint32_t>(random.below(4));
    for (int i = 0; i < 64; ++i) {
      const Take taken = sink.take(consumer);
      if (taken == Take::corrupt || taken == Take::empty) {
        ++corrupt;
        break;
      }
      revoked += taken == Take::revoked;
      if (taken != Take::frame) continue;
      ++frames;
      REQUIRE(sink.frame.length + sink.frame.more_length <= kLargestFrame);
      REQUIRE(sink.frame.remote_length <= kLargestFrame);
      sink.by_reference = false;
      REQUIRE(sink.bytes().size() <= kLargestFrame);  // reads every byte
    }
  }
  INFO("seed " << seed);
  CHECK(corrupt > 1000);
  CHECK(frames > 1000);
  CHECK(revoked > 100);
}

namespace {

constexpr uint32_t kData = 1u << 21;  // larger than the largest frame

// What a consumer makes of a slot as a hostile producer writes it.
template <class Place>
Take take_slot(SlotKind kind, size_t head, const Place& place, uint32_t data = kData) {
  Ring ring(64, data);
  weft::port::shm::RingView view(ring.memory, ring.geometry);
  std::memcpy(view.slots[0].body, &place, sizeof place);
  view.claims[0] = weft::port::shm::kReady;
  view.slots[0].label = SlotLabel{1, static_cast<uint16_t>(head), kind, 0}.word();
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  const Take taken = sink.take(consumer);
  CHECK(consumer.next() == (taken == Take::frame ? 1 : 0));
  return taken;
}

}  // namespace

// Every bound that a consumer checks, on both its sides.
TEST_CASE("ring: a consumer checks each length at its bound (threat:A13)") {
  const auto take_data = [&](SlotKind kind, size_t head, uint32_t offset, uint32_t length,
                             uint32_t data = kData) {
    return take_slot(kind, head, DataPlace{offset, length}, data);
  };
  CHECK(take_slot(SlotKind::inline_frame, 56, uint64_t{}) == Take::frame);
  CHECK(take_slot(SlotKind::inline_frame, 57, uint64_t{}) == Take::corrupt);
  CHECK(take_slot(SlotKind{5}, 8, uint64_t{}) == Take::corrupt);
  for (const SlotKind kind : {SlotKind::split, SlotKind::whole}) {
    INFO("kind " << static_cast<int>(kind));
    CHECK(take_data(kind, 0, 0, 0) == Take::corrupt);
    CHECK(take_data(kind, 0, 0, 1) == Take::frame);
    CHECK(take_data(kind, 0, 0, kLargestFrame) == Take::frame);
    CHECK(take_data(kind, 0, 0, kLargestFrame + 1) == Take::corrupt);
    CHECK(take_data(kind, 0, kData - 1, 1) == Take::frame);
    CHECK(take_data(kind, 0, kData - 1, 2) == Take::corrupt);
    CHECK(take_data(kind, 0, kData, 1) == Take::corrupt);
    CHECK(take_data(kind, 0, kData + 1, 1) == Take::corrupt);
    CHECK(take_data(kind, 0, UINT32_MAX, 2) == Take::corrupt);  // the sum wraps
    CHECK(take_data(kind, 0, 0, 65536, 65536) == Take::frame);
    CHECK(take_data(kind, 0, 0, 65537, 65536) == Take::corrupt);
  }
  CHECK(take_data(SlotKind::split, kDataHead, 0, 1) == Take::frame);
  CHECK(take_data(SlotKind::split, kDataHead + 1, 0, 1) == Take::corrupt);
  CHECK(take_data(SlotKind::whole, 1, 0, 1) == Take::corrupt);
  const auto take_reference = [&](size_t head, uint64_t length) {
    return take_slot(SlotKind::reference, head, ReferencePlace{4096, length});
  };
  CHECK(take_reference(0, 0) == Take::corrupt);
  CHECK(take_reference(0, 1) == Take::frame);
  CHECK(take_reference(0, kLargestFrame) == Take::frame);
  CHECK(take_reference(0, kLargestFrame + 1) == Take::corrupt);
  CHECK(take_reference(0, uint64_t{1} << 32 | 1) == Take::corrupt);  // more than 32 bits of length
  CHECK(take_reference(kReferenceHead, 1) == Take::frame);
  CHECK(take_reference(kReferenceHead + 1, 1) == Take::corrupt);
}

TEST_CASE("ring: a consumer checks where the headers of a reference lie (threat:A13)") {
  struct LongReference {
    ReferencePlace payload;
    DataPlace head;
  };
  const auto take_long = [](uint32_t offset, uint32_t length, uint64_t payload = 1,
                            size_t in_slot = 0) {
    return take_slot(SlotKind::long_reference, in_slot,
                     LongReference{{4096, payload}, {offset, length}});
  };
  CHECK(take_long(0, 0) == Take::corrupt);
  CHECK(take_long(0, 1) == Take::frame);
  CHECK(take_long(0, kLongReferenceHead) == Take::frame);
  CHECK(take_long(0, kLongReferenceHead + 1) == Take::corrupt);
  CHECK(take_long(kData - 1, 1) == Take::frame);
  CHECK(take_long(kData - 1, 2) == Take::corrupt);
  CHECK(take_long(kData, 1) == Take::corrupt);
  CHECK(take_long(UINT32_MAX, 2) == Take::corrupt);  // the sum wraps
  CHECK(take_long(0, 1, 0) == Take::corrupt);
  CHECK(take_long(0, 1, kLargestFrame) == Take::frame);
  CHECK(take_long(0, 1, kLargestFrame + 1) == Take::corrupt);
  CHECK(take_long(0, 1, 1, 1) == Take::corrupt);
}

TEST_CASE("ring: a frame without room in the arena stays in the ring") {
  const bool by_reference =
      GENERATE(false, true);  // then its headers need room, and no claim stays
  Ring ring;
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Source source(pattern(80, 1), pattern(20, 1));
  if (!by_reference) source.frame.header_length = 0;  // not told apart: the whole frame is copied
  REQUIRE(producer.push(source.frame, by_reference) == Push::taken);
  Sink sink;
  const auto take = [&](size_t size) {
    Arena arena{sink.private_memory.data(), size, 0};
    const Take taken = consumer.take(sink.frame, sink.copy, arena, sink.by_reference);
    CHECK(arena.used == (taken == Take::frame ? 128 : 0));
    return taken;
  };
  CHECK(take(by_reference ? 79 : 99) == Take::no_room);
  CHECK(consumer.next() == 0);
  CHECK(take(128) == Take::frame);
  CHECK(sink.by_reference == by_reference);
  CHECK(sink.bytes() == joined(source.header, source.payload));
  CHECK(take(128) == Take::empty);
}

TEST_CASE("ring: invalid writes of a consumer are detected (threat:A13)") {
  for (const uint64_t nonsense : {uint64_t{5}, UINT64_MAX, uint64_t{1} << 63}) {
    Ring ring;
    RingProducer producer(ring.memory, ring.geometry);
    const Source source(pattern(28, 1), {});
    for (int i = 0; i < 4; ++i) REQUIRE(producer.push(source.frame, false) == Push::taken);
    producer.control().consumed.store(3);
    REQUIRE(producer.refresh());
    producer.control().consumed.store(nonsense);
    CHECK_FALSE(producer.refresh());
    producer.control().consumed.store(2);  // back in time
    CHECK_FALSE(producer.refresh());
    producer.control().consumed.store(4);
    CHECK(producer.refresh());
  }
}
