// SPDX-License-Identifier: BSD-3-Clause
// What a DPDK device that joins two processes can do: the floor that roce+dpdk is compared with.
// One process fills buffers (their first bytes only) and sends, the other receives, reads a header
// and frees the buffer; no protocol.
//
//   raw_dpdk --device net_memif,dpdk.socket=/tmp/m --size 64 --mode lat    median half round trip
//   raw_dpdk --device net_vhost,dpdk.iface=/tmp/v --size 4140              frames and bytes per
//                                                                          second that arrive
//   --work yes         payload comes from and goes to memory of the user, with an ICRC: the sender
//                      copies and sums in one pass, the receiver sums, then copies
//
// Devices, their buffers and rings are those of the port (providers/port/dpdk/device.hpp); both
// processes open the same one.
#include <rte_mbuf.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "bench/raw/raw_frames.hpp"
#include "lib/wire/icrc.hpp"
#include "providers/port/dpdk/device.hpp"

namespace {

using namespace weft;
using port::dpdk::Device;

constexpr uint16_t kBurst = 64;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "raw_dpdk: %s\n", what.c_str());
  std::exit(1);
}

constexpr size_t kMemory = 65536;  // of the user, on each side

struct End {
  std::shared_ptr<Device> device;
  uint16_t size = 64;
  std::vector<std::byte> memory;  // empty: payload is left alone
  size_t at = 0;

  std::byte* next_piece() {
    at = at + 2 * size > memory.size() ? 0 : at + size;
    return memory.data() + at;
  }
  void fill(std::byte* frame) {
    const uint32_t payload = size - 64u - 4u;
    const uint32_t crc = wire::crc_copy(~0u, frame + 64, next_piece(), payload);
    std::memcpy(frame + 64 + payload, &crc, sizeof crc);
  }
  void place(const std::byte* frame) {
    const uint32_t payload = size - 64u - 4u;
    uint32_t sent;
    std::memcpy(&sent, frame + 64 + payload, sizeof sent);
    if (wire::crc_continue(~0u, frame + 64, payload) != sent) fail("a frame was damaged");
    std::memcpy(next_piece(), frame + 64, payload);
  }

  size_t send(size_t wanted) {
    std::array<rte_mbuf*, kBurst> frames;
    const auto count = static_cast<uint16_t>(wanted);
    if (rte_pktmbuf_alloc_bulk(device->pool(0), frames.data(), count) != 0) return 0;
    for (uint16_t i = 0; i < count; ++i) {
      std::memset(rte_pktmbuf_append(frames[i], size), static_cast<int>(i), 64);
      if (!memory.empty()) fill(rte_pktmbuf_mtod(frames[i], std::byte*));
    }
    const uint16_t sent = device->send(0, frames.data(), count);
    rte_pktmbuf_free_bulk(&frames[sent], static_cast<unsigned>(count - sent));
    return sent;
  }

  size_t receive() {
    std::array<rte_mbuf*, kBurst> frames;
    const uint16_t count = device->receive(0, frames.data(), kBurst);
    unsigned seen = 0;
    for (uint16_t i = 0; i < count; ++i) {
      seen += *rte_pktmbuf_mtod(frames[i], unsigned char*);
      if (!memory.empty()) place(rte_pktmbuf_mtod(frames[i], const std::byte*));
    }
    if (seen == 0xFFFFFFFF) std::puts("");  // so that the bytes are read
    rte_pktmbuf_free_bulk(frames.data(), count);
    return count;
  }
};

struct Options {
  transport::PortOptions device{"net_memif", {}};
  bench::RawRun run;
  bool work = false;
};

// "net_memif,dpdk.socket=/tmp/m" as in a device string.
transport::PortOptions parse_device(const std::string& text) {
  transport::PortOptions options;
  size_t end = text.find(',');
  options.where = text.substr(0, end);
  while (end != std::string::npos) {
    const size_t begin = end + 1, equals = text.find('=', begin);
    end = text.find(',', begin);
    if (text.compare(begin, 5, "dpdk.") != 0 || equals == std::string::npos)
      fail("--device: " + text + " is not DRIVER,dpdk.KEY=VALUE,...");
    options.options.emplace_back(text.substr(begin + 5, equals - begin - 5),
                                 text.substr(equals + 1, end - equals - 1));
  }
  return options;
}

Options parse(int argc, char** argv) {
  Options o;
  std::string device = "net_memif", mode = "bw", work = "no";
  CLI::App app("raw_dpdk: what a DPDK device reaches between two processes, without a transport.");
  app.option_defaults()->always_capture_default();
  app.add_option("--device", device, "As in a device string: DRIVER,dpdk.KEY=VALUE,...");
  app.add_option("--mode", mode, "bw: a stream of frames; lat: half a round trip")
      ->check(CLI::IsMember({"bw", "lat"}));
  app.add_option("--size", o.run.size, "Bytes of a frame")->check(CLI::Range(64, 4200));
  app.add_option("--work", work, "yes: payload is copied and summed on both sides")
      ->check(CLI::IsMember({"yes", "no"}));
  app.add_option("--seconds", o.run.seconds, "Time to measure");
  if (const auto ended = bench::read_command_line(app, argc, argv)) std::exit(*ended);
  o.device = parse_device(device);
  o.run.latency = mode == "lat";
  o.work = work == "yes";
  if (o.work && o.run.size < 68) fail("--work yes: a --size of 68 at least");
  return o;
}

End open_end(const Options& options) {
  const Result<port::dpdk::Options> parsed = port::dpdk::parse_options(options.device);
  if (!parsed) fail(parsed.error().message);
  Result<std::shared_ptr<Device>> device = Device::open(*parsed);
  if (!device) fail(device.error().message);
  return {*std::move(device), static_cast<uint16_t>(options.run.size),
          std::vector<std::byte>(options.work ? kMemory : 0)};
}

// Until the other end is there too.
void await_link(End& end) {
  for (int ms = 0; ms < 5000 && !end.device->link_is_up(); ++ms) usleep(1000);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  return bench::run_raw(
      options.run, [&](int) { return open_end(options); }, await_link);
}
