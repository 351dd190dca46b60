// SPDX-License-Identifier: BSD-3-Clause
// What peers cost: one queue pair talks to 10,000 of them, never to more than 100 at a time. All
// that the engine allocates is counted, on the side that calls and on the side that is called. The
// peers themselves are not simulated: their packets are made here, their answers are single
// acknowledgements. Then peers that begin all they can, end nothing and answer nothing.
// program: own
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "tests/srd/srd_lone.hpp"
#include "tests/support/catch.hpp"

namespace {
size_t live = 0, most = 0;  // bytes allocated with operator new
constexpr size_t kHead = alignof(std::max_align_t);
}  // namespace

void* operator new(size_t size) {
  auto* const block = static_cast<std::byte*>(std::malloc(size + kHead));
  if (block == nullptr) throw std::bad_alloc();
  std::memcpy(block, &size, sizeof size);
  live += size + kHead;
  if (live > most) most = live;
  return block + kHead;
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* at) noexcept {
  if (at == nullptr) return;
  std::byte* const block = static_cast<std::byte*>(at) - kHead;
  size_t size;
  std::memcpy(&size, block, sizeof size);
  live -= size + kHead;
  std::free(block);
}
void operator delete[](void* at) noexcept { operator delete(at); }
void operator delete(void* at, size_t) noexcept { operator delete(at); }
void operator delete[](void* at, size_t) noexcept { operator delete(at); }

using namespace weft;
using namespace weft::test;
using wire::SrdOpcode;

namespace {

constexpr uint32_t kPeers = 10'000, kAtOnce = 100, kBlock = 7;
constexpr size_t kBudget = 64u << 20;

Gid peer_address(uint32_t i) {
  return Gid::from_ipv4(10, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
}

struct Before {
  size_t before = live;
};

struct One : Before, SrdLone {
  uint32_t acknowledged = 0;
  std::vector<transport::TxFrame> frames = std::vector<transport::TxFrame>(64);

  One() : SrdLone(kAtOnce) { most = live; }
  size_t used() const { return most - before; }
  // Peer `i` acknowledges what came to it.
  void acknowledge(const wire::SrdPacket& sent, const Gid& source) {
    wire::SrdPacket p;
    p.opcode = SrdOpcode::acknowledge;
    p.path = sent.path;
    p.path_sequence = sent.path_sequence;
    p.epoch = sent.epoch;
    p.incarnation = sent.incarnation;
    p.sequence = sent.sequence + 1;
    p.dest = sent.source;
    p.source = QpNum{kBlock << 16};
    wire::SrdAck ack;
    ack.echo = static_cast<uint32_t>(sent.sequence);
    give(source, p, &ack, sizeof ack);
  }
  // A hello has been answered.
  void answer(const wire::SrdHello& hello, const Gid& source) {
    const wire::SrdHello body{hello.stamp, kProcess, 77, 1};
    wire::SrdPacket p;
    p.opcode = SrdOpcode::welcome;
    p.incarnation = hello.incarnation;
    p.hello = &body;
    p.dest = QpNum{engine.qpn_prefix << 16};
    p.source = QpNum{kBlock << 16};
    give(source, p, nullptr, 0);
  }
  // What the engine sends: hellos are answered, requests are acknowledged, acknowledgements
  // counted.
  void exchange() {
    now = now + Duration::from_us(10);
    engine.expire(now);
    while (const size_t n = engine.transmit(frames, now)) {
      struct Sent {
        wire::SrdPacket packet;
        Gid to;
      };
      std::vector<Sent> requests;
      for (size_t i = 0; i < n; ++i) {
        Sent s;
        s.to = frames[i].path->destination;
        REQUIRE(wire::srd_parse(frames[i].head, frames[i].head_length, 0, frames[i].payload_length,
                                s.packet) == wire::SrdError::none);
        if (s.packet.opcode == SrdOpcode::hello) answer(*s.packet.hello, s.to);
        if (wire::is_sequenced(s.packet.opcode)) requests.push_back(s);
        acknowledged += s.packet.opcode == SrdOpcode::acknowledge;
      }
      for (const Sent& s : requests) acknowledge(s.packet, s.to);
    }
  }
};

}  // namespace

TEST_CASE("a queue pair contacts 10,000 peers, 100 at a time, in less than 64 MB") {
  One one;
  const Sge sge{&one.word, sizeof one.word, LKey{one.key}};
  uint32_t done = 0;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t first = 0; first < kPeers; first += kAtOnce) {
      for (uint32_t i = first; i < first + kAtOnce; ++i) {
        QueuePairAttributes change;
        change.path = AddressVector{.destination = peer_address(i)};
        change.dest_qpn = QpNum{kBlock << 16 | 5};
        REQUIRE(one.engine.modify_qp(*one.qp, change));
        SendRequest r;
        r.opcode = Opcode::write;
        r.sges = {&sge, 1};
        REQUIRE(one.engine.post_send(*one.qp, {&r, 1}, one.now));
      }
      one.exchange();
      Completion c;
      while (one.cq.pop({&c, 1}) != 0) {
        REQUIRE(c.status == Status::success);
        ++done;
      }
      REQUIRE(done == round * kPeers + first + kAtOnce);  // two round trips
    }
  }
  CHECK(one.engine.peer_count() == kPeers);
  INFO(one.used() << " bytes at most, " << live - one.before << " now");
  CHECK(one.used() < kBudget);
  // What active peers had besides is given back.
  CHECK((live - one.before) / kPeers < 2500);
}

