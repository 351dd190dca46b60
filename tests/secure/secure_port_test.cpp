// SPDX-License-Identifier: BSD-3-Clause
// A protected port against who reads, changes, repeats, reflects and invents packets.
#include <map>
#include <set>
#include <tuple>

#include "tests/secure/secure_ports.hpp"

using namespace weft;
using namespace weft::test;

namespace {

using Texts = std::vector<std::string>;

// Two ends that have keys for both directions.
struct Pair {
  SecureEnd a{1, "one", 11}, b{2, "one", 12};

  Pair() {
    a.send(b, "first");
    CHECK(run(a, b) == Texts{"first"});
    b.send(a, "answer");
    CHECK(run(b, a) == Texts{"answer"});
  }
  WirePacket sealed(std::string_view text) {
    a.send(b, text);
    return a.take();
  }
};

bool contains(const WirePacket& packet, std::string_view text) {
  const std::string_view bytes(reinterpret_cast<const char*>(packet.bytes.data()),
                               packet.bytes.size());
  return bytes.find(text) != std::string_view::npos;
}

// Of a packet with payload.
uint64_t association_of(const WirePacket& packet) {
  wire::SrdProtection protection;
  std::memcpy(&protection, packet.bytes.data() + sizeof(wire::SrdBase), sizeof protection);
  return protection.association;
}

void change(WirePacket& packet, size_t bit) { packet.bytes[bit / 8] ^= std::byte{1} << bit % 8; }

}  // namespace

TEST_CASE("the first packet waits for a key, and all arrive once") {
  SecureEnd a(1, "one", 1), b(2, "one", 2);
  for (const char* const text : {"one", "two", "three"}) a.send(b, text);
  CHECK(a.count("secure_tx_requests") == 1);
  CHECK(run(a, b) == Texts{"one", "two", "three"});
  CHECK(a.count("secure_tx_held") == 3);
  CHECK(b.count("secure_rx_packets") == 3);
  CHECK(b.count("secure_keys_granted") == 1);
  a.send(b, "four");
  CHECK(run(a, b) == Texts{"four"});
  CHECK(a.count("secure_tx_requests") == 1);
}

TEST_CASE("a request that was lost is sent again, and not too often") {
  SecureEnd a(1, "one", 1), b(2, "one", 2);
  a.send(b, "text");
  a.sent.clear();
  a.send(b, "more");
  CHECK(a.sent.empty());
  a.now = a.now + Duration::from_ms(1);
  a.send(b, "again");
  CHECK(a.count("secure_tx_requests") == 2);
  CHECK(run(a, b) == Texts{"text", "more", "again"});
}

TEST_CASE("who reads packets sees the base header and nothing else") {
  Pair t;
  const std::string text(4096, 'x');
  const WirePacket packet = t.sealed(text);
  CHECK_FALSE(contains(packet, "xxxx"));
  CHECK(packet.bytes.size() == SecureEnd::packet(text).size() + wire::kProtectionLength);
  CHECK(wire::kProtectionLength <= 40);
  CHECK(text_of(t.b.arrive(packet)) == text);
  // The same text again is another packet.
  CHECK(t.sealed(text).bytes != packet.bytes);
}

TEST_CASE("each flipped bit of a packet is found, but the digest's, threat:A12") {
  Pair t;
  for (const std::string_view text : {"", "some bytes of payload"}) {
    const WirePacket packet = t.sealed(text);
    for (size_t bit = 0; bit < packet.bytes.size() * 8; ++bit) {
      if (bit / 8 == offsetof(wire::SrdBase, digest)) continue;
      WirePacket changed = packet;
      change(changed, bit);
      INFO(bit);
      CHECK(t.b.arrive(changed).empty());
    }
    // A digest is what a switch has written.
    WirePacket raised = packet;
    raised.bytes[offsetof(wire::SrdBase, digest)] = std::byte{200};
    const std::vector<std::byte> opened = t.b.arrive(raised);
    CHECK(text_of(opened) == text);
    CHECK(opened == SecureEnd::packet(text, 200));
    CHECK(t.b.arrive(packet).empty());  // it has arrived
  }
  const uint64_t dropped = t.b.count("secure_rx_forged") +
                           t.b.count("secure_rx_unknown_association") +
                           t.b.count("secure_rx_clear") + t.b.count("secure_rx_bad_exchange") +
                           t.b.count("secure_rx_replayed");
  CHECK(dropped == (2 * 32 + 2 * wire::kProtectionLength + 21 - 2) * 8 + 2);
}

