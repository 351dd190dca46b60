// SPDX-License-Identifier: BSD-3-Clause
// lib/message: random sends and receives among three endpoints against the plain Reference: each
// message goes into the receive that the rules say, once, with its bytes; every send completes. A
// failed run prints the environment variable that repeats it.
#include <set>

#include "tests/message/message_net.hpp"
#include "tests/support/scale.hpp"

using namespace weft;
using namespace weft::test;
using message::Completed;
using message::Limits;

namespace {

constexpr size_t kMembers = 3;
constexpr size_t kBuffer = 3000;
constexpr Limits kLimits{.eager_bytes = 256, .inline_bytes = 64, .credits = 24};

uint64_t first_seed() {
  const char* text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : base::SecureRandom().next64();
}

std::byte byte_of(uint64_t message, size_t at) {
  return static_cast<std::byte>(message * 37 + at * 11 + (at >> 8));
}

// A run: what was posted, by id; the buffers.
class Run {
 public:
  explicit Run(uint64_t seed) : net_(seed, kMembers, kLimits, 4 + seed % 60) {}

  void go(size_t operations) {
    base::Random& random = net_.random;
    for (size_t i = 0; i < operations; ++i) {
      const size_t who = random.below(kMembers);
      const uint64_t choice = random.below(100);
      if (choice < 45)
        send(who);
      else if (choice < 90)
        receive(who);
      else if (choice < 95)
        cancel(who);
      for (uint64_t steps = random.below(6); steps > 0; --steps) net_.step();
    }
    net_.settle();
    for (size_t who = 0; who < kMembers; ++who) check(who);
  }

 private:
  struct Receive {
    size_t who;
    std::vector<std::byte> buffer;
    bool canceled = false;
    bool released = false;
  };

  uint64_t some_tag() { return net_.random.below(4) | net_.random.below(3) << 32; }

  void send(size_t who) {
    base::Random& random = net_.random;
    const uint64_t id = next_id_++;
    constexpr size_t kLengths[] = {0, 1, 8, 40, 41, 256, 257, 1000, 2900};
    auto& bytes = sent_[id];
    bytes.resize(kLengths[random.below(std::size(kLengths))]);
    for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = byte_of(id, at);
    const size_t middle = random.below(bytes.size() + 1);
    const iovec pieces[] = {{bytes.data(), middle}, {bytes.data() + middle, bytes.size() - middle}};
    const bool tagged = random.below(2) == 0, copies = random.below(4) == 0;
    const auto code = net_[who].endpoint.send({.to = static_cast<uint32_t>(random.below(kMembers)),
                                               .tagged = tagged,
                                               .tag = tagged ? some_tag() : 0,
                                               .has_data = true,
                                               .data = id,
                                               .pieces = pieces,
                                               .copies = copies,
                                               .until_matched = random.below(10) == 0,
                                               .cookie = id});
    REQUIRE(code == Code::ok);
    sender_[id] = who;
    if (copies) std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
  }

  void receive(size_t who) {
    base::Random& random = net_.random;
    const uint64_t id = next_id_++;
    const bool tagged = random.below(2) == 0, many = random.below(8) == 0;
    const uint64_t tag = tagged ? some_tag() : 0;
    const uint64_t ignore = tagged && random.below(3) == 0 ? 0xF : 0;
    const auto peer = static_cast<uint32_t>(random.below(2 * kMembers));
    const bool any = peer >= kMembers;
    Receive& record = received_[id];
    record.who = who;
    record.buffer.resize(many ? kBuffer : random.below(2) == 0 ? kBuffer : random.below(300));
    const size_t least = many ? 200 : 0;
    net_[who].reference.post({tagged, any ? std::nullopt : std::optional(peer), tag, ignore, id,
                              record.buffer.size(), least});
    const iovec pieces[] = {{record.buffer.data(), record.buffer.size()}};
    REQUIRE(net_[who].endpoint.receive(
                {.pattern = {tagged, any ? message::kAnyPeer : peer, tag, ignore},
                 .pieces = pieces,
                 .least_room = least,
                 .context = &record,
                 .cookie = id}) == Code::ok);
  }

  void cancel(size_t who) {
    const auto& posted = net_[who].reference.posted();
    if (posted.empty()) return;
    const uint64_t id = posted[net_.random.below(posted.size())].id;
    REQUIRE(net_[who].reference.cancel(id));
    received_[id].canceled = true;
    CHECK(net_[who].endpoint.cancel(&received_[id]));
    CHECK(!net_[who].endpoint.cancel(&received_[id]));
  }

