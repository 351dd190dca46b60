// SPDX-License-Identifier: BSD-3-Clause
// The ring between two processes, alone: in one thread, between two threads, and with a side that
// writes garbage.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "lib/base/random.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "providers/port/shm/ring.hpp"
#include "tests/ports/shm/shm_support.hpp"

using namespace shm_test;
using weft::base::Random;
using weft::port::shm::Arena;
using weft::port::shm::kLargestFrame;
using weft::port::shm::RingConsumer;
using weft::port::shm::RingGeometry;
using weft::port::shm::RingProducer;
using weft::port::shm::SlotCopy;
using Push = RingProducer::Push;
using Take = RingConsumer::Take;

namespace {

// Heap memory of exactly the ring's size, so that AddressSanitizer sees a step outside.
struct Ring {
  explicit Ring(uint32_t slots = 64, uint64_t data = 65536) : geometry{slots, data} {
    memory = static_cast<std::byte*>(std::aligned_alloc(64, geometry.bytes()));
    std::memset(memory, 0, geometry.bytes());
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { std::free(memory); }

  RingGeometry geometry;
  std::byte* memory;
};

struct Sink {
  Bytes private_memory = Bytes(2 * kLargestFrame);
  SlotCopy copy;
  Frame frame;
  bool by_reference = false;

  Take take(RingConsumer& ring) {
    Arena arena{private_memory.data(), private_memory.size(), 0};
    return ring.take(frame, copy, arena, by_reference);
  }
  Bytes bytes() const {
    Bytes out(frame.bytes, frame.bytes + frame.length);
    out.insert(out.end(), frame.more, frame.more + frame.more_length);
    return out;
  }
};

struct Source {
  Bytes header, payload;
  Span span;
  TxFrame frame;

