// SPDX-License-Identifier: BSD-3-Clause
// The requester of RC and XRC against a malicious peer (threat:A29): random requests are posted and
// sent, among them revocations of the queue pair's own keys, and answered by ACKs, NAKs, READ and
// atomic responses of any kind near the PSNs that are outstanding. Never a byte written outside of
// a READ's buffers, never a success that no answer could have given, each request completes once
// and in order. See engine_fixture.hpp.
#include <array>

#include "tests/fuzz/engine_fixture.hpp"

namespace {

using namespace weft;
using fuzz::Fixture;
using fuzz::Input;
using fuzz::require;

// The key of the window, which it had or has not had.
void revoke(Fixture& f) {
  f.bind_window();
  const SendRequest r{.id = f.next_id,
                      .opcode = Opcode::local_invalidate,
                      .flags = SendFlags::signaled,
                      .invalidate = RKey{f.window_key}};
  if (f.engine.post_send(*f.qp, {&r, 1}, f.now)) f.sends.push_back({f.next_id++, true});
}

void post(Fixture& f, Input& in) {
  constexpr Opcode kOpcodes[] = {
      Opcode::send,         Opcode::send_with_imm,   Opcode::send_with_invalidate,
      Opcode::write,        Opcode::write_with_imm,  Opcode::read,
      Opcode::compare_swap, Opcode::fetch_add,       Opcode::flush,
      Opcode::atomic_write, Opcode::local_invalidate};
  const auto draw = in.take<uint8_t>();
  const Opcode opcode = kOpcodes[draw < 192 ? draw % 8 : 8 + draw % 3];
  if (opcode == Opcode::local_invalidate) return revoke(f);
  const bool atomic = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
  const auto flags = in.take<uint8_t>();
  const uint32_t sizes[] = {0, 1, 8, Fixture::kMtu, Fixture::kMtu + 1, 2000};
  const uint32_t size = atomic ? 8 : sizes[in.take<uint8_t>() % std::size(sizes)];
  // READs land in the closed region, everything else comes from the open one.
  const bool inward = atomic || opcode == Opcode::read;
  std::byte* const base = inward ? f.closed : f.open;
  const uint32_t cut = std::min<uint32_t>(size, in.take<uint8_t>());
  const uint32_t key = inward ? f.closed_key : f.open_key;
  const Sge sges[] = {{base + 16, cut, LKey{key}}, {base + 2048, size - cut, LKey{key}}};
  SendRequest r;
  r.id = f.next_id;
  r.opcode = opcode;
  r.flags = flags & 1 ? SendFlags::signaled : SendFlags::none;
  if (flags & 2) r.flags = r.flags | SendFlags::fence;
  r.sges = sges;
  r.remote_address = 0x1000;
  if (opcode == Opcode::flush) r.sges = {}, r.flush.length = size;
  if (f.engine.post_send(*f.qp, {&r, 1}, f.now)) f.sends.push_back({f.next_id++, (flags & 1) != 0});
}

void answer(Fixture& f, Input& in) {
  static const std::vector<std::byte> payload(2 * Fixture::kMtu, std::byte{0x22});
  constexpr uint8_t kAnswers[] = {wire::kRcAcknowledge,       wire::kRcSelectiveAcknowledge,
                                  wire::kRcReadResponseFirst, wire::kRcReadResponseMiddle,
                                  wire::kRcReadResponseLast,  wire::kRcReadResponseOnly,
                                  wire::kRcAtomicAcknowledge};
  constexpr uint8_t kSyndromes[] = {0x1F, 0x00, 0x05, 0x1F, 0x1F, 0x21, 0x60,
                                    0x60, 0x61, 0x62, 0x63, 0x64, 0x7F, 0x40};
  test::Forgery p;
  p.bth.opcode = kAnswers[in.take<uint8_t>() % std::size(kAnswers)];
  if (f.type == QpType::xrc_initiator && p.bth.opcode < 0x20) p.bth.opcode |= 0xA0;
  p.bth.dest = f.qp->number;
  const auto delta = in.take<int8_t>();
  const uint32_t una = static_cast<uint32_t>(f.qp->req.una) & Psn::kMask;
  p.bth.psn = Psn{una} + static_cast<uint32_t>(delta % 32);
  const auto syndrome = in.take<uint8_t>();
  p.syndrome =
      syndrome < 200 ? kSyndromes[syndrome % 5] : kSyndromes[syndrome % std::size(kSyndromes)];
  p.msn = in.take<uint8_t>();
  p.first = in.take<uint16_t>();
  std::array<std::byte, 8> bitmap;
  if (wire::opcode_info(p.bth.opcode).sack) {
    p.expected = p.bth.psn + in.take<uint8_t>() % 8u;
    p.lost_end = p.expected + in.take<uint8_t>() % 32u;
    for (std::byte& bits : bitmap) bits = std::byte{in.take<uint8_t>()};
    p.payload = std::span(bitmap).first(in.take<uint8_t>() % 9u);
  } else if (wire::opcode_info(p.bth.opcode).payload) {
    const auto twist = in.take<uint8_t>();
    p.payload = std::span(payload).first(twist < 128 ? Fixture::kMtu : twist * 2u);
  }
  const transport::Path path = f.path();
  std::vector<std::byte> frame = test::forge(path, p);
  if (in.take<uint8_t>() == 1) frame.resize(in.take<uint16_t>() % (frame.size() + 1));
  // Nothing beyond what was sent is ever believed. //= threat:A07
  const uint64_t sent_end = f.qp->req.sent_end;
  f.give(path, frame);
  require(f.qp->req.una <= std::max(sent_end, f.qp->req.post_end) &&
              (f.qp->state == QpState::err || f.qp->req.una <= sent_end),
          "an answer was believed for what was never sent");
}

// READ and atomic results may be written to their buffers only.
bool strayed(const Fixture& f) {
  return !Fixture::marked(f.closed, 16) || !Fixture::marked(f.closed + 271, 2048 - 271) ||
         !Fixture::marked(f.closed + 4048, Fixture::kRegion - 4048);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in{data, size};
  const uint8_t shape = in.take_last();
  const QpType type = shape & 1 ? QpType::xrc_initiator : QpType::rc;
  Fixture f({.type = type, .selective = (shape & 2) != 0});
  const auto step = [&](uint8_t choice) {
    switch (choice % 8) {
      case 0:
      case 1:
        return post(f, in);
      case 2:
        return f.transmit();
      case 3:
        return f.pass_time(Duration::from_us(in.take<uint8_t>()));
      case 4:
        return f.recover();
      default:
        return answer(f, in);
    }
  };
  f.play(in, 400, step,
         [&f] { require(!strayed(f), "an answer was written outside of its buffers"); });
  require(Fixture::marked(f.open, Fixture::kRegion), "memory that is only sent from was written");
  return 0;
}
