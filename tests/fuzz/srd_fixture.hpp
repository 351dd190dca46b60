// SPDX-License-Identifier: BSD-3-Clause
// One SRD engine with one queue pair and no network, for fuzz targets: packets are made from the
// input, near what a true peer would send, and given to the engine; what it sends is looked at and
// thrown away. Around the registered memory lie canaries, and each posted request is accounted for.
#pragma once

#include <memory>
#include <vector>

#include "lib/congestion/registry.hpp"
#include "lib/srd/engine.hpp"
#include "lib/srd/invariants.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/no_port.hpp"

namespace weft::fuzz {

// Frames are known by memory, so there is no CRC to guess.
inline transport::Capabilities no_integrity() {
  transport::Capabilities c;
  c.integrity_bits = 0;
  return c;
}

struct SrdFixture {
  static constexpr size_t kGuard = 4096, kOpen = 8192;
  static constexpr uint32_t kDomain = 1, kPeerBlock = 7;
  static constexpr std::byte kMark{0x5A};

  NoPort port{Gid::from_ipv4(127, 0, 0, 2), no_integrity()};
  base::SecureRandom random{1};
  srd::Engine engine;
  transport::CompletionQueue cq{4096};
  std::vector<std::byte> memory = std::vector<std::byte>(2 * kGuard + kOpen, kMark);
  uint32_t key = engine.keys().insert(open(), kOpen, Access::all, kDomain);
  srd::QueuePair* qp;
  Instant now;
  transport::Path path;               // from the peer to us
  std::vector<wire::SrdPacket> seen;  // what the engine sent last
  wire::SrdHello hello;               // its newest one
  uint64_t next_id = 1;
  static constexpr uint64_t kProcess = 77;  // of the peer
  const uint64_t stamp = engine.incarnations.take_stamp(now);
  std::vector<uint64_t> posted;  // and not completed

  explicit SrdFixture(uint8_t controller) : engine(port, config_of(controller), random) {
    qp =
        *engine.create_qp({.type = QpType::srd, .domain = kDomain, .send_cq = &cq, .recv_cq = &cq});
    path.source = Gid::from_ipv4(127, 0, 0, 9);
    path.destination = port.address();
    QueuePairAttributes change;
    change.access = Access::all;
    change.path = AddressVector{.destination = path.source};
    change.dest_qpn = QpNum{kPeerBlock << 16 | 5};
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      change.state = state;
      require(engine.modify_qp(*qp, change).ok(), "set-up");
    }
  }
  static srd::Config config_of(uint8_t controller) {
    constexpr const char* kNames[] = {"nscc", "rccc", "nscc+rccc", "swift"};
    srd::Config config;
    config.halve_on_loss = (controller & 1) != 0;
    if (controller % 5 != 0)
      config.congestion = *congestion::make_preset(
          kNames[controller % 5 - 1],
          {.line = Rate::from_gbps(10), .rtt = Duration::from_us(50), .network = {}});
    return config;
  }
  std::byte* open() { return memory.data() + kGuard; }

  void give(const std::vector<std::byte>& bytes) {
    const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
    if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
    transport::Frame frame;
    frame.path = &path;
    frame.bytes = exact.get();
    frame.length = static_cast<uint32_t>(bytes.size());
    engine.receive({&frame, 1}, now);
  }
  // Arbitrary bytes.
  void give_raw(Input& in) {
    std::vector<std::byte> raw(in.take<uint8_t>());
    for (std::byte& byte : raw) byte = static_cast<std::byte>(in.take<uint8_t>());
    give(raw);
  }
  // The headers of `p`, then `rest` (operands, or the body of an acknowledgement) and payload.
  void give(const wire::SrdPacket& p, std::span<const std::byte> rest, uint32_t payload) {
    if (wire::detail::srd_header_length(p.opcode, p.flags) == 0) return;
    wire::SrdPacket packet = p;
    wire::SrdIntroduction introduction;
    introduction.stamp = stamp;
    introduction.process = kProcess;
    if (wire::is_sequenced(p.opcode) && (p.path & 0x80) == 0) packet.introduction = &introduction;
    std::vector<std::byte> bytes(wire::srd_emit_length(packet));
    wire::srd_emit(bytes.data(), packet, 0);
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    bytes.insert(bytes.end(), wire::may_carry_payload(p.opcode) ? payload : 0, std::byte{0x77});
    give(bytes);
  }

