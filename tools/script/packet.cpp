// SPDX-License-Identifier: BSD-3-Clause
// Builds and compares packets (packet.hpp).
#include "tools/script/packet.hpp"

#include <cctype>
#include <cstdio>

#include "lib/wire/source_port.hpp"

namespace weft::script {

namespace {

using wire::OpcodeInfo;

void replace(std::string& text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), by);
}

// `of_peer`: a packet that the peer sends.
uint64_t base_of(Base base, const OpcodeInfo& info, const Meeting& m, bool of_peer) {
  const Side& from = of_peer ? m.peer : m.end;
  const Side& to = of_peer ? m.end : m.peer;
  switch (base) {
    case Base::psn:
      if (info.operation == wire::Operation::cnp) return 0;
      return info.response() ? to.first.value : from.first.value;
    case Base::address:
      return to.memory;
    case Base::key:
      return to.key.value;
    case Base::qpn:
      return to.qpn.value;
    case Base::qkey:
      return to.qkey;
    case Base::source:
      return from.qpn.value;
    case Base::srq:
      return to.srq;
    case Base::port:
      return wire::source_port_of_numbers(from.qpn.value, to.qpn.value);
    case Base::zero:
      break;
  }
  return 0;
}

uint64_t value_of(const Setting& s, const OpcodeInfo& info, const Meeting& m, bool of_peer) {
  const uint64_t base = s.relative ? base_of(s.field->base, info, m, of_peer) : 0;
  const uint64_t value = base + s.value;
  return s.field->base == Base::psn ? value & Psn::kMask : value;
}

// A valid packet, before the script's settings.
void draft_defaults(Draft& draft, const PacketText& text, const Meeting& m) {
  const OpcodeInfo& info = wire::opcode_info(text.opcode);
  wire::Forgery& f = draft.forgery;
  f.bth.opcode = text.opcode;
  f.bth.dest = m.end.qpn;
  f.bth.psn = Psn{static_cast<uint32_t>(base_of(Base::psn, info, m, true))};
  f.bth.becn = text.opcode == wire::kCnp;
  f.bth.mig_req = text.opcode != wire::kCnp;
  f.address = m.end.memory;
  f.rkey = m.end.key;
  f.qkey = m.end.qkey;
  f.source_qp = m.peer.qpn;
  f.srq = m.end.srq;
  if (text.data) {
    f.payload = *text.data;
    f.length = static_cast<uint32_t>(text.data->size());
  }
  if (text.kind) f.syndrome = static_cast<uint8_t>(*text.kind << 5 | (*text.kind == 0 ? 31 : 0));
}

std::string hexadecimal(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// A value in the script's syntax: relative if the field has a base.
std::string written(const Field& field, uint64_t value, const OpcodeInfo& info, const Meeting& m,
                    bool of_peer) {
  if (field.base == Base::zero || field.base == Base::port)
    return value < 65536 ? std::to_string(value) : hexadecimal(value);
  const uint64_t base = base_of(field.base, info, m, of_peer);
  auto difference = static_cast<int64_t>(value - base);
  if (field.base == Base::psn) difference = static_cast<int64_t>((value - base) << 40) >> 40;
  if (difference > 1 << 24 || difference < -(1 << 24)) return hexadecimal(value);
  return (difference < 0 ? "" : "+") + std::to_string(difference);
}

wire::ParseError parse_frame(const ReceivedPacket& received, wire::Packet& packet) {
  return wire::parse(received.bytes.data(), static_cast<uint32_t>(received.bytes.size()),
                     wire::kIcrcLength, 0, packet);
}

bool right_icrc(const ReceivedPacket& received) {
  wire::OuterHeader outer{&received.path.source, &received.path.destination,
                          received.path.source_port, received.path.destination_port,
                          received.ip_id};
  const auto length = static_cast<uint32_t>(received.bytes.size());
  if (received.ip_id_known) return wire::icrc_verify(outer, received.bytes.data(), length);
  return wire::icrc_verify_unknown_id(outer, received.bytes.data(), length);
}

std::string compare_data(const Bytes& wanted, const wire::Packet& packet) {
  if (wanted.size() != packet.payload_length)
    return "its payload is " + std::to_string(packet.payload_length) + " bytes, not " +
           std::to_string(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] != packet.payload[i])
      return "byte " + std::to_string(i) + " of its payload is " +
             hexadecimal(static_cast<uint64_t>(packet.payload[i])) + ", not " +
             hexadecimal(static_cast<uint64_t>(wanted[i]));
  return "";
}

// Checks that apply to every packet of the end.
std::string blemish(const ReceivedPacket& received, const wire::Packet& packet) {
  if (!right_icrc(received)) return "its ICRC is wrong";
  for (uint32_t i = 0; i < packet.pad; ++i)
    if (packet.payload[packet.payload_length + i] != std::byte{0}) return "its pad is not zero";
  return "";
}

}  // namespace

