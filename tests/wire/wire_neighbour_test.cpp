// SPDX-License-Identifier: BSD-3-Clause
// ARP and Neighbour Discovery: what is emitted is parsed again, byte layouts are those of the RFCs,
// damaged or implausible messages are refused. The resolver over them: requests, answers, caches.
// link: wire port_ethernet
#include <rapidcheck.h>

#include <cstring>
#include <vector>

#include "lib/wire/neighbour.hpp"
#include "providers/port/ethernet/neighbours.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using port::ethernet::Neighbours;
using wire::MacAddress;
using wire::NeighbourMessage;

namespace {

constexpr MacAddress kOurs = {2, 0, 0, 0, 0, 1};
constexpr MacAddress kTheirs = {2, 0, 0, 0, 0, 2};

NeighbourMessage neighbour_sample(bool ipv6, bool question, uint16_t vlan = 0) {
  NeighbourMessage m;
  m.is_question = question;
  m.sender_mac = kOurs;
  m.sender = ipv6 ? *parse_gid("fe80::1") : Gid::from_ipv4(10, 0, 0, 1);
  m.target = ipv6 ? *parse_gid("fe80::abcd:1234") : Gid::from_ipv4(10, 0, 0, 2);
  m.vlan = vlan;
  return m;
}

std::vector<std::byte> emit(const NeighbourMessage& m) {
  std::vector<std::byte> frame(wire::kMaxNeighbourLength);
  frame.resize(wire::emit_neighbour(frame.data(), m, m.is_question ? MacAddress{} : kTheirs));
  return frame;
}

bool parse(const std::vector<std::byte>& frame, NeighbourMessage& m) {
  const std::vector<std::byte> exact(frame);  // no spare capacity to read into
  return wire::parse_neighbour(exact.data(), static_cast<uint32_t>(exact.size()), m);
}

void deliver(Neighbours& neighbours, const NeighbourMessage& m) {
  const auto frame = emit(m);
  CHECK(neighbours.on_message(frame.data(), static_cast<uint32_t>(frame.size())));
}

Instant at_ms(int64_t ms) { return Instant{} + Duration::from_ms(ms); }

}  // namespace

TEST_CASE("a neighbour message is parsed as it was emitted") {
  for (const bool ipv6 : {false, true})
    for (const bool question : {false, true})
      for (const uint16_t vlan : {0, 7}) {
        const NeighbourMessage out = neighbour_sample(ipv6, question, vlan);
        const auto frame = emit(out);
        CHECK(frame.size() == (vlan != 0 ? 4u : 0u) + (ipv6 ? 86u : 42u));
        NeighbourMessage in;
        REQUIRE(parse(frame, in));
        CHECK(in.is_question == out.is_question);
        CHECK(in.sender_mac == out.sender_mac);
        CHECK(in.sender == out.sender);
        CHECK(in.target == out.target);
        CHECK(in.vlan == vlan);
      }
}

TEST_CASE("requests are broadcast, or sent to the target's solicited-node group") {
  const auto arp = emit(neighbour_sample(false, true));
  const uint8_t broadcast[6] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  CHECK(std::memcmp(arp.data(), broadcast, 6) == 0);
  const auto nd = emit(neighbour_sample(true, true));
  const uint8_t group[6] = {0x33, 0x33, 0xFF, 0xCD, 0x12, 0x34};
  CHECK(std::memcmp(nd.data(), group, 6) == 0);
  const uint8_t group_address[16] = {0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xCD, 0x12, 0x34};
  CHECK(std::memcmp(nd.data() + 14 + 24, group_address, 16) == 0);
  CHECK(std::memcmp(emit(neighbour_sample(true, false)).data(), kTheirs.data(), 6) == 0);
}

TEST_CASE("short, damaged and implausible messages are refused") {
  for (const bool ipv6 : {false, true}) {
    const auto whole = emit(neighbour_sample(ipv6, true));
    for (size_t length = 0; length < whole.size(); ++length) {
      NeighbourMessage m;
      CHECK_FALSE(parse({whole.begin(), whole.begin() + static_cast<long>(length)}, m));
    }
  }
  // Every byte of a solicitation is covered by a check: the checksum, or the link's header.
  const auto nd = emit(neighbour_sample(true, true));
  for (size_t i = 14 + 6; i < nd.size(); ++i) {
    auto bent = nd;
    bent[i] ^= std::byte{1};
    NeighbourMessage m;
    CHECK_FALSE(parse(bent, m));
  }
  auto group_sender = neighbour_sample(false, true);
  group_sender.sender_mac = {1, 0, 0, 0, 0, 1};
  NeighbourMessage m;
  CHECK_FALSE(parse(emit(group_sender), m));
}

