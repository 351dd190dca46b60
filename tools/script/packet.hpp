// SPDX-License-Identifier: BSD-3-Clause
// One packet as a script writes it: an opcode, fields by name, data. Said, it becomes a frame;
// expected, it is compared with what was heard. Both go through one table of fields. A value
// written with a sign (dest=+1) is relative to the right one, which the Meeting knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/transport/frame.hpp"
#include "lib/wire/forge.hpp"
#include "lib/wire/parse.hpp"

namespace weft::script {

using Bytes = std::vector<std::byte>;

// The two sides of a script: the peer, whose packets it says, and the end under test. What each
// must know of the other.
struct Side {
  Gid address;
  QpNum qpn;
  Psn first;            // of its requests
  uint64_t memory = 0;  // where its memory begins
  RKey key;
  uint32_t qkey = 0x11111111;  // UD
  uint32_t srq = 0;            // XRC: the shared receive queue
};
struct Meeting {
  Side peer, end;
  uint16_t source_port = 0xC0DE;  // of the peer's frames
};

// A packet of the peer before it is put together, right in all that the script leaves out.
struct Draft {
  wire::Forgery forgery;
  uint8_t version = 0;     // of the header; the only right one is 0
  uint8_t congestion = 0;  // FECN and BECN, set behind the back of the ICRC
  uint8_t ecn = 0;
  bool wrong_icrc = false;
  bool stranger = false;  // comes from another address
  uint32_t cut = 0;       // bytes missing at the end
};

// A packet of the end.
struct Heard {
  Bytes bytes;  // from the BTH to the ICRC
  transport::Path path;
  uint16_t ip_id = 0;
  bool ip_id_known = true;
  Instant at;
};

// What a relative value counts from.
enum class Base : uint8_t { zero, psn, address, key, qpn, qkey, source, srq };

struct Field {
  std::string_view name;
  std::string_view what;  // for people
  Base base;
  bool (*carried)(const wire::OpcodeInfo& info);
  void (*put)(Draft& draft, uint64_t value);
  uint64_t (*take)(const wire::Packet& packet, const Heard& heard);  // null: only said
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
  std::optional<uint8_t> kind;  // of an acknowledgement: 0 ACK, 1 RNR NAK, 3 NAK
  std::vector<Setting> settings;
  std::optional<Bytes> data;
};

// "SEND_LAST_IMM", "UC_WRITE_ONLY", "CNP"; none for a reserved opcode.
std::string opcode_word(uint8_t opcode);
std::optional<uint8_t> find_opcode(std::string_view word);

// The frame that the peer says, from its BTH to its ICRC.
Bytes compose(const PacketText& text, const Meeting& meeting, Draft& draft);
// What makes `heard` another packet than `text`; empty: nothing.
std::string mismatch(const PacketText& text, const Heard& heard, const Meeting& meeting);
// A frame in the words of the language, with what stands in its fields.
std::string describe(const Heard& heard, const Meeting& meeting, bool of_peer);

}  // namespace weft::script
