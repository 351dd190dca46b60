// SPDX-License-Identifier: BSD-3-Clause
// UC and UD against a malicious sender, while they send themselves: messages and datagrams with any
// opcode, order, address, length, key and pad, to the queue pair or to a group that it joins and
// leaves; between them receives, of its own or shared, and requests are posted, good ones and bad,
// keys revoked and windows bound. No write outside of the memory of a key or receive, each request
// completes once, and no response is sent. See engine_fixture.hpp.
#include "tests/fuzz/engine_fixture.hpp"

namespace {

using namespace weft;
using fuzz::Fixture;
using fuzz::Input;
using fuzz::require;

constexpr Gid kGroup = {{0xFF, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};

// Joins the group, or leaves it where it cannot be joined again.
void change_membership(Fixture& f) {
  if (f.type != QpType::ud) return;
  if (!f.engine.detach_multicast(*f.qp, kGroup))
    require(f.engine.attach_multicast(*f.qp, kGroup).ok(), "a group could not be joined");
}

void give_packet(Fixture& f, Input& in) {
  static const std::vector<std::byte> payload(2 * Fixture::kMtu, std::byte{0x11});
  const bool ud = f.type == QpType::ud;
  test::Forgery p;
  const auto opcode = in.take<uint8_t>();
  const auto bits = in.take<uint8_t>();
  p.bth.opcode = static_cast<uint8_t>(ud ? 0x64 + opcode % 2 : 0x20 + opcode % 12);
  if (opcode >= 248) p.bth.opcode = in.take<uint8_t>();
  p.bth.solicited = bits & 1;
  p.bth.dest = f.qp->number;
  p.bth.psn = f.qp->res.expected + ((bits & 0x0E) != 0 ? 0u : in.take<uint8_t>());
  p.qkey = (bits & 0x70) != 0 ? Fixture::kQKey : in.take<uint32_t>();
  p.source_qp = QpNum{in.take<uint16_t>()};
  const auto to_open = in.take<uint8_t>() % 8 != 0;
  p.address = reinterpret_cast<uint64_t>(to_open ? f.open : f.closed) + in.take<uint16_t>() % 4200;
  p.rkey = RKey{(bits & 0xC0) == 0xC0 ? f.window_key : to_open ? f.open_key : f.closed_key};
  const bool to_group = ud && (bits & 0x81) == 0x81;
  if (to_group) p.bth.dest = QpNum{kMulticastQpn};
  const uint32_t lengths[] = {0, 8, Fixture::kMtu, Fixture::kMtu + 1, 3 * Fixture::kMtu, 4097};
  p.length = lengths[in.take<uint8_t>() % std::size(lengths)];
  const wire::OpcodeInfo& info = wire::opcode_info(p.bth.opcode);
  const auto twist = in.take<uint8_t>();
  if (info.payload) {
    const uint32_t whole = info.ends_message() ? p.length % (Fixture::kMtu + 1) : Fixture::kMtu;
    p.payload = std::span(payload).first(twist < 224 ? whole : (whole + twist) % 512);
  }
  if (twist == 7) p.pad = bits & 3;
  transport::Path path = f.path();
  if (twist == 8) path.source = sim::host_address(9);
  std::vector<std::byte> frame = test::forge(path, p);
  if (to_group) {
    path.destination = kGroup;
    test::sign(path, frame);
  }
  if (twist == 9) frame[in.take<uint16_t>() % frame.size()] ^= std::byte{1};
  if (twist == 10) frame.resize(in.take<uint16_t>() % (frame.size() + 1));
  const uint64_t answers = f.engine.counters()[transport::Count::tx_packets];
  f.give(path, frame);
  require(f.engine.counters()[transport::Count::tx_packets] == answers, "a packet was answered");
}

void post_send(Fixture& f, Input& in) {
  const AddressHandle to(AddressVector{.destination = sim::host_address(in.take<uint8_t>() % 4)});
  const auto bits = in.take<uint8_t>();
  const Sge sge{f.open, in.take<uint16_t>() % 2000u, LKey{bits & 0x0F ? f.open_key : 1}};
  SendRequest r;
  r.id = f.next_id;
  r.opcode = static_cast<Opcode>(in.take<uint8_t>() % 9);
  if (bits & 0x20) r.opcode = Opcode::send;
  r.flags = bits & 0x40 ? SendFlags::signaled : SendFlags::none;
  r.sges = {&sge, 1};
  r.to = bits & 0x80 ? nullptr : &to;
  r.remote_qpn = QpNum{5};
  r.remote_qkey = in.take<uint32_t>();
  if (f.engine.post_send(*f.qp, {&r, 1}, f.now))
    f.sends.push_back({f.next_id++, has(r.flags, SendFlags::signaled)});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in{data, size};
  const bool shares = in.take_last() & 1;
  Fixture f({.type = in.take<uint8_t>() % 2 == 0 ? QpType::uc : QpType::ud, .pool = shares});
  const auto step = [&](uint8_t choice) {
    switch (choice % 16) {
      case 0:
      case 1: {
        const uint32_t first = in.take<uint8_t>() * 2u, second = in.take<uint8_t>() * 4u;
        return f.post_receive(first, second, in.take<uint8_t>() == 1);
      }
      case 2:
        return f.transmit();
      case 3:
        return f.change_key();
      case 4:
        return f.recover();
      case 5:
        return post_send(f, in);
      case 6:
        return change_membership(f);
      case 7:
        return f.bind_window();
      default:
        return give_packet(f, in);
    }
  };
  f.play(in, 400, step, [&f] { f.check_closed(); });
  return 0;
}
