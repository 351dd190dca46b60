// SPDX-License-Identifier: BSD-3-Clause
// Golden frames made by tests/oracle/roce_oracle.py (Python, no code in common): emitting
// their fields gives the same bytes, and parsing gives the same fields.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "lib/wire/emit.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/parse.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

using namespace weft;
using namespace weft::wire;

namespace {

using GoldenBytes = std::vector<std::byte>;

struct Golden {
  std::map<std::string, std::string> fields;
  GoldenBytes frame;

  uint64_t number(const std::string& key) const { return std::stoull(fields.at(key)); }
  uint32_t word(const std::string& key) const { return static_cast<uint32_t>(number(key)); }
  Gid gid(const std::string& key) const { return *parse_gid(fields.at(key)); }
  bool has(const std::string& header) const {
    return ("+" + fields.at("extensions") + "+").find("+" + header + "+") != std::string::npos;
  }
};

GoldenBytes from_hex(const std::string& text) {
  GoldenBytes bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<Golden> read_golden() {
  const auto tests = test::source_root() / "tests";
  std::ifstream file(tests / "oracle" / "golden.txt");
  std::vector<Golden> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Golden golden;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      golden.fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
    golden.frame = from_hex(golden.fields.at("frame"));
    all.push_back(golden);
  }
  return all;
}

Outer outer_of(const Golden& g) {
  Outer outer;
  outer.source = g.gid("source");
  outer.destination = g.gid("destination");
  const auto mac = [](const Gid& gid) -> MacAddress {
    return {2, 0, gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
  };
  outer.mac_source = mac(outer.source);
  outer.mac_destination = mac(outer.destination);
  outer.vlan = static_cast<uint16_t>(g.number("vlan"));
  outer.traffic_class = static_cast<uint8_t>(g.number("traffic_class"));
  outer.hop_limit = static_cast<uint8_t>(g.number("hop_limit"));
  outer.ip_id = static_cast<uint16_t>(g.number("ip_id"));
  outer.flow_label = g.word("flow_label");
  outer.source_port = static_cast<uint16_t>(g.number("source_port"));
  return outer;
}

OuterHeader covered_by_icrc(const Outer& outer) {
  return {&outer.source, &outer.destination, outer.source_port, outer.destination_port,
          outer.ip_id};
}

GoldenBytes build_transport(const Golden& g) {
  GoldenBytes bytes(128);
  BthFields bth;
  bth.opcode = static_cast<uint8_t>(g.number("opcode"));
  bth.solicited = g.number("solicited") != 0;
  bth.mig_req = g.number("mig_req") != 0;
  bth.ack_request = g.number("ack_request") != 0;
  bth.pad = static_cast<uint8_t>(g.number("pad"));
  bth.pkey = static_cast<uint16_t>(g.number("pkey"));
  bth.dest = QpNum{g.word("dest_qpn")};
  bth.psn = Psn{g.word("psn")};
  std::byte* at = emit_bth(bytes.data(), bth);
  // FECN and BECN are set by switches and by the notification point, not by emit_bth.
  reinterpret_cast<Bth*>(bytes.data())->resv8a =
      static_cast<uint8_t>(g.number("fecn") << 7 | g.number("becn") << 6);
  const RKey rkey{g.word("rkey")};
  if (g.has("reth")) at = emit_reth(at, g.number("va"), rkey, g.word("dma_length"));
  if (g.has("aeth")) at = emit_aeth(at, static_cast<uint8_t>(g.number("syndrome")), g.word("msn"));
  if (g.has("atomic"))
    at = emit_atomic_eth(at, g.number("va"), rkey, g.number("swap"), g.number("compare"));
  if (g.has("atomic_ack")) at = emit_atomic_ack_eth(at, g.number("original"));
  if (g.has("deth")) at = emit_deth(at, g.word("qkey"), QpNum{g.word("source_qpn")});
  if (g.has("imm")) at = emit_imm(at, g.word("imm"));
  if (g.has("ieth")) at = emit_ieth(at, rkey);
  if (g.has("cnp")) at += 16;
  bytes.resize(static_cast<size_t>(at - bytes.data()));
  for (size_t i = 0; i < g.number("payload"); ++i)
    bytes.push_back(static_cast<std::byte>(7 * i + 3));
  bytes.resize(bytes.size() + g.number("pad") + kIcrcLength);
  return bytes;
}

}  // namespace

TEST_CASE("the golden frames hold every opcode in both families C-HDR-1") {
  std::map<uint64_t, int> seen;
  for (const Golden& g : read_golden()) ++seen[g.number("opcode")];
  CHECK(seen.size() == 23 + 12 + 2 + 1);
  for (const auto& [opcode, count] : seen) {
    INFO("opcode " << opcode);
    CHECK(count >= 2);
    CHECK(opcode_info(static_cast<uint8_t>(opcode)).known());
  }
}

TEST_CASE("building a golden frame from its fields gives its bytes C-HDR-1 C-HDR-6 C-ICRC-11") {
  for (const Golden& g : read_golden()) {
    INFO("opcode " << g.number("opcode") << " from " << g.fields.at("source"));
    const Outer outer = outer_of(g);
    GoldenBytes transport = build_transport(g);
    const auto length = static_cast<uint32_t>(transport.size());
    const uint32_t sum = icrc(covered_by_icrc(outer), transport.data(), length);
    for (uint32_t i = 0; i < 4; ++i)
      transport[length - 4 + i] = static_cast<std::byte>(sum >> 8 * i);
    GoldenBytes frame(kMaxOuterLength);
    frame.resize(emit_outer(frame.data(), outer, length));
    CHECK(frame.size() == outer_length(outer));
    frame.insert(frame.end(), transport.begin(), transport.end());
    CHECK(frame == g.frame);
  }
}

TEST_CASE("parsing a golden frame gives its fields C-HDR-1 C-HDR-6 C-ICRC-16") {
  for (const Golden& g : read_golden()) {
    INFO("opcode " << g.number("opcode") << " from " << g.fields.at("source"));
    Outer outer;
    Transport transport;
    REQUIRE(parse_outer(g.frame.data(), static_cast<uint32_t>(g.frame.size()), outer, transport) ==
            OuterError::none);
    CHECK(outer == outer_of(g));
    CHECK(icrc_verify(covered_by_icrc(outer), transport.bytes, transport.length));
    Packet p;
    REQUIRE(parse(transport.bytes, transport.length, 4, 0, p) == ParseError::none);
    CHECK(p.opcode == g.number("opcode"));
    CHECK(p.solicited == (g.number("solicited") != 0));
    CHECK(p.ack_request == (g.number("ack_request") != 0));
    CHECK(p.pad == g.number("pad"));
    CHECK(p.pkey == g.number("pkey"));
    CHECK(p.dest_qpn.value == g.number("dest_qpn"));
    CHECK(p.psn.value == g.number("psn"));
    CHECK(p.payload_length == g.number("payload"));
    const Bth& bth = *reinterpret_cast<const Bth*>(transport.bytes);
    CHECK(bth.mig_req() == (g.number("mig_req") != 0));
    CHECK(bth.fecn() == (g.number("fecn") != 0));
    CHECK(bth.becn() == (g.number("becn") != 0));
    CHECK(p.info->reth == g.has("reth"));
    CHECK(p.info->aeth == g.has("aeth"));
    CHECK(p.info->imm == g.has("imm"));
    CHECK(p.info->ieth == g.has("ieth"));
    if (g.has("reth")) {
      CHECK(p.reth().address == g.number("va"));
      CHECK(p.reth().rkey == g.number("rkey"));
      CHECK(p.reth().length == g.number("dma_length"));
    }
    if (g.has("aeth")) {
      CHECK(p.aeth().syndrome == g.number("syndrome"));
      CHECK(p.aeth().msn == g.number("msn"));
    }
    if (g.has("atomic")) {
      CHECK(p.atomic_eth().address == g.number("va"));
      CHECK(p.atomic_eth().rkey == g.number("rkey"));
      CHECK(p.atomic_eth().swap_or_add == g.number("swap"));
      CHECK(p.atomic_eth().compare == g.number("compare"));
    }
    if (g.has("atomic_ack")) CHECK(p.atomic_ack_eth().original == g.number("original"));
    if (g.has("deth")) {
      CHECK(p.deth().qkey == g.number("qkey"));
      CHECK(p.deth().source_qpn == g.number("source_qpn"));
    }
    if (g.has("imm")) CHECK(p.imm_or_key() == g.number("imm"));
    if (g.has("ieth")) CHECK(p.imm_or_key() == g.number("rkey"));
    for (uint32_t i = 0; i < p.payload_length; ++i)
      if (p.payload[i] != static_cast<std::byte>(7 * i + 3)) FAIL("payload byte " << i);
  }
}
