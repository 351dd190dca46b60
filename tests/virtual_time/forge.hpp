// SPDX-License-Identifier: BSD-3-Clause
// Forged frames (lib/wire/forge.hpp) of an endpoint's path, injected past port and network.
#pragma once

#include <span>
#include <vector>

#include "lib/roce/engine.hpp"
#include "lib/wire/forge.hpp"
#include "tests/virtual_time/world.hpp"

namespace weft::test {

using wire::Forgery;

inline wire::OuterHeader outer_of(const transport::Path& path, uint16_t ip_id = 0) {
  return {&path.source, &path.destination, path.source_port, path.destination_port, ip_id};
}
inline void sign(const transport::Path& path, std::span<std::byte> frame, uint16_t ip_id = 0) {
  wire::sign(outer_of(path, ip_id), frame);
}
inline std::vector<std::byte> forge(const transport::Path& path, const Forgery& f) {
  return wire::forge(outer_of(path), f);
}

// The path that frames of `from`'s queue pair to its peer take.
inline transport::Path path_of(Endpoint& from) { return from.qp().path; }

// Gives one frame to an engine, past port and network.
inline void give(transport::Machine& machine, const transport::Path& path,
                 std::span<const std::byte> bytes, Instant now) {
  transport::Frame frame;
  frame.path = &path;
  frame.bytes = bytes.data();
  frame.length = static_cast<uint32_t>(bytes.size());
  machine.receive({&frame, 1}, now);
}

// Lets the engine send what it wants to, throws it away, and returns how many frames that were.
inline size_t drain_transmit(roce::Engine& engine, Instant now) {
  transport::TxFrame frames[64];
  size_t sum = 0;
  for (int round = 0; round < 8 && engine.wants_transmit(); ++round)
    sum += engine.transmit(frames, now);
  return sum;
}

// Changes the PSN of a frame and signs it again.
inline void set_psn(const transport::Path& path, std::span<std::byte> frame, uint32_t psn) {
  frame[9] = static_cast<std::byte>(psn >> 16);
  frame[10] = static_cast<std::byte>(psn >> 8);
  frame[11] = static_cast<std::byte>(psn);
  sign(path, frame);
}

}  // namespace weft::test