std::string opcode_word(uint8_t opcode) {
  std::string word(wire::opcode_info(opcode).name);
  for (char& c : word) c = c == ' ' ? '_' : static_cast<char>(std::toupper(c));
  replace(word, "RDMA_", "");
  replace(word, "_WITH_IMMEDIATE", "_IMM");
  replace(word, "_WITH_INVALIDATE", "_INV");
  replace(word, "ATOMIC_ACKNOWLEDGE", "ATOMIC_ACK");
  replace(word, "ACKNOWLEDGE", "ACK");
  replace(word, "CMPSWAP", "COMPARE_SWAP");
  replace(word, "FETCHADD", "FETCH_ADD");
  replace(word, "READ_REQUEST", "READ");
  if (word.starts_with("RC_")) word.erase(0, 3);
  return word;
}

std::optional<uint8_t> find_opcode(std::string_view word) {
  for (unsigned opcode = 0; opcode < 256; ++opcode)
    if (wire::opcode_info(static_cast<uint8_t>(opcode)).known() &&
        opcode_word(static_cast<uint8_t>(opcode)) == word)
      return static_cast<uint8_t>(opcode);
  return {};
}

Bytes compose(const PacketText& text, const Meeting& meeting, Draft& draft) {
  draft_defaults(draft, text, meeting);
  const OpcodeInfo& info = wire::opcode_info(text.opcode);
  for (const Setting& s : text.settings) s.field->put(draft, value_of(s, info, meeting, true));
  Gid from = meeting.peer.address;
  if (draft.other_source) ++from.bytes[15];
  const wire::OuterHeader outer{&from, &meeting.end.address, port_of(draft, meeting)};
  Bytes frame = wire::forge(outer, draft.forgery);
  frame[1] |= static_cast<std::byte>(draft.version & 15);
  frame[8] |= static_cast<std::byte>(draft.reserved & 0x7F);
  if (draft.cut >= frame.size()) draft.cut = static_cast<uint32_t>(frame.size());
  frame.resize(frame.size() - draft.cut);
  if (frame.size() >= wire::kBthLength + wire::kIcrcLength) wire::sign(outer, frame);
  if (draft.wrong_icrc && !frame.empty()) frame.back() ^= std::byte{1};
  if (frame.size() > 4) frame[4] |= static_cast<std::byte>(draft.congestion);
  return frame;
}

std::string mismatch(const PacketText& text, const ReceivedPacket& received,
                     const Meeting& meeting) {
  wire::Packet packet;
  if (parse_frame(received, packet) != wire::ParseError::none)
    return "the packet is truncated or malformed";
  if (const std::string wrong = blemish(received, packet); !wrong.empty()) return wrong;
  if (packet.opcode != text.opcode) return "its opcode differs";
  if (text.kind && packet.aeth().syndrome >> 5 != *text.kind)
    return "it is another kind of acknowledgement";
  if (received.path.source != meeting.end.address ||
      received.path.destination != meeting.peer.address)
    return "it is from " + to_string(received.path.source) + " to " +
           to_string(received.path.destination);
  if (packet.dest_qpn != meeting.peer.qpn) return "its destination queue pair differs";
  for (const Setting& s : text.settings) {
    const uint64_t wanted = value_of(s, *packet.info, meeting, false);
    const uint64_t found = s.field->take(packet, received);
    if (found != wanted)
      return "its " + std::string(s.field->name) + " is " +
             written(*s.field, found, *packet.info, meeting, false) + ", not " +
             written(*s.field, wanted, *packet.info, meeting, false);
  }
  return text.data ? compare_data(*text.data, packet) : "";
}

std::string describe(const ReceivedPacket& received, const Meeting& meeting, bool of_peer) {
  wire::Packet packet;
  if (parse_frame(received, packet) != wire::ParseError::none)
    return std::to_string(received.bytes.size()) + " bytes that are not a packet";
  const OpcodeInfo& info = *packet.info;
  std::string text = opcode_word(packet.opcode);
  if (info.operation == wire::Operation::acknowledge && !info.sack) {
    const uint8_t kind = packet.aeth().syndrome >> 5;
    text = info.op_class == wire::OpClass::xrc ? "XRC_" : "";
    text += kind == 0 ? "ACK" : kind == 1 ? "RNR" : "NAK";
  }
  const auto value = [&](const char* name) {
    const Field& field = *find_field(name);
    return written(field, field.take(packet, received), info, meeting, of_peer);
  };
  const std::string psn = value("psn");
  text += " " + (psn.starts_with('+') ? psn.substr(1) : psn) + (packet.ack_request ? " A" : "");
  if (find_field("address")->carried(info)) text += " @" + value("address");
  for (const char* name : {"length", "syndrome", "msn", "expected", "lost_end", "add", "compare",
                           "original", "imm", "invalidate", "qkey", "srq", "size"}) {
    const Field& field = *find_field(name);
    if (field.carried(info) && (field.base != Base::zero || field.take(packet, received) != 0))
      text += " " + std::string(name) + "=" + value(name);
  }
  return text;
}

}  // namespace weft::script