  void check(size_t who) {
    MessageMember& member = net_[who];
    std::vector<ReferenceMatch> matches;
    std::set<uint64_t> sends;
    for (const Completed& completed : member.done) {
      if (!completed.received) {
        CHECK(completed.code == Code::ok);
        CHECK(sender_[completed.cookie] == who);
        CHECK(sends.insert(completed.cookie).second);
        continue;
      }
      Receive& receive = received_[completed.cookie];
      CHECK(!receive.released);
      receive.released = completed.released;
      if (completed.code == Code::canceled) {
        CHECK(receive.canceled);
        continue;
      }
      CHECK(completed.code == (completed.beyond != 0 ? Code::mismatch : Code::ok));
      const size_t at = completed.buffer == nullptr
                            ? receive.buffer.size()
                            : static_cast<size_t>(static_cast<std::byte*>(completed.buffer) -
                                                  receive.buffer.data());
      matches.push_back({completed.cookie, completed.data, at, completed.length, completed.beyond});
      size_t wrong = 0;
      for (size_t i = 0; i < completed.length; ++i)
        wrong += receive.buffer[at + i] != byte_of(completed.data, i);
      CHECK(wrong == 0);
    }
    auto expected = member.reference.matches();
    std::sort(matches.begin(), matches.end());
    std::sort(expected.begin(), expected.end());
    CHECK(matches == expected);
    check_ends(who, sends);
  }

  // Sends end unless an announced one waits at its receiver; receives unless they are posted.
  void check_ends(size_t who, const std::set<uint64_t>& sends) {
    std::set<uint64_t> waiting, posted;
    for (size_t at = 0; at < kMembers; ++at)
      for (const auto& message : net_[at].reference.waiting()) waiting.insert(message.id);
    for (const auto& receive : net_[who].reference.posted()) posted.insert(receive.id);
    for (const auto& [id, sender] : sender_)
      if (sender == who && !waiting.contains(id)) CHECK(sends.contains(id));
    for (const auto& [id, receive] : received_)
      if (receive.who == who) CHECK(receive.released == !posted.contains(id));
    CHECK(net_[who].endpoint.counters().violations == 0);
  }

  std::map<uint64_t, std::vector<std::byte>> sent_;
  std::map<uint64_t, size_t> sender_;
  std::map<uint64_t, Receive> received_;
  uint64_t next_id_ = 0;
  MessageNet net_;
};

}  // namespace

TEST_CASE("random messages go where the plain rules say, whole and once") {
  const uint64_t seed = first_seed();
  for (uint64_t round = 0; round < scaled(60); ++round) {
    UNSCOPED_INFO("replay: WEFT_TEST_SEED=" << seed + round << " WEFT_TEST_SCALE=0.01");
    Run(seed + round).go(400);
  }
}

TEST_CASE("a flood of messages without receives is bounded by credits") {
  MessageNet net(5, 2, kLimits, 64);
  net.checks = false;
  const char byte = 'x';
  const iovec piece[] = {{const_cast<char*>(&byte), 1}};
  constexpr size_t kFlood = 10'000;
  for (size_t i = 0; i < kFlood; ++i)
    REQUIRE(net[0].endpoint.send({.to = 1, .pieces = piece, .copies = true}) == Code::ok);
  net.settle();
  // Nothing came back, so that the sender has its first credits only; the others are announced.
  CHECK(net[1].endpoint.counters().unexpected == message::kFirstCredits + message::kMaxAnnounced);
  CHECK(net[0].done.size() == message::kFirstCredits);
  for (size_t i = 0; i < 2; ++i) check_invariants(net[i].endpoint);
  std::vector<char> into(kFlood);
  for (size_t i = 0; i < kFlood; ++i) {
    const iovec room[] = {{&into[i], 1}};
    REQUIRE(net[1].endpoint.receive({.pieces = room}) == Code::ok);
    if (i % 256 == 0) net.settle();
  }
  net.settle();
  CHECK(net[0].done.size() == kFlood);
  CHECK(net[1].done.size() == kFlood);
  CHECK(into == std::vector<char>(kFlood, 'x'));
  CHECK(net[1].endpoint.counters().violations == 0);
}

TEST_CASE("a peer that sends more than its credit is refused") {
  MessageNet net(6, 2, kLimits, 64);
  std::array<std::byte, message::kMaxHeader> bytes;
  const size_t size = message::write_header({.kind = message::Kind::eager}, bytes.data());
  for (uint32_t i = 0; i < message::kFirstCredits + 5; ++i)
    net[1].endpoint.on_message(0, {bytes.data(), size});
  CHECK(net[1].endpoint.counters().unexpected == message::kFirstCredits);
  CHECK(net[1].endpoint.counters().violations == 5);
}