TEST_CASE("each byte of an address is where it belongs, whatever was in the message before") {
  NeighbourMessage out = neighbour_sample(false, true);
  out.sender = Gid::from_ipv4(10, 21, 32, 43);
  out.target = Gid::from_ipv4(10, 54, 65, 76);
  NeighbourMessage in = neighbour_sample(true, false, 99);
  in.overrides = true;
  REQUIRE(parse(emit(out), in));
  CHECK(in.sender == out.sender);
  CHECK(in.target == out.target);
  CHECK(in.vlan == 0);
  CHECK(in.overrides == NeighbourMessage{}.overrides);
  for (const auto& [first, valid] : {std::pair{0, false}, {1, true}, {223, true}, {224, false}}) {
    out.sender = Gid::from_ipv4(static_cast<uint8_t>(first), 2, 3, 4);
    CHECK(parse(emit(out), in) == valid);
  }
}

TEST_CASE("an ARP message with one wrong field is refused") {
  const auto with = [](size_t offset, int value) {
    std::vector<std::byte> frame = emit(neighbour_sample(false, true));
    frame[14 + offset] = static_cast<std::byte>(value);
    NeighbourMessage m;
    return parse(frame, m);
  };
  CHECK(with(1, 1));           // nothing changed
  CHECK_FALSE(with(1, 2));     // hardware
  CHECK_FALSE(with(2, 0x86));  // protocol
  CHECK_FALSE(with(4, 5));     // length of a hardware address
  CHECK_FALSE(with(5, 16));    // of a protocol address
  CHECK_FALSE(with(7, 0));     // operation
  CHECK(with(7, 2));
  CHECK_FALSE(with(7, 3));
}

TEST_CASE("a message names whom it is for, and its version") {
  const auto target_mac = [](bool question) {
    const auto frame = emit(neighbour_sample(false, question));
    MacAddress mac;
    std::memcpy(mac.data(), frame.data() + 14 + 18, mac.size());
    return mac;
  };
  CHECK(target_mac(true) == MacAddress{});  // that is the question
  CHECK(target_mac(false) == kTheirs);
  for (const bool question : {false, true})
    CHECK(emit(neighbour_sample(true, question))[14] == std::byte{0x60});
}

// One field at a time, with a checksum that is right: no other check refuses it.
TEST_CASE("a neighbour solicitation with one wrong field is refused") {
  const auto with = [](size_t offset, int value) {
    std::vector<std::byte> frame = emit(neighbour_sample(true, true));
    std::byte* const ip = frame.data() + 14;
    ip[offset] = static_cast<std::byte>(value);
    ip[42] = ip[43] = std::byte{0};
    uint32_t sum = 32 + 58;  // of ICMPv6, RFC 4443 2.3: the length is that of the message
    for (size_t i = 8; i < 72; i += 2)
      sum += static_cast<uint32_t>(ip[i]) << 8 | static_cast<uint32_t>(ip[i + 1]);
    while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
    ip[42] = static_cast<std::byte>(~sum >> 8);
    ip[43] = static_cast<std::byte>(~sum);
    NeighbourMessage m;
    return parse(frame, m);
  };
  CHECK(with(6, 58));          // nothing changed
  CHECK_FALSE(with(5, 33));    // payload length
  CHECK_FALSE(with(6, 17));    // next header
  CHECK_FALSE(with(7, 254));   // hop limit: forwarded
  CHECK_FALSE(with(8, 0));     // source: unspecified
  CHECK(with(8, 1));           // any other address
  CHECK_FALSE(with(8, 0xFF));  // source: multicast
  CHECK_FALSE(with(40, 134));  // type
  CHECK_FALSE(with(40, 136));  // an advertisement has the other option
  CHECK_FALSE(with(41, 1));    // code
  CHECK_FALSE(with(64, 2));    // option
  CHECK_FALSE(with(65, 2));    // length of the option
}