  Source(Bytes head, Bytes body) : header(std::move(head)), payload(std::move(body)) {
    span = {payload.data(), static_cast<uint32_t>(payload.size())};
    frame.head = header.data();
    frame.head_length = static_cast<uint32_t>(header.size());
    frame.header_length = static_cast<uint8_t>(header.size());
    frame.payload_length = span.length;
    frame.spans = &span;
    frame.span_count = payload.empty() ? 0 : 1;
    frame.stable = true;
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
};

uint64_t test_seed() {
  const char* given = std::getenv("WEFT_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  std::printf("replay: WEFT_SEED=%llu shm_ring_test\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace

TEST_CASE("ring: random frames are received as sent while both rings wrap many times") {
  Random random(test_seed());
  Ring ring(64, 65536);
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  std::vector<Bytes> expected;
  size_t next = 0;
  uint64_t full = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const size_t head = 1 + random.below(80);
    const size_t body = random.below(4) == 0 ? random.below(30'000) : random.below(200);
    const Source source(pattern(head, i), pattern(body, i + 7));
    const Push pushed = producer.push(source.frame, false);
    REQUIRE((pushed == Push::taken || pushed == Push::full));
    if (pushed == Push::taken) {
      expected.push_back(joined(source.header, source.payload));
      if (random.below(3) != 0) continue;
    }
    full += pushed == Push::full;
    for (uint64_t k = pushed == Push::full ? 64 : random.below(20); k-- > 0;) {
      if (sink.take(consumer) != Take::frame) break;
      REQUIRE(sink.bytes() == expected[next++]);
    }
    consumer.publish();
  }
  while (sink.take(consumer) == Take::frame) REQUIRE(sink.bytes() == expected[next++]);
  CHECK(next == expected.size());
  CHECK(full > 50);
}

TEST_CASE("ring: two threads exchange frames without a data race") {
  Ring ring(64, 131072);
  constexpr uint64_t kFrames = 30'000;
  const auto size_of = [](uint64_t i) { return i % 7 == 0 ? 3000 : i % 3 == 0 ? 100 : 8; };
  std::thread sender([&] {
    RingProducer producer(ring.memory, ring.geometry);
    for (uint64_t i = 0; i < kFrames; ++i) {
      const Source source(pattern(28, i), pattern(static_cast<size_t>(size_of(i)), i));
      while (producer.push(source.frame, false) != Push::taken) std::this_thread::yield();
    }
  });
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kFrames;) {
    if (sink.take(consumer) != Take::frame) {
      std::this_thread::yield();
      continue;
    }
    wrong += sink.bytes() != joined(pattern(28, i), pattern(static_cast<size_t>(size_of(i)), i));
    if (++i % 5 == 0) consumer.publish();
    if (i + 60 > kFrames || i % 5 == 0) consumer.publish();
  }
  sender.join();
  CHECK(wrong == 0);
}

TEST_CASE("ring: a frame larger than the ring is refused") {
  Ring ring(64, 65536);
  RingProducer producer(ring.memory, ring.geometry);
  CHECK(producer.push(Source(pattern(28, 1), pattern(65537, 1)).frame, false) == Push::too_long);
  CHECK(producer.push(Source(pattern(28, 1), pattern(65536, 1)).frame, false) == Push::taken);
}

TEST_CASE("ring: a frame in unmapped memory is dropped without other effects") {
  Ring ring;
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  Source source(pattern(28, 1), pattern(4096, 1));
  void* gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(gone != MAP_FAILED);
  source.span.data = static_cast<std::byte*>(gone);
  weft::memory::install_fault_guard();
  CHECK(producer.push(source.frame, false) == Push::unreadable);
  CHECK(sink.take(consumer) == Take::empty);
  source.span.data = source.payload.data();
  CHECK(producer.push(source.frame, false) == Push::taken);
  REQUIRE(sink.take(consumer) == Take::frame);
  CHECK(sink.bytes() == joined(source.header, source.payload));
  munmap(gone, 4096);
}

TEST_CASE("ring: a reference is revoked exactly when it is not claimed (threat:A36)") {
  Ring ring;
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  const Source one(pattern(28, 1), pattern(20'000, 1)), two(pattern(28, 2), pattern(20'000, 2)),
      three(pattern(28, 3), pattern(20'000, 3)), after(pattern(28, 4), {});
  for (const Source* source : {&one, &two, &three})
    REQUIRE(producer.push(source->frame, true) == Push::taken);
  REQUIRE(producer.push(after.frame, true) == Push::taken);

  REQUIRE(sink.take(consumer) == Take::frame);
  CHECK(sink.by_reference);
  CHECK(sink.frame.remote_address == reinterpret_cast<uint64_t>(one.payload.data()));
  CHECK(sink.frame.remote_length == 20'000);
  // The first is claimed, the second is not; the third lies elsewhere. Part of the memory is
  // enough.
  CHECK(producer.revoke(one.payload.data() + 19'999, 1) == 1);
  CHECK(producer.revoke(two.payload.data() + 100, 10) == 0);
  CHECK(producer.revoke(three.payload.data() + 20'000, 1) == 0);
  CHECK(sink.take(consumer) == Take::revoked);
  REQUIRE(sink.take(consumer) == Take::frame);
  CHECK(sink.frame.remote_address == reinterpret_cast<uint64_t>(three.payload.data()));
  REQUIRE(sink.take(consumer) == Take::frame);
  CHECK(sink.bytes() == after.header);
  consumer.publish();
  REQUIRE(producer.refresh());
  CHECK(producer.consumed() >= 1);
  CHECK(producer.revoke(one.payload.data(), 20'000) == 0);
}

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
      const uint64_t kind = random.below(16) == 0 ? random.below(256) : random.below(4);
      const uint64_t head = random.below(8) == 0 ? random.below(65536) : random.below(57);
      slots[i * 8] = (i + 1) | head << 32 | kind << 48 | random.below(256) << 56;
      for (int word = 1; word < 8; ++word) slots[i * 8 + word] = random.next();
      // Places near the bounds.
      if (random.below(2) == 0)
        slots[i * 8 + 1] = random.below(65536 + 2) | random.below(65536 + 2) << 32;
      if (kind == 3) slots[i * 8 + 2] = random.below(kLargestFrame + 2);
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
      REQUIRE(sink.bytes().size() <= kLargestFrame);  // reads every byte
    }
  }
  INFO("seed " << seed);
  CHECK(corrupt > 1000);
  CHECK(frames > 1000);
  CHECK(revoked > 100);
}

constexpr uint32_t kData = 1u << 21;  // larger than the largest frame

// Every bound that a consumer checks, on both its sides: a slot as a hostile producer writes it.
TEST_CASE("ring: a consumer checks each length at its bound (threat:A13)") {
  using weft::port::shm::DataPlace;
  using weft::port::shm::kDataHead;
  using weft::port::shm::kReferenceHead;
  using weft::port::shm::ReferencePlace;
  using weft::port::shm::SlotKind;
  using weft::port::shm::SlotLabel;
  Sink sink;
  const auto take = [&](SlotKind kind, size_t head, const auto& place, uint32_t data = kData) {
    Ring ring(64, data);
    weft::port::shm::RingView view(ring.memory, ring.geometry);
    std::memcpy(view.slots[0].body, &place, sizeof place);
    view.claims[0] = weft::port::shm::kReady;
    view.slots[0].label = SlotLabel{1, static_cast<uint16_t>(head), kind, 0}.word();
    RingConsumer consumer(ring.memory, ring.geometry);
    const Take taken = sink.take(consumer);
    CHECK(consumer.next() == (taken == Take::frame ? 1 : 0));
    return taken;
  };
  const auto take_data = [&](SlotKind kind, size_t head, uint32_t offset, uint32_t length,
                             uint32_t data = kData) {
    return take(kind, head, DataPlace{offset, length}, data);
  };
  CHECK(take(SlotKind::inline_frame, 56, uint64_t{}) == Take::frame);
  CHECK(take(SlotKind::inline_frame, 57, uint64_t{}) == Take::corrupt);
  CHECK(take(SlotKind{4}, 8, uint64_t{}) == Take::corrupt);
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
    return take(SlotKind::reference, head, ReferencePlace{4096, length});
  };
  CHECK(take_reference(0, 0) == Take::corrupt);
  CHECK(take_reference(0, 1) == Take::frame);
  CHECK(take_reference(0, kLargestFrame) == Take::frame);
  CHECK(take_reference(0, kLargestFrame + 1) == Take::corrupt);
  CHECK(take_reference(0, uint64_t{1} << 32 | 1) == Take::corrupt);  // more than 32 bits of length
  CHECK(take_reference(kReferenceHead, 1) == Take::frame);
  CHECK(take_reference(kReferenceHead + 1, 1) == Take::corrupt);
}

TEST_CASE("ring: a frame without room in the arena stays in the ring") {
  Ring ring;
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Source source(pattern(80, 1), pattern(20, 1));
  source.frame.header_length = 0;  // headers not told apart: the whole frame is copied
  REQUIRE(producer.push(source.frame, false) == Push::taken);
  Sink sink;
  const auto take = [&](size_t size) {
    Arena arena{sink.private_memory.data(), size, 0};
    const Take taken = consumer.take(sink.frame, sink.copy, arena, sink.by_reference);
    CHECK(arena.used == (taken == Take::frame ? 128 : 0));
    return taken;
  };
  CHECK(take(99) == Take::no_room);
  CHECK(consumer.next() == 0);
  CHECK(take(128) == Take::frame);
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
