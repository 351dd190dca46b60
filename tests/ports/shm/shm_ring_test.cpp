// SPDX-License-Identifier: BSD-3-Clause
// The ring between two processes, alone: in one thread and between two threads.
#include <sys/mman.h>

#include <deque>
#include <thread>

#include "lib/memory/guarded_copy.hpp"
#include "tests/ports/shm/shm_ring_support.hpp"

using namespace shm_test;
using weft::port::shm::kReferenceHead;

// Some payloads go by reference, and some of those are taken back before they are received.
TEST_CASE("ring: random frames are received as sent while both rings wrap many times") {
  Random random(test_seed());
  Ring ring(64, 65536);
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  struct Sent {
    Sent(Bytes head, Bytes body, bool by_ref)
        : source(std::move(head), std::move(body)), by_reference(by_ref) {}
    Source source;
    bool by_reference;
    bool revoked = false;
  };
  std::deque<Sent> in_flight;
  uint64_t full = 0, long_heads = 0, revoked = 0;
  const auto take_one = [&] {
    const Take taken = sink.take(consumer);
    REQUIRE((taken == Take::empty) == in_flight.empty());
    if (taken == Take::empty) return false;
    const Sent& sent = in_flight.front();
    REQUIRE(taken == (sent.revoked ? Take::revoked : Take::frame));
    if (!sent.revoked) {
      REQUIRE(sink.by_reference == sent.by_reference);
      REQUIRE(sink.bytes() == joined(sent.source.header, sent.source.payload));
      long_heads += sent.by_reference && sent.source.header.size() > kReferenceHead;
    }
    in_flight.pop_front();
    return true;
  };
  for (uint64_t i = 0; i < 20'000; ++i) {
    const size_t head = 1 + random.below(random.below(8) == 0 ? 255 : 100);
    const size_t body = random.below(4) == 0 ? random.below(30'000) : random.below(200);
    const bool by_reference = random.below(3) == 0 && head + body > 56 && body != 0;
    Sent& sent = in_flight.emplace_back(pattern(head, i), pattern(body, i + 7), by_reference);
    const Push pushed = producer.push(sent.source.frame, by_reference);
    REQUIRE((pushed == Push::taken || pushed == Push::full));
    if (pushed == Push::taken) {
      if (by_reference && random.below(4) == 0) {
        // An earlier payload may have lain there; then its frame was consumed already.
        REQUIRE(producer.revoke(sent.source.payload.data(), body) <= consumer.next());
        sent.revoked = true;
        ++revoked;
      }
      if (random.below(3) != 0) continue;
    } else {
      in_flight.pop_back();
      ++full;
    }
    for (uint64_t k = pushed == Push::full ? 64 : random.below(20); k-- > 0 && take_one();) {
    }
    consumer.publish();
  }
  while (take_one()) {
  }
  CHECK(full > 50);
  CHECK(long_heads > 500);
  CHECK(revoked > 500);
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
  const size_t head = GENERATE(28, 100);  // in the slot, in the data ring
  Ring ring;
  RingProducer producer(ring.memory, ring.geometry);
  RingConsumer consumer(ring.memory, ring.geometry);
  Sink sink;
  const Source one(pattern(head, 1), pattern(20'000, 1)), two(pattern(head, 2), pattern(20'000, 2)),
      three(pattern(head, 3), pattern(20'000, 3)), after(pattern(28, 4), {});
  for (const Source* source : {&one, &two, &three})
    REQUIRE(producer.push(source->frame, true) == Push::taken);
  REQUIRE(producer.push(after.frame, true) == Push::taken);

  REQUIRE(sink.take(consumer) == Take::frame);
  CHECK(sink.by_reference);
  CHECK(sink.frame.remote_address == reinterpret_cast<uint64_t>(one.payload.data()));
  CHECK(sink.frame.remote_length == 20'000);
  CHECK(Bytes(sink.frame.bytes, sink.frame.bytes + sink.frame.length) == one.header);
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
