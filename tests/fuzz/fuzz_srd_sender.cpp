// SPDX-License-Identifier: BSD-3-Clause
// An SRD sender with a malicious receiver: random requests are posted and sent, and arbitrary ACKs,
// refusals, resets, offers and responses arrive, near the outstanding sequence and message numbers.
// Nothing is accepted for data that was never sent, and each request completes once. See
// srd_fixture.hpp.
#include "tests/fuzz/srd_fixture.hpp"

namespace {

using namespace weft;
using fuzz::Input;
using fuzz::SrdFixture;
using wire::SrdOpcode;

void post(SrdFixture& f, Input& in) {
  constexpr Opcode kOps[] = {Opcode::send, Opcode::send_with_imm, Opcode::write,
                             Opcode::read, Opcode::fetch_add,     Opcode::write_add};
  const auto pick = in.take<uint8_t>();
  SendRequest r;
  r.id = f.next_id;
  r.opcode = kOps[pick % std::size(kOps)];
  r.flags = SendFlags::signaled;
  const bool orderly = r.opcode <= Opcode::send_with_imm || r.opcode == Opcode::write_add;
  if (orderly && (pick & 0x80) != 0) r.flags = r.flags | SendFlags::ordered;
  const bool word = r.opcode == Opcode::fetch_add || r.opcode == Opcode::write_add;
  const Sge sge{f.open(), word ? 8 : in.take<uint16_t>() % uint32_t{SrdFixture::kOpen},
                LKey{f.key}};
  r.sges = {&sge, 1};
  if (f.engine.post_send(*f.qp, {&r, 1}, f.now).accepted != 0) f.posted.push_back(f.next_id++);
}

// Further addresses of the peer, or of others.
std::vector<std::byte> rails_body(const SrdFixture& f, Input& in) {
  wire::SrdRails rails;
  rails.primary = f.path.source;
  const auto choice = in.take<uint8_t>();
  rails.answers = choice & 1;
  rails.count = choice >> 5;
  rails.challenge = (choice & 2) != 0
                        ? f.engine.incarnations.challenge_for(f.path.source, SrdFixture::kPeerBlock)
                        : in.take<uint32_t>();
  std::vector<std::byte> bytes(sizeof rails + rails.count * sizeof(Gid), std::byte{0x5A});
  std::memcpy(bytes.data(), &rails, sizeof rails);
  for (size_t i = sizeof rails; i < bytes.size(); i += sizeof(Gid))
    bytes[i] = static_cast<std::byte>(in.take<uint8_t>() % 4);
  return bytes;
}

// What an acknowledgement says behind its header.
std::vector<std::byte> body(const wire::SrdPacket& p, Input& in) {
  wire::SrdAck ack;
  ack.echo = static_cast<uint32_t>(p.sequence);
  ack.words = in.take<uint8_t>() % 3;
  ack.delay_ns = in.take<uint16_t>();
  ack.duplicates = in.take<uint8_t>();
  ack.flags = in.take<uint8_t>();
  ack.marks = in.take<uint8_t>();
  ack.granted = in.take<uint16_t>();
  std::vector<std::byte> bytes(sizeof ack);
  std::memcpy(bytes.data(), &ack, sizeof ack);
  for (int i = 0; i < 8 * ack.words; ++i)
    bytes.push_back(static_cast<std::byte>(in.take<uint8_t>()));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16'384) return 0;
  Input in{data, size};
  SrdFixture f(in.take<uint8_t>());
  uint64_t sequence = 0;  // of the peer's stream, in which answers come
  const auto packet = [&sequence](SrdFixture& to, Input& from) {
    constexpr SrdOpcode kOps[] = {
        SrdOpcode::acknowledge,     SrdOpcode::acknowledge, SrdOpcode::refusal,
        SrdOpcode::reset,           SrdOpcode::ready,       SrdOpcode::read_response,
        SrdOpcode::atomic_response, SrdOpcode::failure,     SrdOpcode::rails,
        SrdOpcode::trimmed,         SrdOpcode::hello,       SrdOpcode::welcome};
    const auto twist = from.take<uint8_t>();
    const SrdOpcode opcode = kOps[from.take<uint8_t>() % std::size(kOps)];
    wire::SrdPacket p = to.draw(from, twist);
    p.opcode = opcode;
    wire::SrdPacket about;  // something that the engine has sent
    if (!to.seen.empty()) about = to.seen[from.take<uint8_t>() % to.seen.size()];
    if (wire::is_sequenced(opcode)) {
      p.sequence = sequence++;
      p.message = about.message;
      if ((twist & 0x20) == 0) p.length = about.length;
      std::byte value[16] = {};
      return to.give(p, std::span(value).first(wire::operand_bytes(opcode)),
                     (twist & 0x40) == 0 ? about.length : from.take<uint16_t>() % 5000);
    }
    p.epoch = (twist & 6) == 6 ? p.epoch : about.epoch;
    p.sequence = about.sequence + (twist & 1);
    p.path = about.path;
    p.path_sequence = about.path_sequence;
    p.incarnation = about.incarnation ^ ((twist & 0x18) == 0x18 ? 1 : 0);
    wire::SrdHello hello{uint64_t{to.stamp}, to.kProcess, 1 + uint64_t{twist}, 1};
    if (about.hello != nullptr) {
      hello.stamp = to.hello.stamp;
      p.incarnation = to.hello.incarnation;
    }
    if (opcode >= SrdOpcode::hello) p.hello = &hello;
    p.digest = twist;
    const uint64_t sent = to.engine.peer(0) != nullptr ? to.engine.peer(0)->tx.next : 0;
    std::vector<std::byte> rest;
    if (opcode == SrdOpcode::acknowledge) rest = body(p, from);
    if (opcode == SrdOpcode::rails) rest = rails_body(to, from);
    to.give(p, rest, 0);
    // Nothing beyond what was sent is ever believed. //= threat:A09
    if (to.engine.peer(0) != nullptr)
      fuzz::require(to.engine.peer(0)->tx.una <= sent, "what was never sent was acknowledged");
  };
  f.play(in, packet, post);
  return 0;
}