TEST_CASE("packets cut short or made longer are dropped") {
  Pair t;
  const WirePacket packet = t.sealed("text");
  for (size_t size = 0; size <= packet.bytes.size() + 8; ++size) {
    WirePacket other = packet;
    other.bytes.resize(size);
    CHECK(t.b.arrive(other).empty() == (size != packet.bytes.size()));
  }
  CHECK(t.b.count("secure_rx_malformed") > 0);
}

TEST_CASE("a packet arrives once, however often and late it is repeated, threat:A10") {
  Pair t;
  std::vector<WirePacket> packets;
  for (int i = 0; i < 200; ++i) packets.push_back(t.sealed(std::to_string(i)));
  std::reverse(packets.begin(), packets.end());  // any order
  for (int i = 0; i < 200; ++i)
    CHECK(text_of(t.b.arrive(packets[static_cast<size_t>(i)])) == std::to_string(199 - i));
  for (int round = 0; round < 5; ++round) {
    for (const WirePacket& packet : packets) CHECK(t.b.arrive(packet).empty());
    for (uint64_t i = 0; i < secure::ReplayWindow::kCounters / 2; ++i)
      CHECK_FALSE(t.b.arrive(t.sealed("later")).empty());
  }
  CHECK(t.b.count("secure_rx_replayed") == 1000);
}

TEST_CASE("a packet that was parked for longer than the window is dropped") {
  Pair t;
  const WirePacket early = t.sealed("early"), late = t.sealed("late");
  for (uint64_t i = 0; i < secure::ReplayWindow::kCounters - 1; ++i)
    t.b.arrive(t.sealed("between"));
  CHECK(t.b.arrive(early).empty());
  CHECK(text_of(t.b.arrive(late)) == "late");
}

TEST_CASE(
    "packets reflected to their sender, or sent on from another address, have no effect, "
    "threat:A11") {
  Pair t;
  const WirePacket packet = t.sealed("text");
  WirePacket reflected = packet;
  std::swap(reflected.path.source, reflected.path.destination);
  CHECK(t.a.arrive(reflected).empty());
  WirePacket elsewhere = packet;
  elsewhere.path.source = SecureEnd::address_of(9);
  CHECK(t.b.arrive(elsewhere).empty());
  CHECK(text_of(t.b.arrive(packet)) == "text");
}

TEST_CASE("clear packets are refused, threat:A34") {
  Pair t;
  WirePacket clear;
  clear.path = t.sealed("").path;
  clear.bytes = SecureEnd::packet("a long text, longer than what protection adds to a packet");
  CHECK(t.b.arrive(clear).empty());
  CHECK(t.b.count("secure_rx_clear") == 1);
}

TEST_CASE("who has another secret gets no key, and nothing arrives") {
  SecureEnd a(1, "one", 1), b(2, "two", 2);
  a.send(b, "text");
  CHECK(run(a, b).empty());
  CHECK(b.count("secure_rx_bad_exchange") == 1);
  CHECK(b.count("secure_keys_granted") == 0);
  CHECK(b.sent.empty());
}

