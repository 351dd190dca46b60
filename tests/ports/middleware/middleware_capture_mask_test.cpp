// SPDX-License-Identifier: BSD-3-Clause
// What a capture does not hold: keys, unless asked for, and payload with pcap.payload=0. The places
// of the keys are written here a second time, from IBTA chapter 9 and SRD.md.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "lib/wire/emit.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/opcode.hpp"
#include "lib/wire/pcap_file.hpp"
#include "lib/wire/srd_parse.hpp"
#include "providers/port/middleware/capture_mask.hpp"
#include "providers/software/ports.hpp"
#include "tests/support/catch.hpp"

namespace weft::middleware {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint16_t kRoce = 4791;

Bytes pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

// Where a packet of this opcode has a key; 0: it has none.
size_t key_place(uint8_t opcode) {
  const bool xrc = opcode >> 5 == 5;
  const size_t headers = 12 + (xrc ? 4 : 0);
  if (opcode == 0x64 || opcode == 0x65) return 12;  // the Q_Key
  switch (opcode & 0x1F) {
    case 0x06:  // WRITE First, Only, Only with Immediate, READ Request, ATOMIC WRITE
    case 0x0A:
    case 0x0B:
    case 0x0C:
    case 0x13:  // CmpSwap, FetchAdd
    case 0x14:
    case 0x1D:
      return headers + 8;
    case 0x1C:  // FLUSH
      return headers + 12;
    case 0x16:  // SEND with invalidate
    case 0x17:
      return headers;
    default:
      return 0;
  }
}

Bytes roce_packet(uint8_t opcode) {
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  Bytes bytes = pattern(info.header_length + (info.payload ? 16u : 0u) + 4u);
  wire::emit_bth(bytes.data(), {.opcode = opcode, .dest = QpNum{0x123}, .psn = Psn{7}});
  return bytes;
}

// Indexes of the bytes that differ.
std::set<size_t> changed(const Bytes& before, const Bytes& after) {
  REQUIRE(before.size() == after.size());
  std::set<size_t> places;
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] != after[i]) places.insert(i);
  return places;
}

// A file of its own, removed at the end.
struct Capture {
  std::string file =
      (std::filesystem::temp_directory_path() / ("weft_mask_" + std::to_string(getpid()) + ".pcap"))
          .string();
  ~Capture() { std::remove(file.c_str()); }

  // A port that takes every frame.
  struct Sink final : transport::Port {
    transport::Capabilities can;
    const transport::Capabilities& capabilities() const noexcept override { return can; }
    Gid address() const noexcept override { return {}; }
    size_t receive(std::span<transport::Frame>) noexcept override { return 0; }
    void release(std::span<const transport::Frame>) noexcept override {}
    size_t transmit(std::span<const transport::TxFrame> f) noexcept override { return f.size(); }
    bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return true; }
  };
  // Sends one packet through the middleware `pcap=FILE` with more keys: the record.
  Bytes record_of(const Bytes& packet,
                  const std::vector<std::pair<std::string, std::string>>& more = {}) {
    std::vector<std::pair<std::string, std::string>> keys = {{"pcap", file}};
    keys.insert(keys.end(), more.begin(), more.end());
    transport::Path path;
    path.source = Gid::from_ipv4(10, 0, 0, 1);
    path.destination = Gid::from_ipv4(10, 0, 0, 2);
    {
      auto port = software::find_middleware("pcap")->wrap(std::make_unique<Sink>(), keys);
      REQUIRE(port);
      transport::TxFrame tx;
      tx.path = &path;
      tx.head = packet.data();
      tx.head_length = static_cast<uint32_t>(packet.size());
      REQUIRE((*port)->transmit({&tx, 1}) == 1);
    }
    auto reader = wire::PcapReader::open(file);
    REQUIRE(reader);
    wire::PcapReader::Record record;
    REQUIRE(reader->next(record));
    original_length = record.original_length;
    return {record.bytes.begin() + kOuter, record.bytes.end()};
  }
  static constexpr ptrdiff_t kOuter = 14 + 20 + 8;  // Ethernet, IPv4, UDP
  uint32_t original_length = 0;
};

Bytes write_packet() {
  Bytes packet = pattern(12 + 16 + 64 + 4);
  std::byte* at = wire::emit_bth(packet.data(), {.opcode = wire::kRcWriteOnly, .dest = QpNum{5}});
  wire::emit_reth(at, 0x1000, RKey{0xCAFE1234}, 64);
  const Gid source = Gid::from_ipv4(10, 0, 0, 1), destination = Gid::from_ipv4(10, 0, 0, 2);
  const transport::Path path;
  const wire::OuterHeader covered{&source, &destination, path.source_port, path.destination_port};
  const auto length = static_cast<uint32_t>(packet.size());
  const uint32_t sum = wire::icrc(covered, packet.data(), length);
  for (uint32_t i = 0; i < 4; ++i) packet[length - 4 + i] = static_cast<std::byte>(sum >> 8 * i);
  return packet;
}

}  // namespace

TEST_CASE("keys in the headers of each opcode are masked, and nothing else") {
  const KeyMask mask;
  int with_key = 0;
  for (int opcode = 0; opcode < 256; ++opcode) {
    const auto code = static_cast<uint8_t>(opcode);
    if (!wire::opcode_info(code).known()) continue;
    INFO(wire::opcode_info(code).name);
    const Bytes before = roce_packet(code);
    Bytes after = before;
    mask.apply(after.data(), static_cast<uint32_t>(after.size()), 4, kRoce);
    const size_t place = key_place(code);
    with_key += place != 0;
    const std::set<size_t> places = changed(before, after);
    CHECK(places.empty() == (place == 0));
    for (const size_t each : places) CHECK((each >= place && each < place + 4));
  }
  CHECK(with_key == 25);
}

