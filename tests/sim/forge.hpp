// SPDX-License-Identifier: BSD-3-Clause
// Frames made by hand: any header, any payload, signed with the ICRC of the path they pretend to
// have taken. What attackers, broken peers and fuzzers send.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "lib/engine/engine.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/icrc.hpp"
#include "tests/sim/world.hpp"

namespace weft::test {

struct Forgery {
  wire::BthFields bth;
  // Extended headers, as the opcode wants them: those it has are written, from these values.
  uint64_t address = 0;
  RKey rkey;
  uint32_t length = 0;
  uint8_t syndrome = 0x1F;  // ACK, unlimited credit
  uint32_t msn = 0;
  uint64_t first = 0;  // swap or add; the original value of an atomic response
  uint64_t compare = 0;
  uint32_t imm = 0;  // or the key to invalidate
  uint32_t qkey = 0;
  QpNum source_qp;
  std::span<const std::byte> payload;
  std::optional<uint8_t> pad;  // not the right one
};

// Writes the ICRC into the last four bytes.
inline void sign(const engine::Path& path, std::span<std::byte> frame, uint16_t ip_id = 0) {
  const wire::OuterHeader outer{&path.source, &path.destination, path.source_port,
                                path.destination_port, ip_id};
  const uint32_t sum = wire::icrc(outer, frame.data(), static_cast<uint32_t>(frame.size()));
  for (size_t i = 0; i < wire::kIcrcLength; ++i)
    frame[frame.size() - wire::kIcrcLength + i] = static_cast<std::byte>(sum >> 8 * i);
}

inline std::vector<std::byte> forge(const engine::Path& path, const Forgery& f) {
  const wire::OpcodeInfo& info = wire::opcode_info(f.bth.opcode);
  const auto right_pad = static_cast<uint8_t>((0 - f.payload.size()) & 3);
  const uint8_t pad = f.pad.value_or(right_pad);
  std::vector<std::byte> frame(std::max<size_t>(info.header_length, wire::kBthLength) +
                               f.payload.size() + pad + wire::kIcrcLength);
  wire::BthFields bth = f.bth;
  bth.pad = pad;
  std::byte* at = wire::emit_bth(frame.data(), bth);
  if (info.reth) at = wire::emit_reth(at, f.address, f.rkey, f.length);
  if (info.aeth) at = wire::emit_aeth(at, f.syndrome, f.msn);
  if (info.atomic_eth) at = wire::emit_atomic_eth(at, f.address, f.rkey, f.first, f.compare);
  if (info.atomic_ack_eth) at = wire::emit_atomic_ack_eth(at, f.first);
  if (info.deth) at = wire::emit_deth(at, f.qkey, f.source_qp);
  if (info.imm || info.ieth) at = wire::emit_imm(at, f.imm);
  if (!f.payload.empty()) std::memcpy(at, f.payload.data(), f.payload.size());
  sign(path, frame);
  return frame;
}

// The path that frames of `from`'s queue pair to its peer take.
inline engine::Path path_of(Endpoint& from) { return from.qp().path; }

// Gives one frame to an engine, past port and network.
inline void give(engine::Engine& engine, const engine::Path& path, std::span<const std::byte> bytes,
                 Instant now) {
  engine::Frame frame;
  frame.path = &path;
  frame.bytes = bytes.data();
  frame.length = static_cast<uint32_t>(bytes.size());
  engine.receive({&frame, 1}, now);
}

// Lets the engine send what it wants to, throws it away, and returns how many frames that were.
inline size_t drain_transmit(engine::Engine& engine, Instant now) {
  engine::TxFrame frames[64];
  size_t sum = 0;
  for (int round = 0; round < 8 && engine.wants_transmit(); ++round)
    sum += engine.transmit(frames, now);
  return sum;
}

// Changes the PSN of a frame and signs it again.
inline void set_psn(const engine::Path& path, std::span<std::byte> frame, uint32_t psn) {
  frame[9] = static_cast<std::byte>(psn >> 16);
  frame[10] = static_cast<std::byte>(psn >> 8);
  frame[11] = static_cast<std::byte>(psn);
  sign(path, frame);
}

}  // namespace weft::test