TEST_CASE("exchanges that are changed, repeated or reflected give no key") {
  SecureEnd a(1, "one", 1), b(2, "one", 2);
  a.send(b, "text");
  const WirePacket request = a.take();
  for (size_t bit = 0; bit < request.bytes.size() * 8; ++bit) {
    if (bit / 8 == offsetof(wire::SrdBase, digest)) continue;
    WirePacket changed = request;
    change(changed, bit);
    INFO(bit);
    CHECK(b.arrive(changed).empty());
    // What looks like a packet under a key may be told that there is none.
    for (const WirePacket& answer : b.sent) CHECK(answer.bytes.size() <= changed.bytes.size());
    b.sent.clear();
  }
  CHECK(b.count("secure_keys_granted") == 0);
  WirePacket reflected = request;
  std::swap(reflected.path.source, reflected.path.destination);
  a.arrive(reflected);
  CHECK(a.count("secure_keys_granted") == 0);
  CHECK(a.sent.empty());
  b.arrive(request);
  const WirePacket grant = b.take();
  CHECK(grant.bytes.size() == request.bytes.size());  // who forges requests gains nothing
  for (size_t bit = 0; bit < grant.bytes.size() * 8; ++bit) {
    if (bit / 8 == offsetof(wire::SrdBase, digest)) continue;
    WirePacket changed = grant;
    change(changed, bit);
    a.arrive(changed);
  }
  CHECK(a.count("secure_keys_received") == 0);
  a.sent.clear();  // that keys are not known
  a.arrive(grant);
  CHECK(a.count("secure_keys_received") == 1);
  CHECK(text_of(b.arrive(a.take())) == "text");
  // A request that is repeated is answered, and the answer is of no use.
  for (int i = 0; i < 100; ++i) b.arrive(request);
  while (!b.sent.empty()) a.arrive(b.take());
  CHECK(a.count("secure_keys_received") == 1);
  a.send(b, "more");
  CHECK(run(a, b) == Texts{"more"});
}

TEST_CASE("a key dies with the process of either side, threat:A33") {
  SecureEnd a(1, "one", 1);
  auto b = std::make_unique<SecureEnd>(2, "one", 2);
  a.send(*b, "text");
  CHECK(run(a, *b) == Texts{"text"});
  a.send(*b, "parked");
  const WirePacket parked = a.take();
  b = std::make_unique<SecureEnd>(2, "one", 3);
  CHECK(b->arrive(parked).empty());
  CHECK(b->count("secure_rx_unknown_association") == 1);
  a.now = a.now + Duration::from_ms(1);
  run(*b, a);  // it says so, and `a` asks
  a.send(*b, "more");
  CHECK(run(a, *b) == Texts{"more"});
  CHECK(a.count("secure_keys_received") == 2);
  CHECK(b->arrive(parked).empty());
  // The other side.
  SecureEnd other(1, "one", 4);
  other.send(*b, "new");
  CHECK(run(other, *b) == Texts{"new"});
  a.send(*b, "old");  // packets of the old process may still arrive
  CHECK(b->arrive(parked).empty());
}

TEST_CASE("the key changes while packets are sent, and those under the old one may arrive late") {
  SecureEnd a(1, "one", 1, 10), b(2, "one", 2);
  Texts sent, arrived;
  for (int i = 0; i < 200; ++i) {
    sent.push_back(std::to_string(i));
    a.send(b, sent.back());
    a.now = a.now + Duration::from_ms(1);
    if (i % 7 != 0) continue;  // what was sent meanwhile is in one key or in two
    for (const std::string& text : run(a, b)) arrived.push_back(text);
  }
  for (const std::string& text : run(a, b)) arrived.push_back(text);
  CHECK(arrived == sent);
  CHECK(a.count("secure_keys_received") > 10);
  CHECK(a.count("secure_tx_held") == 1);  // no pause but the first
  CHECK(b.count("secure_rx_unknown_association") == 0);
}

TEST_CASE("the two newest keys of a sender are accepted, and older ones never again, threat:A10") {
  SecureEnd a(1, "one", 1, 2), b(2, "one", 2);
  std::vector<WirePacket> parked, arrived;
  for (int i = 0; i < 40; ++i) {
    a.send(b, std::to_string(i));
    a.now = a.now + Duration::from_ms(1);
    while (!a.sent.empty()) {
      const WirePacket packet = a.take();
      if (i % 2 == 1 && static_cast<uint8_t>(packet.bytes[0]) == 1) {
        parked.push_back(packet);
      } else {
        arrived.push_back(packet);
        b.arrive(packet);
      }
      while (!b.sent.empty()) a.arrive(b.take());
    }
  }
  CHECK(a.count("secure_keys_received") > 10);
  for (const WirePacket& packet : arrived) CHECK(b.arrive(packet).empty());
  std::set<uint64_t> keys;
  for (const WirePacket& packet : arrived)
    if (static_cast<uint8_t>(packet.bytes[0]) == 1) keys.insert(association_of(packet));
  const uint64_t newest = *keys.rbegin(), before = *std::next(keys.rbegin());
  // What never arrived comes now.
  std::map<uint64_t, int> late;
  for (const WirePacket& packet : parked) {
    const uint64_t key = association_of(packet);
    CHECK(b.arrive(packet).empty() == (key != newest && key != before));
    ++late[key];
  }
  CHECK(late[before] > 0);
  CHECK(late.size() > 3);
}