TEST_CASE("keys behind a telemetry block are masked, and those of SRD") {
  const KeyMask mask;
  const Bytes inner = roce_packet(wire::kRcWriteOnly);
  Bytes before(sizeof(wire::IntBlock) + inner.size());
  new (before.data()) wire::IntBlock;
  std::memcpy(&before[sizeof(wire::IntBlock)], inner.data(), inner.size());
  Bytes after = before;
  mask.apply(after.data(), static_cast<uint32_t>(after.size()), 4, wire::kIntUdpPort);
  for (const size_t place : changed(before, after))
    CHECK((place >= sizeof(wire::IntBlock) + 20 && place < sizeof(wire::IntBlock) + 24));
  CHECK_FALSE(changed(before, after).empty());
  CHECK(header_bytes(before.data(), static_cast<uint32_t>(before.size()), 4, wire::kIntUdpPort) ==
        sizeof(wire::IntBlock) + 28);

  for (const bool fragment : {false, true}) {
    wire::SrdPacket p;
    p.opcode = wire::SrdOpcode::write;
    p.flags = wire::srd_flag::kImmediate;
    if (fragment) p.flags |= wire::srd_flag::kFragment;
    p.rkey = 0xCAFE1234;
    p.queue_key = 0xCAFE5678;
    const wire::SrdIntroduction introduction;
    p.introduction = &introduction;
    p.address = 0x1122334455667788;
    Bytes srd = pattern(wire::srd_emit_length(p) + 16 + 4);
    wire::srd_emit(srd.data(), p, 0);
    Bytes masked = srd;
    const auto length = static_cast<uint32_t>(srd.size());
    mask.apply(masked.data(), length, 4, wire::kSrdUdpPort);
    const size_t key =
        32 + 24 + (wire::names_message(p.opcode, p.flags) ? 4 : 0) + (fragment ? 8 : 0) + 8;
    const size_t queue_key = key + 4 + 8;
    CHECK_FALSE(changed(srd, masked).empty());
    for (const size_t place : changed(srd, masked))
      CHECK(((place >= key && place < key + 4) || (place >= queue_key && place < queue_key + 4)));
    for (const size_t each : {key, queue_key})
      CHECK(std::memcmp(&srd[each], &masked[each], 4) != 0);
    CHECK(header_bytes(srd.data(), length, 4, wire::kSrdUdpPort) == wire::srd_emit_length(p));
  }
}

TEST_CASE("equal keys are equal in one capture, and say nothing in another") {
  const KeyMask one, other;
  const Bytes packet = roce_packet(wire::kRcWriteOnly);
  const auto masked = [&packet](const KeyMask& mask) {
    Bytes bytes = packet;
    mask.apply(bytes.data(), static_cast<uint32_t>(bytes.size()), 4, kRoce);
    return bytes;
  };
  CHECK(masked(one) == masked(one));
  CHECK(masked(one) != masked(other));
  Bytes next = packet;
  next[23] ^= std::byte{1};  // the next key is not near the first one
  Bytes hidden = next;
  one.apply(hidden.data(), static_cast<uint32_t>(hidden.size()), 4, kRoce);
  CHECK(changed(masked(one), hidden).size() > 1);
}

TEST_CASE("a damaged or foreign packet is captured as it is") {
  const KeyMask mask;
  Bytes packet = roce_packet(wire::kRcWriteOnly);
  const Bytes before = packet;
  mask.apply(packet.data(), 27, 4, kRoce);  // too short for its headers
  mask.apply(packet.data(), static_cast<uint32_t>(packet.size()), 4, 53);
  CHECK(packet == before);
  CHECK(header_bytes(packet.data(), 27, 4, kRoce) == 12);
  CHECK(header_bytes(packet.data(), 5, 4, kRoce) == 5);
}

TEST_CASE("pcap= masks keys and writes payload, pcap.keys=1 and pcap.payload=0 change that") {
  Capture capture;
  const Bytes packet = write_packet();
  const Bytes masked = capture.record_of(packet);
  const std::set<size_t> places = changed(packet, masked);
  CHECK(places.count(12) == 0);
  std::set<size_t> in_key;
  for (size_t i = 20; i < 24; ++i)
    if (places.count(i) != 0) in_key.insert(i);
  CHECK_FALSE(in_key.empty());
  for (const size_t each : places)  // and the ICRC, which is right for what is written
    CHECK(((each >= 20 && each < 24) || each >= packet.size() - 4));
  CHECK(capture.record_of(packet, {{"pcap.keys", "1"}}) == packet);

  const Bytes headers = capture.record_of(packet, {{"pcap.payload", "0"}});
  CHECK(headers.size() == 28);
  CHECK(capture.original_length == Capture::kOuter + packet.size());
  struct stat status {};
  REQUIRE(::stat(capture.file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("wrong keys of pcap are refused with those that exist") {
  using Keys = std::vector<std::pair<std::string, std::string>>;
  for (const Keys& keys :
       {Keys{{"pcap", "a"}, {"pcap", "b"}}, Keys{{"pcap", "a"}, {"pcap.keys", "2"}},
        Keys{{"pcap", "a"}, {"pcap.payload", "no"}}, Keys{{"pcap", "a"}, {"pcap.x", "1"}},
        Keys{{"pcap.keys", "1"}}}) {
    const auto port =
        software::find_middleware("pcap")->wrap(std::make_unique<Capture::Sink>(), keys);
    REQUIRE_FALSE(port);
    CHECK(port.error().code == Code::invalid_argument);
    CHECK(port.error().message.find("pcap=FILE") != std::string::npos);
  }
}

}  // namespace weft::middleware