  // What the fields of all packets are if the peer is honest; `twist` has some of them wrong.
  wire::SrdPacket draw(Input& in, uint8_t twist) {
    wire::SrdPacket p;
    p.flags = in.take<uint8_t>() & 0xFB;
    p.detail = in.take<uint8_t>() % 9;
    p.path = in.take<uint8_t>();
    p.path_sequence = in.take<uint8_t>();
    p.dest = (twist & 1) != 0 ? qp->number : QpNum{qp->number.value & 0xFF0000};
    p.source = QpNum{kPeerBlock << 16 | 5};
    p.epoch = (twist & 6) == 6 ? in.take<uint8_t>() : 100;
    p.incarnation = (twist & 0x18) == 0x18
                        ? in.take<uint8_t>()
                        : engine.incarnations.issue(path.source, kPeerBlock, stamp);
    p.message = in.take<uint8_t>();
    p.requested_credit = in.take<uint8_t>() * 16u;
    p.order = in.take<uint8_t>();
    p.length = in.take<uint16_t>();
    p.offset = in.take<uint16_t>();
    p.rkey = (twist & 0x80) == 0 ? key : in.take<uint32_t>();
    p.address =
        reinterpret_cast<uint64_t>(open()) + static_cast<uint64_t>(int64_t{in.take<int16_t>()});
    return p;
  }

  void step(Duration d) {
    now = now + d;
    engine.expire(now);
    seen.clear();
    transport::TxFrame frames[64];
    const size_t n = engine.transmit(frames, now);
    for (size_t i = 0; i < n; ++i) {
      wire::SrdPacket p;
      const auto error =
          wire::srd_parse(frames[i].head, frames[i].head_length, 0, frames[i].payload_length, p);
      require(error == wire::SrdError::none, "the engine sends what it would not parse");
      if (p.hello != nullptr && p.opcode == wire::SrdOpcode::hello) hello = *p.hello;
      seen.push_back(p);
    }
    drain();
  }
  void drain() {
    Completion c;
    while (cq.pop({&c, 1}) != 0) {
      const auto found = std::find(posted.begin(), posted.end(), c.id);
      require(found != posted.end(), "a request completed twice, or was never posted");
      posted.erase(found);
    }
    const srd::Peer* const peer = engine.peer(0);
    if (peer == nullptr) return;
    require(peer->tx.una <= peer->tx.next && peer->tx.next - peer->tx.una <= srd::kWindow,
            "more bytes are in flight than the window allows");
    require(peer->rx.assemblies <= srd::AssemblyTable::kMostPerPeer,
            "more has arrived in part than may");
#ifndef NDEBUG
    srd::check_invariants(engine);
#endif
  }

  // Takes steps until the input is used up. In the end ERR completes everything that is posted, and
  // nothing outside of the open region has changed.
  template <class Packet, class Post>
  void play(Input& in, Packet packet, Post post) {
    while (in.left != 0) {
      const auto what = in.take<uint8_t>();
      if (what < 160)
        packet(*this, in);
      else if (what < 200)
        post(*this, in);
      else if (what < 240)
        step(Duration::from_us(what - 199));
      else if (what < 250)
        step(Duration::from_ms(what));
      else
        give_raw(in);
    }
    step(Duration::from_ms(1));
    QueuePairAttributes change;
    change.state = QpState::err;
    require(engine.modify_qp(*qp, change).ok(), "ERR");
    drain();
    require(posted.empty(), "a request never completed");
    engine.destroy_qp(qp);
    step(Duration::from_ms(1));
    for (size_t i = 0; i < kGuard; ++i)
      require(memory[i] == kMark && memory[kGuard + kOpen + i] == kMark,
              "memory outside of the region was written");
  }
};

}  // namespace weft::fuzz
