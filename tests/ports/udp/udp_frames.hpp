// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the udp port share: frames with recognizable bytes, opening and draining a
// port.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "providers/port/udp/udp_port.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/namespace.hpp"
#include "tests/support/skip.hpp"

namespace udp_test {

using namespace weft;
using transport::Frame;
using transport::Path;
using transport::Port;
using transport::Span;
using transport::TxFrame;
using Keys = std::vector<std::pair<std::string, std::string>>;
using Bytes = std::vector<std::byte>;

inline std::unique_ptr<Port> open_port(const std::string& where, const Keys& keys = {}) {
  Result<std::unique_ptr<Port>> port = port::open_udp_port({where, keys});
  INFO("udp:" << where << ": " << (port ? "" : port.error().message));
  REQUIRE(port.ok());
  return std::move(*port);
}

inline uint64_t counter(const Port& port, std::string_view name) {
  std::vector<Counter> counters;
  port.append_counters(counters);
  for (const Counter& one : counters)
    if (one.name == name) return one.value;
  FAIL("no counter " << name);
  return 0;
}

inline Path path_between(Port& from, const Port& to, uint16_t wanted_port = 0xC321) {
  Path path;
  path.source = from.address();
  path.destination = to.address();
  path.source_port = from.source_port(wanted_port, 0);
  return path;
}

// The bytes of frame `number`: the destination QPN where a BTH has it, the rest patterned.
inline Bytes frame_bytes(uint32_t number, uint32_t length, uint32_t qpn = 0x000010) {
  Bytes bytes(length);
  for (uint32_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>((number * 131 + i * 7 + i / 251) & 0xFF);
  if (length >= 8)
    for (uint32_t i = 0; i < 3; ++i) bytes[5 + i] = static_cast<std::byte>(qpn >> (16 - 8 * i));
  return bytes;
}

// A received frame by value.
struct Got {
  Bytes bytes;
  Path path;
  uint16_t ip_id = 0;
  bool ip_id_known = true;
  uint8_t ecn = 0;
};

// Receives until `count` frames are here or nothing came for a second.
inline std::vector<Got> drain(Port& port, size_t count, size_t at_once = 64) {
  std::vector<Got> result;
  std::vector<Frame> frames(at_once);
  while (result.size() < count) {
    const size_t n = port.receive(frames);
    for (size_t i = 0; i < n; ++i)
      result.push_back({Bytes(frames[i].bytes, frames[i].bytes + frames[i].length), *frames[i].path,
                        frames[i].ip_id, frames[i].ip_id_known, frames[i].ecn});
    port.release({frames.data(), n});
    if (n > 0) continue;
    std::vector<pollfd> waits;
    if (!port.prepare_wait(waits, false)) continue;
    const int ready = ::poll(waits.data(), waits.size(), 1000);
    port.finish_wait();
    if (ready <= 0) break;
  }
  return result;
}

inline TxFrame whole_frame(const Path& path, const Bytes& bytes, uint16_t id = 0) {
  TxFrame frame;
  frame.path = &path;
  frame.head = bytes.data();
  frame.head_length = static_cast<uint32_t>(bytes.size());
  frame.ip_id = id;
  return frame;
}

inline bool has_ipv6_loopback() { return port::udp::resolve("::1").ok(); }

using test::Namespace;

}  // namespace udp_test