TEST_CASE("random bytes are not parsed as neighbour messages") {
  CHECK(rc::check("parse_neighbour", [](std::vector<uint8_t> bytes) {
    std::vector<std::byte> frame(bytes.size());
    if (!bytes.empty()) std::memcpy(frame.data(), bytes.data(), bytes.size());
    NeighbourMessage m;
    (void)parse(frame, m);
  }));
}

TEST_CASE("two resolvers resolve each other") {
  for (const bool ipv6 : {false, true}) {
    const NeighbourMessage names = neighbour_sample(ipv6, true);
    Neighbours a({.mac = kOurs, .address = names.sender});
    Neighbours b({.mac = kTheirs, .address = names.target});
    CHECK(a.find(names.target) == nullptr);
    CHECK(a.resolve(names.target, at_ms(0)) == Neighbours::Resolution::waiting);
    CHECK(a.resolve(names.target, at_ms(1)) == Neighbours::Resolution::waiting);
    const auto question = a.next_message();
    REQUIRE_FALSE(question.empty());
    REQUIRE(b.on_message(question.data(), static_cast<uint32_t>(question.size())));
    CHECK(a.next_message().empty());  // asked once
    const auto answer = b.next_message();
    REQUIRE_FALSE(answer.empty());
    REQUIRE(a.on_message(answer.data(), static_cast<uint32_t>(answer.size())));
    REQUIRE(a.find(names.target) != nullptr);
    CHECK(*a.find(names.target) == kTheirs);
    REQUIRE(b.find(names.sender) != nullptr);  // learned by the question
    CHECK(*b.find(names.sender) == kOurs);
  }
}

TEST_CASE("resolution of an address without a reply ends, and is retried later") {
  const NeighbourMessage names = neighbour_sample(false, true);
  Neighbours a({.mac = kOurs, .address = names.sender});
  int64_t ms = 0;
  uint32_t questions = 0;
  Neighbours::Resolution asked = Neighbours::Resolution::waiting;
  for (; ms < 1000 && asked == Neighbours::Resolution::waiting; ++ms) {
    asked = a.resolve(names.target, at_ms(ms));
    while (!a.next_message().empty()) ++questions;
  }
  CHECK(asked == Neighbours::Resolution::unreachable);
  CHECK(questions > 2);
  CHECK(questions < 10);
  CHECK(a.resolve(names.target, at_ms(ms + 2000)) == Neighbours::Resolution::waiting);
}

TEST_CASE("messages between other hosts and unsolicited replies are ignored") {
  const NeighbourMessage names = neighbour_sample(false, true);
  Neighbours a({.mac = kOurs, .address = names.sender});
  NeighbourMessage unsolicited = neighbour_sample(false, false);
  unsolicited.sender = names.target;
  unsolicited.target = names.sender;
  unsolicited.sender_mac = {2, 0, 0, 0, 0, 66};
  deliver(a, unsolicited);
  CHECK(a.find(names.target) == nullptr);
  NeighbourMessage other = neighbour_sample(false, true);
  other.target = Gid::from_ipv4(10, 0, 0, 99);
  deliver(a, other);
  CHECK(a.next_message().empty());
}

// What a host says when it has moved: ARP about itself, or an advertisement to all nodes.
TEST_CASE("an unsolicited reply updates a known neighbour and adds no entry") {
  const bool ipv6 = GENERATE(false, true);
  const NeighbourMessage names = neighbour_sample(ipv6, true);
  const Gid &us = names.target, &them = names.sender;
  Neighbours a({.mac = kTheirs, .address = us});
  NeighbourMessage unsolicited = {
      .is_question = !ipv6, .sender_mac = kOurs, .sender = them, .target = them};
  if (ipv6) unsolicited.target = *parse_gid("ff02::1");
  deliver(a, unsolicited);
  CHECK(a.find(them) == nullptr);
  deliver(a, names);
  REQUIRE(a.find(them) != nullptr);
  CHECK(*a.find(them) == kOurs);
  while (!a.next_message().empty()) continue;
  unsolicited.sender_mac = {2, 0, 0, 0, 0, 66};
  deliver(a, unsolicited);
  CHECK(*a.find(them) == unsolicited.sender_mac);
  CHECK(a.next_message().empty());
  if (!ipv6) {  // an ARP reply about itself too
    unsolicited.is_question = false;
    unsolicited.sender_mac = {2, 0, 0, 0, 0, 67};
    deliver(a, unsolicited);
    CHECK(*a.find(them) == unsolicited.sender_mac);
    return;
  }
  const MacAddress before = unsolicited.sender_mac;
  unsolicited.sender_mac = {2, 0, 0, 0, 0, 68};
  unsolicited.overrides = false;
  deliver(a, unsolicited);
  CHECK(*a.find(them) == before);
  NeighbourMessage elsewhere =
      neighbour_sample(true, true);  // a solicitation is for the one it asks for
  elsewhere.target = *parse_gid("fe80::99");
  elsewhere.sender_mac = {2, 0, 0, 0, 0, 69};
  deliver(a, elsewhere);
  CHECK(*a.find(them) == before);
}