TEST_CASE("10,000 peers contact a queue pair, each served at once, in less than 64 MB") {
  One one;
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < kPeers; ++i) {
      wire::SrdPacket p;
      p.opcode = SrdOpcode::write_add;
      p.detail = static_cast<uint8_t>(wire::SrdElement::int64);
      p.epoch = 5;
      p.incarnation = one.secret(peer_address(i), kBlock);
      p.sequence = round;
      p.dest = one.qp->number;
      p.source = QpNum{kBlock << 16 | 5};
      p.address = reinterpret_cast<uint64_t>(&one.word);
      p.rkey = one.key;
      const uint64_t one_more = 1;
      one.give(peer_address(i), p, &one_more, sizeof one_more);
      one.exchange();
    }
  }
  CHECK(one.word == 2 * kPeers);
  CHECK(one.acknowledged == 2 * kPeers);
  CHECK(one.engine.peer_count() == kPeers);
  CHECK(one.engine.counters()[transport::Count::tx_resets] == 0);
  INFO(one.used() << " bytes at most");
  CHECK(one.used() < kBudget);
  CHECK(one.used() / kPeers < 1200);
}

namespace {

// Peers that know how the engine calls itself towards them, each with one stream.
struct Hostile : One {
  std::vector<uint64_t> next;  // by peer
  base::Random draw{3};

  explicit Hostile(uint32_t peers) : next(peers) {}
  // What takes memory: half of a WRITE with an immediate, a READ without an acknowledgement of the
  // answer of, an ordered SEND that finds no receive, an addition. What was refused is filled, so
  // that the stream goes on.
  void provoke(uint32_t peer) {
    wire::SrdPacket p;
    p.epoch = 5;
    p.incarnation = secret(peer_address(peer), kBlock);
    p.sequence = next[peer]++;
    p.message = static_cast<uint32_t>(p.sequence);
    p.path = static_cast<uint8_t>(draw.below(64));
    p.dest = qp->number;
    p.source = QpNum{kBlock << 16 | 5};
    p.address = reinterpret_cast<uint64_t>(&word);
    p.rkey = key;
    p.length = 8;
    size_t payload = 0;
    switch (draw.below(4)) {
      case 0:
        p.opcode = SrdOpcode::write;
        p.flags = wire::srd_flag::kFragment | wire::srd_flag::kImmediate;
        payload = 4;
        break;
      case 1:
        p.opcode = SrdOpcode::read_request;
        p.flags = wire::srd_flag::kFragment;
        break;
      case 2:
        p.opcode = SrdOpcode::send;
        p.flags = wire::srd_flag::kFragment | wire::srd_flag::kOrdered;
        p.order = static_cast<uint32_t>(draw.below(64));
        payload = 4;
        break;
      default:
        p.opcode = SrdOpcode::write_add;
        p.detail = static_cast<uint8_t>(wire::SrdElement::int64);
        payload = 8;
        break;
    }
    const uint64_t zero = 0;
    give(peer_address(peer), p, &zero, payload);
    p.opcode = SrdOpcode::fill;
    p.flags = 0;
    give(peer_address(peer), p, &zero, 0);
  }
  // `packets` of each peer, round-robin; packets of the engine are dropped.
  void rage(uint32_t packets) {
    for (uint32_t i = 0; i < packets; ++i) {
      for (uint32_t peer = 0; peer < next.size(); ++peer) provoke(peer);
      now = now + Duration::from_us(20);
      engine.expire(now);
      while (engine.transmit(frames, now) != 0) continue;
    }
  }
};

}  // namespace

TEST_CASE(
    "one peer that starts all it can and completes nothing holds 256 KB at most, threat:A17") {
  Hostile peer(1);
  const size_t at_rest = live;
  peer.rage(20'000);
  const size_t first = most - at_rest;
  std::printf("one hostile peer: %zu bytes\n", first);
  CHECK(first > 50'000);  // it did begin something
  CHECK(first < 256'000);
  peer.rage(20'000);
  CHECK(most - at_rest <= first + 4096);  // and that is all
}

TEST_CASE("2,000 such peers hold less than 32 MB together, threat:A17") {
  Hostile peers(2000);
  peers.rage(250);
  std::printf("2,000 hostile peers: %.1f MB\n", double(peers.used()) / 1e6);
  CHECK(peers.engine.peer_count() == 2000);
  const size_t first = peers.used();
  CHECK(first < 32u << 20);
  peers.rage(100);
  CHECK(peers.used() < first + first / 8);
}
