// SPDX-License-Identifier: BSD-3-Clause
// One packet of a script: an opcode, fields by name, data. Sent, it becomes a frame; expected, it
// is compared with the received packet. Both use one table of fields. A value with a sign (dest=+1)
// is relative to the valid value, which Meeting holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/transport/frame.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/forge.hpp"
#include "lib/wire/parse.hpp"

namespace weft::script {

using Bytes = std::vector<std::byte>;

// The connection data of the peer, whose packets the script sends, and of the end under test.
struct Side {
  Gid address;
  QpNum qpn;
  Psn first;            // of its requests
  uint64_t memory = 0;  // address of its memory
  RKey key;
  uint32_t qkey = 0x11111111;  // UD
  uint32_t srq = 0;            // XRC: the shared receive queue
};
struct Meeting {
  Side peer, end;
  uint16_t source_port = 0xC0DE;  // of the peer's frames
};

// What a packet of the peer has around its transport headers: outer.cpp.
struct OuterDraft {
  uint8_t dscp = 0;
  uint8_t ecn = 0;
  uint8_t ttl = 64;
  bool dont_fragment = true;
  bool more_fragments = false;
  uint8_t option_words = 0;  // IPv4 options, in 4 bytes
  uint32_t flow_label = 0;   // IPv6
  uint8_t checksum = 0;      // of UDP; 0: none, 1: the right one, 2: a wrong one
  int8_t udp_longer = 0;     // bytes that the UDP length exceeds the right one
  uint16_t source_port = 0;  // 0: the peer's
  uint8_t padding = 0;       // bytes behind the IP packet, as Ethernet adds to short frames
  uint16_t vlan = 0;
  uint8_t priority = 0;  // of the VLAN tag

  bool operator==(const OuterDraft&) const = default;
};

// A packet of the peer before serialization; fields that the script leaves out are valid.
struct Draft {
  wire::Forgery forgery;
  OuterDraft outer;
  uint8_t version = 0;     // of the header; 0 is the only valid one
  uint8_t reserved = 0;    // the seven bits beside A
  uint8_t congestion = 0;  // FECN, BECN and the reserved bits beside them: outside the ICRC
  bool wrong_icrc = false;
  bool other_source = false;  // from another address than the peer's
  uint32_t cut = 0;           // bytes removed at the end
};

// A packet of the end.
struct ReceivedPacket {
  Bytes bytes;  // from the BTH to the ICRC
  transport::Path path;
  uint16_t ip_id = 0;
  bool ip_id_known = true;
  Instant at;
};

// The base of a relative value.
enum class Base : uint8_t { zero, psn, address, key, qpn, qkey, source, srq, port };

struct Field {
  std::string_view name;
  std::string_view what;  // help text
  Base base;
  bool (*carried)(const wire::OpcodeInfo& info);
  void (*put)(Draft& draft, uint64_t value);
  uint64_t (*take)(const wire::Packet& packet,
                   const ReceivedPacket& received);  // nullptr: only sent
};
const Field* find_field(std::string_view name);
std::string field_list();

struct Setting {
  const Field* field = nullptr;
  uint64_t value = 0;
  bool relative = false;
};

struct PacketText {
  uint8_t opcode = 0;
  std::optional<uint8_t> kind;  // kind of acknowledgement: 0 ACK, 1 RNR NAK, 3 NAK
  std::vector<Setting> settings;
  std::optional<Bytes> data;
};

// "SEND_LAST_IMM", "UC_WRITE_ONLY", "CNP"; none for a reserved opcode.
std::string opcode_word(uint8_t opcode);
std::optional<uint8_t> find_opcode(std::string_view word);

// The peer's frame, from its BTH to its ICRC.
Bytes compose(const PacketText& text, const Meeting& meeting, Draft& draft);
// The UDP source port of a draft.
inline uint16_t port_of(const Draft& draft, const Meeting& meeting) {
  return draft.outer.source_port != 0 ? draft.outer.source_port : meeting.source_port;
}
// outer.cpp: the Ethernet frame that carries what compose() returned.
Bytes enclose(const Bytes& transport, const Meeting& meeting, const Draft& draft);
// The first difference of the received packet from `text`; empty: none.
std::string mismatch(const PacketText& text, const ReceivedPacket& received,
                     const Meeting& meeting);
// A frame in the syntax of scripts.
std::string describe(const ReceivedPacket& received, const Meeting& meeting, bool of_peer);

}  // namespace weft::script
