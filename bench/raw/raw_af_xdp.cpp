// SPDX-License-Identifier: BSD-3-Clause
// What AF_XDP can do between two interfaces of this machine that are joined by a wire: the floor
// that roce+af_xdp is compared with. One process fills buffers (their headers only) and sends, the
// other receives, reads a header and gives the buffer back; no protocol.
//
//   raw_af_xdp --from w0 --to w1 --size 1082             frames and bytes per second that arrive
//   raw_af_xdp --from w0 --to w1 --size 64 --mode lat    median half round trip in us
//
// The rings are those of the port (providers/port/af_xdp/socket.hpp), which are the kernel's behind
// libxdp. A wire to try it with, as root: `ip link add w0 type veth peer name w1`, both up.
#include <net/if.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/perftest/command_line.hpp"
#include "bench/raw/raw_frames.hpp"
#include "lib/wire/encapsulation.hpp"
#include "providers/port/af_xdp/redirect.hpp"
#include "providers/port/af_xdp/socket.hpp"

namespace {

using namespace weft;
using port::af_xdp::Mode;
using port::af_xdp::Redirect;
using port::af_xdp::Socket;

constexpr size_t kBurst = 64;

struct Options {
  std::string from = "w0", to = "w1", mode = "bw";
  uint32_t size = 1082;
  uint32_t busy_poll_us = 0;
  double seconds = 1;
  Mode xdp = Mode::automatic;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "raw_af_xdp: %s\n", what.c_str());
  std::exit(1);
}

Gid address_of(int end) { return Gid::from_ipv4(10, 99, 0, static_cast<uint8_t>(end + 1)); }

struct End {
  std::unique_ptr<Socket> socket;
  Redirect redirect;
  std::array<std::byte, wire::kMaxOuterLength> header{};
  uint32_t header_length = 0;
  uint32_t size = 0;

  End(const Options& options, int end) : size(options.size) {
    const std::string& name = end == 0 ? options.from : options.to;
    Result<std::unique_ptr<Socket>> opened =
        Socket::open({.interface = name, .busy_poll_us = options.busy_poll_us});
    if (!opened) fail(opened.error().message);
    socket = *std::move(opened);
    Result<Redirect> attached =
        Redirect::attach({.interface = static_cast<int>(if_nametoindex(name.c_str())),
                          .socket = socket->fd(),
                          .address = address_of(end),
                          .mode = options.xdp});
    if (!attached) fail(attached.error().message);
    redirect = *std::move(attached);
    wire::Outer outer;
    outer.mac_destination.fill(0xFF);  // any receiver
    outer.source = address_of(end);
    outer.destination = address_of(1 - end);
    outer.source_port = 0xC000;
    outer.destination_port = 4791;
    outer.hop_limit = 64;
    header_length =
        static_cast<uint32_t>(wire::emit_outer(header.data(), outer, size > 42 ? size - 42 : 0));
  }

  size_t send(size_t wanted) {
    std::array<uint32_t, kBurst> lengths;
    const size_t room = socket->allocate_buffers(wanted);
    for (size_t i = 0; i < room; ++i) {
      std::copy_n(header.data(), header_length, socket->buffer(i));
      lengths[i] = std::max(size, header_length);
    }
    socket->send({lengths.data(), room});
    return room;
  }

  size_t receive() {
    std::array<Socket::Arrival, kBurst> arrivals;
    const size_t count = socket->receive(arrivals);
    unsigned seen = 0;
    for (size_t i = 0; i < count; ++i) seen += static_cast<unsigned>(arrivals[i].bytes[42 - 1]);
    if (seen == 0xFFFFFFFF) std::puts("");  // so that the bytes are read
    socket->recycle({arrivals.data(), count});
    if (count == 0 && socket->unsent()) socket->wake_transmitter();
    return count;
  }
};

constexpr uint32_t kMostBytes = Socket::kBufferSize - Socket::kHeadroom;  // one buffer a frame

Options parse(int argc, char** argv) {
  Options o;
  std::string xdp = "automatic";
  CLI::App app("raw_af_xdp: what AF_XDP reaches between two interfaces joined by a wire.");
  app.option_defaults()->always_capture_default();
  app.add_option("--from", o.from, "Interface of the sender");
  app.add_option("--to", o.to, "Interface of the receiver");
  app.add_option("--mode", o.mode, "bw: a stream of frames; lat: half a round trip")
      ->check(CLI::IsMember({"bw", "lat"}));
  app.add_option("--size", o.size, "Bytes of a frame")->check(CLI::Range(42u, kMostBytes));
  app.add_option("--seconds", o.seconds, "Time to measure");
  app.add_option("--busy-poll", o.busy_poll_us, "SO_BUSY_POLL in microseconds; 0: none");
  app.add_option("--xdp", xdp, "Mode of the XDP program")
      ->check(CLI::IsMember({"automatic", "native", "generic"}));
  if (const auto ended = bench::read_command_line(app, argc, argv)) std::exit(*ended);
  if (xdp != "automatic") o.xdp = xdp == "native" ? Mode::native : Mode::generic;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const bench::RawRun run{options.mode == "lat", options.size, options.seconds};
  return bench::run_raw(
      run, [&](int end) { return End(options, end); }, [](End&) {});
}
