// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the shm port share: opening, sending and collecting frames as plain values.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "providers/port/shm/shm_port.hpp"
#include "tests/support/catch.hpp"

namespace shm_test {

using Bytes = std::vector<std::byte>;
using Options = std::vector<std::pair<std::string, std::string>>;
using weft::Gid;
using weft::transport::Frame;
using weft::transport::Path;
using weft::transport::Port;
using weft::transport::Span;
using weft::transport::TxFrame;

// A job of its own for every test process, so that tests may run beside each other.
inline std::string job() { return "test" + std::to_string(getpid()); }

inline std::unique_ptr<Port> open_port(const std::string& where, const Options& options = {}) {
  auto port = weft::port::open_shm_port({where, options});
  INFO((port ? "" : port.error().message));
  REQUIRE(port);
  return *std::move(port);
}

inline uint64_t counter(const Port& port, std::string_view name) {
  std::vector<weft::Counter> counters;
  port.append_counters(counters);
  for (const weft::Counter& c : counters)
    if (c.name == name) return c.value;
  FAIL("no counter " << name);
  return 0;
}

inline Bytes pattern(size_t size, uint64_t seed) {
  Bytes out(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

// What arrived: headers and payload in one, and how they came.
struct Received {
  Gid source;
  Bytes bytes;
  uint32_t more_length = 0;
  uint32_t remote_length = 0;
  uint8_t ecn = 0;
  bool pulled = true;
};

inline Received take_in(const Frame& frame) {
  Received out{frame.path->source, Bytes(frame.bytes, frame.bytes + frame.length),
               frame.more_length,  frame.remote_length,
               frame.ecn,          true};
  out.bytes.insert(out.bytes.end(), frame.more, frame.more + frame.more_length);
  if (frame.remote != nullptr) {
    const size_t head = out.bytes.size();
    out.bytes.resize(head + frame.remote_length);
    out.pulled = frame.remote->pull(&out.bytes[head], frame.remote_address, frame.remote_length);
  }
  return out;
}

inline void collect(Port& port, std::vector<Received>& out) {
  Frame frames[64];
  const size_t count = port.receive(frames);
  for (size_t i = 0; i < count; ++i) out.push_back(take_in(frames[i]));
  if (count != 0) port.release(std::span(frames, count));
}

class Deadline {
 public:
  explicit Deadline(int64_t ms) : end_(Clock::now() + std::chrono::milliseconds(ms)) {}
  bool passed() const { return Clock::now() > end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

// Receives until `count` frames are here or the time is over. `other`, if given, makes progress
// too.
inline std::vector<Received> receive(Port& port, size_t count, Port* other = nullptr,
                                     int64_t limit_ms = 20'000) {
  std::vector<Received> out, ignored;
  const Deadline deadline(limit_ms);
  while (out.size() < count && !deadline.passed()) {
    collect(port, out);
    if (other != nullptr) collect(*other, ignored);
  }
  CHECK(ignored.empty());
  return out;
}

// Sends one frame of `header` and `payload`; false if the port pushes back.
inline bool send(Port& port, const Gid& to, const Bytes& header, const Bytes& payload = {},
                 bool stable = false, uint8_t ecn = 0) {
  Path path;
  path.source = port.address();
  path.destination = to;
  const Span span{payload.data(), static_cast<uint32_t>(payload.size())};
  TxFrame frame;
  frame.path = &path;
  frame.head = header.data();
  frame.head_length = static_cast<uint32_t>(header.size());
  frame.ecn = ecn;
  frame.stable = stable;
  if (!payload.empty()) {
    frame.payload_length = span.length;
    frame.header_length = static_cast<uint8_t>(header.size());
    frame.spans = &span;
    frame.span_count = 1;
  }
  return port.transmit(std::span(&frame, 1)) == 1;
}

// Links in both directions, with their probes done.
inline void link_up(Port& a, Port& b) {
  const Bytes header = pattern(12, 1);
  REQUIRE(send(a, b.address(), header));
  REQUIRE(receive(b, 1, &a).size() == 1);
  REQUIRE(send(b, a.address(), header));
  REQUIRE(receive(a, 1, &b).size() == 1);
  std::vector<Received> none;
  for (int i = 0; i < 3000; ++i) {
    collect(a, none);
    collect(b, none);
  }
  REQUIRE(none.empty());
}

inline Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline size_t entries(const char* directory) {
  size_t count = 0;
  DIR* dir = opendir(directory);
  if (dir == nullptr) return 0;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

}  // namespace shm_test
