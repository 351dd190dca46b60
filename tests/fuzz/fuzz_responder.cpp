// SPDX-License-Identifier: BSD-3-Clause
// The responder of RC and XRC against a malicious peer: sequences of requests, mostly signed, to
// the right queue pair and near the right PSN, with any opcode, address, length, key, pad and
// payload; between them receives are posted, of its own or shared, keys revoked, windows bound,
// answers sent. Never a write outside of what the key allows, and each receive completes once. See
// engine_fixture.hpp.
#include "tests/fuzz/engine_fixture.hpp"

namespace {

using namespace weft;
using fuzz::Fixture;
using fuzz::Input;
using fuzz::require;

constexpr uint8_t kRequests[] = {
    wire::kRcSendFirst,   wire::kRcSendMiddle,   wire::kRcSendLast,    wire::kRcSendLastImm,
    wire::kRcSendOnly,    wire::kRcSendOnlyImm,  wire::kRcWriteFirst,  wire::kRcWriteMiddle,
    wire::kRcWriteLast,   wire::kRcWriteLastImm, wire::kRcWriteOnly,   wire::kRcWriteOnlyImm,
    wire::kRcReadRequest, wire::kRcCompareSwap,  wire::kRcFetchAdd,    wire::kRcSendLastInv,
    wire::kRcSendOnlyInv, wire::kRcFlush,        wire::kRcAtomicWrite,
};

constexpr uint8_t kXrc = 0xA0;  // what makes an opcode of RC one of XRC

// Lengths at and around the borders.
uint32_t draw_length(Input& in) {
  const uint32_t choices[] = {0,    8,    Fixture::kMtu, Fixture::kMtu + 1, 2 * Fixture::kMtu,
                              1000, 4096, 4097,          0x7FFFFFFF,        0xFFFFFFFF};
  const auto pick = in.take<uint8_t>();
  return pick < 128 ? choices[pick % std::size(choices)] : in.take<uint16_t>();
}

void send_packet(Fixture& f, Input& in) {
  static const std::vector<std::byte> payload(2 * Fixture::kMtu, std::byte{0x11});
  test::Forgery p;
  const auto opcode = in.take<uint8_t>();
  const auto bits = in.take<uint8_t>();
  p.bth.opcode = opcode < 240 ? kRequests[opcode % std::size(kRequests)] : in.take<uint8_t>();
  if (f.type == QpType::xrc_target) {
    if (opcode < 240) p.bth.opcode |= kXrc;
    p.srq = f.pool->number + (bits == 0 ? 1 : 0);
  }
  p.bth.ack_request = bits & 1;
  p.bth.solicited = bits & 2;
  p.bth.dest = f.qp->number;
  const auto delta = in.take<int8_t>();
  p.bth.psn = f.qp->res.expected + (delta > -100 && delta < 60 ? 0u : static_cast<uint32_t>(delta));
  const bool to_open = (bits & 0x0C) != 0;
  const auto offset = in.take<int16_t>();
  p.address = reinterpret_cast<uint64_t>(to_open ? f.open : f.closed) +
              static_cast<uint64_t>(static_cast<int64_t>(offset));
  p.rkey = RKey{to_open ? f.open_key : f.closed_key};
  if ((bits & 0xE0) == 0xC0) p.rkey = RKey{f.window_key};
  if ((bits & 0xE0) == 0xE0) p.rkey = RKey{in.take<uint32_t>()};
  p.length = draw_length(in);
  p.imm = bits & 0x10 ? f.open_key : bits & 0x20 ? f.window_key : f.closed_key;
  p.first = p.compare = in.take<uint16_t>();
  const wire::OpcodeInfo& info = wire::opcode_info(p.bth.opcode);
  if (info.payload) {
    const bool whole = !info.ends_message() && (bits & 0x80) == 0;
    const uint32_t wanted = whole ? Fixture::kMtu : std::min<uint32_t>(p.length, Fixture::kMtu);
    const auto twist = in.take<uint8_t>();
    p.payload = std::span(payload).first(twist < 224 ? wanted : (wanted + twist) % 512);
  }
  const auto damage = in.take<uint8_t>();
  if (damage == 1) p.pad = damage & 3;
  if (damage == 2) p.bth.dest = QpNum{in.take<uint32_t>() & 0xFFFFFF};
  transport::Path path = f.path();
  if (damage == 3) path.source = sim::host_address(9);
  std::vector<std::byte> frame = test::forge(path, p);
  if (damage == 4) frame[in.take<uint16_t>() % frame.size()] ^= std::byte{1};
  if (damage == 5) frame.resize(in.take<uint16_t>() % (frame.size() + 1));
  f.give(path, frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in{data, size};
  const uint8_t kind = in.take_last();
  const QpType type = kind & 1 ? QpType::xrc_target : QpType::rc;
  Fixture f({.type = type, .pool = (kind & 2) != 0, .selective = (kind & 4) != 0});
  const auto step = [&](uint8_t choice) {
    switch (choice % 16) {
      case 0: {
        const uint32_t first = in.take<uint8_t>() * 4u;
        return f.post_receive(first, in.take<uint8_t>() * 8u);
      }
      case 1:
        return f.transmit();
      case 2:
        return f.pass_time(Duration::from_us(in.take<uint16_t>()));
      case 3:
        return f.change_key();
      case 4:
        return f.recover();
      case 5:
        return f.bind_window();
      default:
        return send_packet(f, in);
    }
  };
  f.play(in, 400, step, [&f] { f.check_closed(); });
  return 0;
}
