// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary telemetry, which no ICRC protects. Bit 0 of the first byte selects: arbitrary bytes for
// find_int() and stamp_int() (in a heap buffer of exactly their size); or a requester whose
// congestion controller uses telemetry, with acknowledgements and reports that echo arbitrary
// blocks: rate and window stay within bounds and every request completes once.
#include <cmath>
#include <memory>

#include "lib/congestion/registry.hpp"
#include "tests/fuzz/engine_fixture.hpp"

namespace {

using namespace weft;
using fuzz::Fixture;
using fuzz::Input;
using fuzz::require;

void check_stamp(const uint8_t* data, size_t size) {
  const auto length = static_cast<uint32_t>(size);
  const std::unique_ptr<std::byte[]> bytes(new std::byte[size]), before(new std::byte[size]);
  if (size != 0) std::memcpy(bytes.get(), data, size);
  if (size != 0) std::memcpy(before.get(), data, size);
  const wire::IntBlock* const block = wire::find_int(bytes.get(), length);
  const wire::IntRecord record{1, 2, 3, 4};
  wire::stamp_int(bytes.get(), length, 0x0101, record);
  if (block == nullptr || block->is_echo() || before[2] == std::byte{0xFF}) {
    require(size == 0 || std::memcmp(bytes.get(), before.get(), size) == 0, "passes unchanged");
    return;
  }
  require(block->hops == static_cast<uint8_t>(before[2]) + 1, "one hop more");
  require(block->count() <= wire::kIntHops, "no more records than there is room for");
  const size_t rest = size - sizeof *block;
  require(rest == 0 || std::memcmp(&bytes[sizeof *block], &before[sizeof *block], rest) == 0,
          "nothing behind the block changes");
}

roce::EngineConfig config_of(uint8_t choice) {
  constexpr const char* kNames[] = {"hpcc", "powertcp", "dctcp", "hpcc-pint"};
  roce::EngineConfig config;
  config.congestion = *congestion::make_preset(
      kNames[choice % std::size(kNames)],
      {.line = Rate::from_gbps(10), .rtt = Duration::from_us(50), .network = {}});
  return config;
}

void post(Fixture& f, Input& in) {
  const uint32_t size = in.take<uint8_t>() * 8u;
  const Sge sge{f.open, size, LKey{f.open_key}};
  SendRequest r;
  r.id = f.next_id;
  r.opcode = Opcode::write;
  r.flags = SendFlags::signaled;
  r.sges = {&sge, 1};
  r.remote_address = 0x1000;
  if (f.engine.post_send(*f.qp, {&r, 1}, f.now)) f.sends.push_back({f.next_id++, true});
}

// A forged acknowledgement, or report of READ responses.
void acknowledge(Fixture& f, Input& in, bool report) {
  test::Forgery p;
  p.bth.opcode = report ? wire::kCnp : wire::kRcAcknowledge;
  p.bth.dest = f.qp->number;
  p.bth.psn = Psn{static_cast<uint32_t>(f.qp->req.una) & Psn::kMask} + in.take<uint8_t>() % 8u;
  transport::Path path = f.path();
  path.destination_port = wire::kIntUdpPort;
  std::vector<std::byte> frame = test::forge(path, p);
  wire::IntBlock block;
  if (in.take<uint8_t>() % 4 != 0) block = in.take<wire::IntBlock>();
  if (in.take<uint8_t>() % 8 != 0) block.version = wire::kIntVersion;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&block);
  frame.insert(frame.begin(), bytes, bytes + sizeof block);
  f.give(path, frame);
  if (!f.qp->req.pacer) return;
  const double rate = f.qp->req.pacer->rate();
  require(std::isfinite(rate) && rate >= 1e9 && rate <= 10e9, "the rate leaves its bounds");
  require(f.qp->req.pacer->window() >= 1, "the window is closed for ever");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in{data, size};
  const auto mode = in.take<uint8_t>();
  if (mode & 1) {
    check_stamp(in.at, in.left);
    return 0;
  }
  Fixture f({.config = config_of(mode >> 1), .telemetry = true});
  const auto step = [&](uint8_t choice) {
    switch (choice % 8) {
      case 0:
      case 1:
        return post(f, in);
      case 2:
      case 3:
        return f.transmit();
      case 4:
        return f.pass_time(Duration::from_us(in.take<uint8_t>()));
      default:
        return acknowledge(f, in, choice % 8 == 5);
    }
  };
  f.play(in, 200, step, [&f] { f.recover(); });
  return 0;
}