TEST_CASE("a static neighbour is neither updated nor resolved") {
  const bool ipv6 = GENERATE(false, true);
  const NeighbourMessage names = neighbour_sample(ipv6, true);
  Neighbours a({.mac = kTheirs, .address = names.target});
  a.add(names.sender, kOurs);
  NeighbourMessage spoofed = names;
  spoofed.sender_mac = {2, 0, 0, 0, 0, 66};
  deliver(a, spoofed);
  CHECK(*a.find(names.sender) == kOurs);
  CHECK_FALSE(a.next_message().empty());  // it has its answer
  spoofed.is_question = false;
  deliver(a, spoofed);
  CHECK(*a.find(names.sender) == kOurs);
  a.update_now(at_ms(1'000'000'000));
  CHECK(*a.find(names.sender) == kOurs);
  CHECK(a.next_message().empty());
}

TEST_CASE("a stale entry is resolved again, and used meanwhile") {
  const bool ipv6 = GENERATE(false, true);
  const NeighbourMessage names = neighbour_sample(ipv6, true);
  const Gid& them = names.target;
  Neighbours a({.mac = kOurs, .address = names.sender});
  NeighbourMessage answer = neighbour_sample(ipv6, false);
  answer.sender = them;
  answer.target = names.sender;
  answer.sender_mac = kTheirs;
  const auto place = [&] { return a.find(them) == nullptr ? MacAddress{} : *a.find(them); };
  // Where the next question goes; all zero: there is none.
  const auto asked = [&] {
    const std::span<const std::byte> question = a.next_message();
    MacAddress to{};
    if (!question.empty()) std::memcpy(to.data(), question.data(), to.size());
    return to;
  };
  a.update_now(at_ms(1000));
  CHECK(a.resolve(them, at_ms(1000)) == Neighbours::Resolution::waiting);
  const MacAddress everybody = asked();
  deliver(a, answer);
  a.update_now(at_ms(30'999));
  CHECK(place() == kTheirs);
  CHECK(asked() == MacAddress{});
  a.update_now(at_ms(31'000));
  CHECK(asked() == MacAddress{});  // it was not used
  CHECK(place() == kTheirs);
  CHECK(place() == kTheirs);
  CHECK(asked() == (ipv6 ? everybody : kTheirs));
  CHECK(asked() == MacAddress{});
  answer.sender_mac = {2, 0, 0, 0, 0, 9};  // the other of a pair of gateways
  deliver(a, answer);
  CHECK(place() == answer.sender_mac);
  for (int i = 0; i < 5; ++i) {
    a.update_now(at_ms(61'000 + 1000 * i));
    CHECK(place() == answer.sender_mac);
    CHECK(asked() == (i < 2 && !ipv6 ? answer.sender_mac : everybody));
  }
  a.update_now(at_ms(66'000));
  CHECK(place() == MacAddress{});
  CHECK(asked() == MacAddress{});
  CHECK(a.resolve(them, at_ms(66'000)) == Neighbours::Resolution::waiting);
  CHECK(asked() == everybody);
  deliver(a, answer);
  CHECK(place() == answer.sender_mac);
}

TEST_CASE("destinations off the link use the gateway") {
  Neighbours a({.mac = kOurs,
                .address = Gid::from_ipv4(10, 0, 0, 1),
                .prefix = 24,
                .gateway = Gid::from_ipv4(10, 0, 0, 254)});
  a.add(Gid::from_ipv4(10, 0, 0, 254), kTheirs);
  REQUIRE(a.find(Gid::from_ipv4(10, 0, 1, 1)) != nullptr);
  CHECK(*a.find(Gid::from_ipv4(10, 0, 1, 1)) == kTheirs);
  CHECK(a.find(Gid::from_ipv4(10, 0, 0, 9)) == nullptr);
}