TEST_CASE("what waits for a peer that is gone ends with the reason") {
  MessageNet net(7, 3, kLimits, 64);
  std::vector<char> large(5000);
  const iovec pieces[] = {{large.data(), large.size()}};
  REQUIRE(net[0].endpoint.send({.to = 1, .pieces = pieces, .cookie = 1}) == Code::ok);
  REQUIRE(net[0].endpoint.receive({.pattern = {.peer = 1}, .pieces = pieces, .cookie = 2}) ==
          Code::ok);
  REQUIRE(net[0].endpoint.receive({.pattern = {.peer = 2}, .pieces = pieces, .cookie = 3}) ==
          Code::ok);
  net.settle();
  CHECK(net[0].done.empty());
  net[0].endpoint.on_peer_failed(1, Code::peer_failed);
  REQUIRE(net[0].done.size() == 2);
  CHECK(net[0].done[0].code == Code::peer_failed);
  CHECK(net[0].done[0].cookie == 1);
  CHECK(net[0].done[1].code == Code::peer_failed);
  CHECK(net[0].done[1].cookie == 2);
  // It was only slow: neither side takes the other's messages for too many.
  for (int i = 0; i < 100; ++i) {
    const iovec byte[] = {{large.data(), 1}};
    REQUIRE(net[0].endpoint.send({.to = 1, .pieces = byte, .copies = true}) == Code::ok);
    REQUIRE(net[1].endpoint.send({.to = 0, .pieces = byte, .copies = true}) == Code::ok);
    if (i == 20) net.settle();
    if (i == 20) net[0].endpoint.on_peer_failed(1, Code::peer_failed);
  }
  net.settle();
  CHECK(net[0].endpoint.counters().violations == 0);
  CHECK(net[1].endpoint.counters().violations == 0);
}

TEST_CASE("a peer that owes an answer is probed") {
  MessageNet net(8, 2, kLimits, 64);
  std::vector<char> large(5000);
  const iovec pieces[] = {{large.data(), large.size()}};
  CHECK(net[0].endpoint.on_time(Instant{}).is_never());
  REQUIRE(net[0].endpoint.send({.to = 1, .pieces = pieces}) == Code::ok);
  net.settle();
  const Instant later = Instant{} + kLimits.probe_interval;
  CHECK(net[0].endpoint.on_time(later) == later + kLimits.probe_interval);
  net.settle();
  CHECK(net[0].done.empty());
  REQUIRE(net[1].endpoint.receive({.pieces = pieces}) == Code::ok);
  net.settle();
  CHECK(net[0].done.size() == 1);
  CHECK(net[0].endpoint.on_time(later).is_never());
}

TEST_CASE("peers that posted receives name are probed, some at a time") {
  constexpr size_t kNamed = 5;
  MessageNet net(13, 1 + kNamed, {.probe_interval = kLimits.probe_interval, .named_probes = 2}, 64);
  char into = 0;
  const iovec room[] = {{&into, 1}};
  REQUIRE(net[0].endpoint.receive({.pieces = room}) == Code::ok);
  CHECK(net[0].endpoint.on_time(Instant{}).is_never());
  for (uint32_t peer = 1; peer <= kNamed; ++peer)
    REQUIRE(net[0].endpoint.receive({.pattern = {.peer = peer}, .pieces = room}) == Code::ok);
  Instant now;
  const auto sent_in_next_interval = [&] {
    now = now + kLimits.probe_interval;
    CHECK(net[0].endpoint.on_time(now) == now + kLimits.probe_interval);
    net[0].endpoint.on_time(now);  // again: nothing more
    net.settle();
    return net[0].take_sent();
  };
  std::set<message::Peer> probed;
  for (size_t left = kNamed; left > 0; left -= std::min<size_t>(left, 2)) {
    const auto to = sent_in_next_interval();
    CHECK(to.size() == 2);
    probed.insert(to.begin(), to.end());
  }
  CHECK(probed.size() == kNamed);
  // With the receives the probes end.
  while (net[0].endpoint.cancel(nullptr)) {
  }
  CHECK(net[0].endpoint.on_time(now + kLimits.probe_interval).is_never());
}

