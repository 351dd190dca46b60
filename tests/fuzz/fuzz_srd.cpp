// SPDX-License-Identifier: BSD-3-Clause
// An SRD engine against a peer that sends anything: raw bytes, and packets near what is expected
// (the right stream, sequence, key and message, each sometimes wrong), while it also sends requests
// of its own that the peer may acknowledge, refuse, answer or reset. Nothing outside of the open
// region changes, every request completes at most once, every call returns.
#include <cstring>
#include <memory>
#include <vector>

#include "lib/engine/srd/engine.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/no_port.hpp"

namespace {

using namespace weft;
using wire::SrdOpcode;

using fuzz::Input;
using fuzz::require;

// Frames are known by memory, so there is no CRC to guess.
engine::Capabilities no_integrity() {
  engine::Capabilities c;
  c.integrity_bits = 0;
  return c;
}

constexpr size_t kGuard = 4096, kOpen = 8192;
constexpr uint32_t kDomain = 1, kPeerBlock = 7;

struct Fixture {
  fuzz::NoPort port{Gid::from_ipv4(127, 0, 0, 2), no_integrity()};
  base::SecureRandom random{1};
  engine::srd::Config config;
  engine::srd::Engine engine;
  engine::CompletionQueue cq{4096};
  std::vector<std::byte> memory = std::vector<std::byte>(2 * kGuard + kOpen, std::byte{0x5A});
  uint32_t key;
  engine::srd::QueuePair* qp;
  Instant now;
  uint64_t sequence = 0;  // of the peer's stream
  uint32_t posted = 0, completed = 0;
  engine::TxFrame frames[64];
  engine::Path path;
  std::vector<wire::SrdPacket> seen;  // what the engine sent last

  Fixture() : engine(port, config, random) {
    key = engine.keys().insert(open(), kOpen, Access::all, kDomain);
    qp =
        *engine.create_qp({.type = QpType::srd, .domain = kDomain, .send_cq = &cq, .recv_cq = &cq});
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      change.access = Access::all;
      change.path = AddressVector{.destination = Gid::from_ipv4(127, 0, 0, 9)};
      change.dest_qpn = QpNum{kPeerBlock << 16 | 5};
      require(engine.modify_qp(*qp, change).ok(), "set-up");
    }
    path.source = Gid::from_ipv4(127, 0, 0, 9);
    path.destination = port.address();
  }
  std::byte* open() { return memory.data() + kGuard; }

  void give(const std::vector<std::byte>& bytes) {
    std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
    if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
    engine::Frame frame;
    frame.path = &path;
    frame.bytes = exact.get();
    frame.length = static_cast<uint32_t>(bytes.size());
    engine.receive({&frame, 1}, now);
  }
  void step(Duration d) {
    now = now + d;
    engine.expire(now);
    seen.clear();
    const size_t n = engine.transmit(frames, now);
    for (size_t i = 0; i < n; ++i) {
      wire::SrdPacket p;
      const auto error =
          wire::srd_parse(frames[i].head, frames[i].head_length, 0, frames[i].payload_length, p);
      require(error == wire::SrdError::none, "the engine sends what it would parse");
      seen.push_back(p);
    }
    Completion c;
    while (cq.pop({&c, 1}) != 0)
      if (c.type != WorkType::recv && c.type != WorkType::recv_with_imm) ++completed;
    require(completed <= posted, "a request completes once");
  }
};

