// SPDX-License-Identifier: BSD-3-Clause
// A ring of the shm port in memory of one process, what is sent through it and what is received.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

#include "lib/base/random.hpp"
#include "providers/port/shm/ring.hpp"
#include "tests/ports/shm/shm_support.hpp"

namespace shm_test {

using weft::base::Random;
using weft::port::shm::Arena;
using weft::port::shm::kLargestFrame;
using weft::port::shm::RingConsumer;
using weft::port::shm::RingGeometry;
using weft::port::shm::RingProducer;
using weft::port::shm::SlotCopy;
using Push = RingProducer::Push;
using Take = RingConsumer::Take;

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
    if (by_reference) {  // the sender is in this process
      const auto* remote = reinterpret_cast<const std::byte*>(frame.remote_address);
      out.insert(out.end(), remote, remote + frame.remote_length);
    }
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

inline uint64_t test_seed() {
  const char* given = std::getenv("WEFT_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  std::printf("replay: WEFT_SEED=%llu ports_shm_tests\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace shm_test