TEST_CASE("an answer that was lost is sent again with the next message of the peer") {
  MessageNet net(10, 2, kLimits, 64);
  std::vector<char> large(5000), into(5000);
  const iovec pieces[] = {{large.data(), large.size()}}, room[] = {{into.data(), into.size()}};
  REQUIRE(net[0].endpoint.send({.to = 1, .pieces = pieces}) == Code::ok);
  net.settle();
  net[1].loses = 1;
  REQUIRE(net[1].endpoint.receive({.pieces = room}) == Code::ok);
  net.settle();
  CHECK(net[1].done.size() == 1);
  CHECK(net[0].done.empty());
  net[0].endpoint.on_time(Instant{} + kLimits.probe_interval);
  net.settle();
  REQUIRE(net[0].done.size() == 1);
  CHECK(net[0].done[0].code == Code::ok);
}

TEST_CASE("a peer that is gone is forgotten when nothing of it is left") {
  MessageNet net(11, 2, kLimits, 64);
  char byte = 'x', into = 0;
  const iovec piece[] = {{&byte, 1}}, room[] = {{&into, 1}};
  for (int round = 0; round < 3; ++round) {
    REQUIRE(net[0].endpoint.send({.to = 1, .pieces = piece, .copies = true}) == Code::ok);
    CHECK(net[0].endpoint.counters().copied == 1);
    CHECK(!net[0].endpoint.forget(1));  // it may not have arrived
    net.settle();
    CHECK(net[0].endpoint.counters().copied == 0);
    CHECK(!net[1].endpoint.forget(0));  // it waits for a receive
    REQUIRE(net[1].endpoint.receive({.pieces = room}) == Code::ok);
    REQUIRE(net[1].endpoint.receive({.pattern = {.peer = 0}, .pieces = room}) == Code::ok);
    CHECK(!net[1].endpoint.forget(0));  // a receive names it
    CHECK(net[1].endpoint.cancel(nullptr));
    net.settle();
    // Both begin anew: with the first credits, and those beyond are free for others.
    CHECK(net[1].endpoint.forget(0));
    CHECK(net[1].endpoint.forget(0));
    CHECK(net[0].endpoint.forget(1));
    check_invariants(net[0].endpoint);
    check_invariants(net[1].endpoint);
  }
  CHECK(net[0].endpoint.counters().violations + net[1].endpoint.counters().violations == 0);
}

TEST_CASE("an announced message that was copied counts until it was read") {
  MessageNet net(12, 2, kLimits, 64);
  std::vector<char> bytes(5000, 'a'), into(5000);
  const iovec pieces[] = {{bytes.data(), bytes.size()}}, room[] = {{into.data(), into.size()}};
  REQUIRE(net[0].endpoint.send({.to = 1, .pieces = pieces, .copies = true}) == Code::ok);
  net.settle();
  CHECK(net[0].endpoint.counters().copied == 1);
  REQUIRE(net[1].endpoint.receive({.pieces = room}) == Code::ok);
  net.settle();
  CHECK(net[0].endpoint.counters().copied == 0);
}

TEST_CASE("a message is looked at, claimed, and received or discarded") {
  MessageNet net(9, 2, kLimits, 64);
  std::vector<char> bytes(300, 'a'), into(300);
  const iovec pieces[] = {{bytes.data(), bytes.size()}}, room[] = {{into.data(), into.size()}};
  int first = 0, second = 0;
  const message::Pattern pattern{.tagged = true, .tag = 7};
  CHECK(!net[1].endpoint.peek(pattern, false, nullptr));
  for (int i = 0; i < 2; ++i)
    REQUIRE(net[0].endpoint.send({.to = 1, .tagged = true, .tag = 7, .pieces = pieces}) ==
            Code::ok);
  net.settle();
  const auto seen = net[1].endpoint.peek(pattern, false, nullptr);
  REQUIRE(seen);
  CHECK(seen->length == 300);
  CHECK(seen->envelope.peer == 0);
  CHECK(net[1].endpoint.peek(pattern, true, &first));
  CHECK(net[1].endpoint.peek(pattern, true, &second));
  CHECK(!net[1].endpoint.peek(pattern, false, nullptr));
  CHECK(net[1].endpoint.discard_claimed(&first));
  CHECK(!net[1].endpoint.discard_claimed(&first));
  CHECK(net[1].endpoint.receive_claimed({.pieces = room, .context = &first}) == Code::not_found);
  CHECK(net[1].endpoint.receive_claimed({.pieces = room, .context = &second}) == Code::ok);
  net.settle();
  CHECK(into == bytes);
  CHECK(net[0].done.size() == 2);
}