void packet(Fixture& f, Input& in) {
  wire::SrdPacket p;
  const auto twist = in.take<uint8_t>();
  p.opcode = static_cast<SrdOpcode>(in.take<uint8_t>() % 20);
  p.flags = in.take<uint8_t>() & 0xFB;
  p.detail = in.take<uint8_t>() % 9;
  p.path = in.take<uint8_t>();
  p.path_sequence = in.take<uint8_t>();
  p.dest = (twist & 1) != 0 ? f.qp->number : QpNum{f.qp->number.value & 0xFF0000};
  p.source = QpNum{kPeerBlock << 16 | 5};
  p.epoch = (twist & 6) == 6 ? in.take<uint8_t>() : 100;
  p.incarnation = (twist & 0x18) == 0x18 ? in.take<uint8_t>() : (twist & 8) != 0 ? 1 : 0;
  p.sequence = f.sequence + ((twist & 0x60) == 0x60 ? in.take<int8_t>() : 0);
  p.message = in.take<uint8_t>();
  p.wish = in.take<uint8_t>() * 16u;
  p.order = in.take<uint8_t>();
  p.length = in.take<uint16_t>();
  p.offset = in.take<uint16_t>();
  p.rkey = (twist & 0x80) == 0 ? f.key : in.take<uint32_t>();
  p.address =
      reinterpret_cast<uint64_t>(f.open()) + static_cast<uint64_t>(int64_t{in.take<int16_t>()});
  uint32_t payload = in.take<uint16_t>() % 5000;
  std::vector<wire::SrdPacket>& seen = f.seen;
  if (!seen.empty() && !wire::is_sequenced(p.opcode)) {  // speaks about what the engine sent
    const wire::SrdPacket& about = seen[in.take<uint8_t>() % seen.size()];
    p.epoch = about.epoch;
    p.sequence = about.sequence + (twist & 1);
    p.incarnation = 1 + (twist & 2);
  } else if (!seen.empty() &&
             (p.opcode == SrdOpcode::read_response || p.opcode == SrdOpcode::atomic_response)) {
    p.message = seen[in.take<uint8_t>() % seen.size()].message;
  }
  if (!wire::may_carry_payload(p.opcode)) payload = 0;
  std::vector<std::byte> bytes(wire::srd_emit_length(p) + 64 + payload);
  if (wire::detail::srd_header_length(p.opcode, p.flags) == 0) return f.give(bytes);
  const std::byte* const end = wire::srd_emit(bytes.data(), p, 0);
  size_t size = static_cast<size_t>(end - bytes.data()) + wire::operand_bytes(p.opcode) + payload;
  if (p.opcode == SrdOpcode::acknowledge) {
    wire::SrdAck ack;
    ack.echo = static_cast<uint32_t>(p.sequence);
    ack.words = in.take<uint8_t>() & 1;
    ack.duplicates = in.take<uint8_t>();
    ack.marks = in.take<uint8_t>();
    ack.granted = in.take<uint8_t>();
    bytes.resize(size + sizeof ack + 8 * ack.words);
    std::memcpy(&bytes[size], &ack, sizeof ack);
    if (ack.words != 0) bytes[size + sizeof ack] = static_cast<std::byte>(in.take<uint8_t>());
    size = bytes.size();
  }
  bytes.resize(size);
  f.give(bytes);
  if (wire::is_sequenced(p.opcode) && (twist & 0x60) != 0x60) ++f.sequence;
}

void post(Fixture& f, Input& in) {
  const auto pick = in.take<uint8_t>();
  const Sge sge{f.open(), static_cast<uint32_t>(in.take<uint16_t>() % kOpen), LKey{f.key}};
  if ((pick & 1) != 0) {
    const RecvRequest r{1, {&sge, 1}};
    (void)f.engine.post_recv(*f.qp, {&r, 1});
    return;
  }
  SendRequest r;
  constexpr Opcode kOps[] = {Opcode::send, Opcode::read, Opcode::write_with_imm, Opcode::fetch_add,
                             Opcode::write_add};
  r.opcode = kOps[(pick >> 1) % 5];
  const Sge word{f.open(), 8, LKey{f.key}};
  const bool small = r.opcode == Opcode::fetch_add || r.opcode == Opcode::write_add;
  r.sges = {small ? &word : &sge, 1};
  f.posted += f.engine.post_send(*f.qp, {&r, 1}, f.now).accepted;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16'384) return 0;
  Fixture f;
  Input in{data, size};
  while (in.left != 0) {
    const auto what = in.take<uint8_t>();
    if (what < 160) {
      packet(f, in);
    } else if (what < 200) {
      post(f, in);
    } else if (what < 240) {
      f.step(Duration::from_us(what - 199));
    } else if (what < 250) {
      f.step(Duration::from_ms(what));
    } else {
      std::vector<std::byte> raw(in.take<uint8_t>());
      for (std::byte& byte : raw) byte = static_cast<std::byte>(in.take<uint8_t>());
      f.give(raw);
    }
  }
  f.step(Duration::from_ms(1));
  for (size_t i = 0; i < kGuard; ++i) {
    require(f.memory[i] == std::byte{0x5A}, "nothing before the region changes");
    require(f.memory[kGuard + kOpen + i] == std::byte{0x5A}, "nothing behind it changes");
  }
  f.engine.destroy_qp(f.qp);
  f.step(Duration::from_ms(1));
  return 0;
}