TEST_CASE("the grant of an earlier request is not believed") {
  SecureEnd a(1, "one", 1, 3), b(2, "one", 2);
  std::vector<WirePacket> grants;
  for (int i = 0; i < 40; ++i) {
    a.send(b, "text");
    a.now = a.now + Duration::from_ms(1);
    while (!a.sent.empty()) b.arrive(a.take());
    const uint64_t keys = a.count("secure_keys_received");
    for (const WirePacket& grant : grants) a.arrive(grant);
    CHECK(a.count("secure_keys_received") == keys);
    while (!b.sent.empty()) {
      grants.push_back(b.take());
      a.arrive(grants.back());
    }
  }
  CHECK(grants.size() > 5);
}

TEST_CASE("a train stays one, and begins anew behind a frame that is held") {
  Pair t;
  SecureEnd c(3, "one", 13);
  const std::vector<std::byte> packet = SecureEnd::packet("of a train");
  transport::Path path;
  path.source = t.a.address();
  path.destination = t.b.address();
  transport::Path other = path;
  other.destination = c.address();
  transport::TxFrame frames[6];
  for (size_t i = 0; i < 6; ++i) {
    frames[i].path = i == 3 ? &other : &path;
    frames[i].head = packet.data();
    frames[i].head_length = static_cast<uint32_t>(packet.size());
    frames[i].ip_id = static_cast<uint16_t>(i < 3 ? i : i == 3 ? 0 : i - 4);
  }
  CHECK(t.a.port().transmit(frames) == 6);
  std::vector<uint16_t> ids;
  for (const WirePacket& sent : t.a.sent)
    if (static_cast<uint8_t>(sent.bytes[0]) == 1) ids.push_back(sent.ip_id);
  CHECK(ids == std::vector<uint16_t>{0, 1, 2, 0, 1});
}

TEST_CASE("no key seals two packets under one counter, over restarts of both sides, threat:A33") {
  // A key follows from the association and the secret of its receiver's process.
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> seen;
  for (uint64_t life_of_b = 0; life_of_b < 100; ++life_of_b) {
    SecureEnd b(2, "one", 5000 + life_of_b);
    for (uint64_t life_of_a = 0; life_of_a < 3; ++life_of_a) {
      SecureEnd a(1, "one", 100 + life_of_b * 3 + life_of_a, 7);
      for (int i = 0; i < 20; ++i) {
        a.send(b, "text");
        a.now = a.now + Duration::from_ms(1);
        for (const WirePacket& packet : a.sent) {
          if (static_cast<uint8_t>(packet.bytes[0]) != 1) continue;
          wire::SrdProtection protection;
          std::memcpy(&protection, packet.bytes.data() + sizeof(wire::SrdBase), sizeof protection);
          CHECK(seen.emplace(life_of_b, protection.association, protection.counter).second);
        }
        run(a, b);
      }
    }
  }
  CHECK(seen.size() > 5000);
}

TEST_CASE("what the port below has no room for is sent later, in order") {
  Pair t;
  t.a.wire().room = 0;
  for (const char* const text : {"one", "two", "three"}) t.a.send(t.b, text);
  CHECK(t.a.sent.empty());
  t.a.wire().room = 1;
  std::vector<pollfd> none;
  for (int i = 0; i < 3; ++i) t.a.port().prepare_wait(none, false);
  CHECK(run(t.a, t.b) == Texts{"one", "two", "three"});
}
