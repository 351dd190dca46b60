// SPDX-License-Identifier: BSD-3-Clause
// What the kernel's UDP sockets can do between two spinning processes, each on its own core: the
// floors that the gates of roce+udp compare with. It uses nothing of weft
// that moves data.
//
//   raw_udp --mode lat  --size 8         ping-pong; median half round trip in us
//   raw_udp --mode bw   --size 4112      stream of GSO trains of --size segments, received with GRO
//   raw_udp --mode rate --size 36        the same, in segments per second
//   raw_udp --train 1                    one datagram per segment (sendmmsg and recvmmsg)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "bench/raw/raw_frames.hpp"

namespace {

using weft::bench::seconds_now;

struct Options {
  std::string mode = "lat";
  uint32_t size = 8;
  uint32_t train = 0;  // segments per send, 0 = as many as fit
  uint32_t window = 512 * 1024;
  uint32_t buffer = 64 * 1024;
  double seconds = 1;
  int cores[2] = {0, 1};
  bool connect = false;
  bool json = false;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "raw_udp: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void pin(int core) {
  if (!weft::bench::pin(core)) fail("pinning to a core");
}

// Shared by both processes: the result, and the flag that ends the run.
struct Board {
  double value = 0;
  volatile bool stop = false;
};

struct Side {
  int fd = -1;
  sockaddr_in self{};
  sockaddr_in peer{};
};

Side open_side() {
  Side side;
  side.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (side.fd < 0) fail("socket");
  side.self.sin_family = AF_INET;
  side.self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(side.fd, reinterpret_cast<sockaddr*>(&side.self), sizeof side.self) != 0) fail("bind");
  socklen_t length = sizeof side.self;
  getsockname(side.fd, reinterpret_cast<sockaddr*>(&side.self), &length);
  int bytes = 8 << 20;
  if (setsockopt(side.fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(side.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(side.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return side;
}

void connect_side(const Side& side) {
  if (connect(side.fd, reinterpret_cast<const sockaddr*>(&side.peer), sizeof side.peer) != 0)
    fail("connect");
}

void send_to_peer(const Side& side, const void* data, size_t size, bool connected) {
  const auto* name = reinterpret_cast<const sockaddr*>(&side.peer);
  while (sendto(side.fd, data, size, MSG_DONTWAIT, connected ? nullptr : name,
                connected ? 0 : sizeof side.peer) < 0) {
    if (errno != EAGAIN && errno != ECONNREFUSED) fail("sendto");
  }
}

// Spins until a datagram is here; false when the run is over.
bool spin_receive(const Side& side, void* data, size_t size, const Board& board) {
  while (recv(side.fd, data, size, MSG_DONTWAIT) < 0)
    if (board.stop) return false;
  return true;
}

void ping(const Side& side, const Options& options, Board& board) {
  std::vector<char> data(options.size);
  std::vector<double> halves;
  halves.reserve(8'000'000);
  for (int i = 0; i < 2000; ++i) {
    send_to_peer(side, data.data(), data.size(), options.connect);
    spin_receive(side, data.data(), data.size(), board);
  }
  const double end = seconds_now() + options.seconds;
  double before = seconds_now();
  while (before < end && halves.size() < halves.capacity()) {
    send_to_peer(side, data.data(), data.size(), options.connect);
    spin_receive(side, data.data(), data.size(), board);
    const double after = seconds_now();
    halves.push_back((after - before) * 0.5e6);
    before = after;
  }
  std::nth_element(halves.begin(), halves.begin() + static_cast<std::ptrdiff_t>(halves.size() / 2),
                   halves.end());
  board.value = halves[halves.size() / 2];
  board.stop = true;
}

void pong(const Side& side, const Options& options, Board& board) {
  std::vector<char> data(options.size);
  while (spin_receive(side, data.data(), data.size(), board))
    send_to_peer(side, data.data(), data.size(), options.connect);
}

constexpr uint32_t kBatch = 32;

// One batch of messages, sent or received with one call.
struct Batch {
  mmsghdr headers[kBatch];
  iovec pieces[kBatch];
  alignas(cmsghdr) char control[kBatch][CMSG_SPACE(sizeof(int))];

  Batch() { std::memset(this, 0, sizeof *this); }
  void set(uint32_t i, void* data, size_t size, const sockaddr_in* name) {
    pieces[i] = {data, size};
    headers[i].msg_hdr.msg_iov = &pieces[i];
    headers[i].msg_hdr.msg_iovlen = 1;
    headers[i].msg_hdr.msg_name = const_cast<sockaddr_in*>(name);
    headers[i].msg_hdr.msg_namelen = name ? sizeof *name : 0;
  }
  void segment(uint32_t i, uint16_t size) {
    headers[i].msg_hdr.msg_control = control[i];
    headers[i].msg_hdr.msg_controllen = CMSG_SPACE(sizeof(uint16_t));
    cmsghdr* c = CMSG_FIRSTHDR(&headers[i].msg_hdr);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof size);
    std::memcpy(CMSG_DATA(c), &size, sizeof size);
  }
};

// Streams until the time is over; stays at most `window` bytes ahead of what the receiver reported.
void source(const Side& side, const Options& options, uint32_t train, Board& board) {
  const bool gso = train > 1;
  const size_t bytes = static_cast<size_t>(options.size) * train;
  const uint32_t messages = gso ? 1 : kBatch;
  std::vector<char> memory(std::max<size_t>(options.buffer, bytes * messages), 'x');
  Batch batch;
  const sockaddr_in* name = options.connect ? nullptr : &side.peer;
  uint64_t sent = 0;
  uint64_t reported = 0;
  size_t offset = 0;
  double report_at = seconds_now();
  const double end = report_at + options.seconds;
  while (true) {
    uint64_t report = 0;
    if (recv(side.fd, &report, sizeof report, MSG_DONTWAIT) == sizeof report) {
      reported = std::max(reported, report);
      report_at = seconds_now();
      if (report_at > end) break;
    }
    if (sent - reported >= options.window) {
      if (seconds_now() - report_at > 0.01)
        sent = reported, report_at = seconds_now();  // it was lost
      continue;
    }
    for (uint32_t i = 0; i < messages; ++i) {
      if (offset + bytes > memory.size()) offset = 0;
      batch.set(i, memory.data() + offset, bytes, name);
      if (gso) batch.segment(i, static_cast<uint16_t>(options.size));
      offset += bytes;
    }
    const int n = sendmmsg(side.fd, batch.headers, messages, MSG_DONTWAIT);
    if (n > 0) sent += bytes * static_cast<uint64_t>(n);
  }
  board.stop = true;
}

void sink(const Side& side, const Options& options, Board& board) {
  const int on = 1;
  setsockopt(side.fd, SOL_UDP, UDP_GRO, &on, sizeof on);
  const bool gso = options.train != 1;
  const uint32_t messages = gso ? 1 : kBatch;
  std::vector<char> memory(messages * size_t{65536});
  Batch batch;
  for (uint32_t i = 0; i < messages; ++i) batch.set(i, memory.data() + i * 65536, 65536, nullptr);
  uint64_t bytes = 0;
  uint64_t reported = 0;
  double begin = 0;
  while (!board.stop) {
    const int n = recvmmsg(side.fd, batch.headers, messages, MSG_DONTWAIT, nullptr);
    if (n <= 0) continue;
    if (begin == 0) begin = seconds_now();
    for (int i = 0; i < n; ++i) bytes += batch.headers[i].msg_len;
    if (bytes - reported >= options.window / 8) {
      reported = bytes;
      send_to_peer(side, &bytes, sizeof bytes, options.connect);
    }
  }
  const double elapsed = seconds_now() - begin;
  const auto amount = static_cast<double>(bytes);
  board.value = (options.mode == "bw" ? amount / 1e9 : amount / options.size / 1e6) / elapsed;
}

Options parse(int count, char** words) {
  Options o;
  std::vector<int> cores = {o.cores[0], o.cores[1]};
  CLI::App app("raw_udp: what two processes with a UDP socket each reach, without a transport.");
  app.option_defaults()->always_capture_default();
  app.add_option("--mode", o.mode,
                 "lat: half a round trip; bw: a stream of trains; rate: the same, in segments")
      ->check(CLI::IsMember({"lat", "bw", "rate"}));
  app.add_option("--size", o.size, "Bytes of a datagram or segment")->check(CLI::Range(1, 65507));
  app.add_option("--train", o.train, "Segments of a GSO train; 0: as many as fit; 1: datagrams");
  app.add_option("--window", o.window, "Bytes in flight");
  app.add_option("--buffer", o.buffer, "Bytes that the sender walks through");
  app.add_option("--seconds", o.seconds, "Time to measure");
  app.add_option("--cores", cores, "Processors of the two processes")->delimiter(',')->expected(2);
  app.add_option("--connect", o.connect, "1: the sockets are connected");
  app.add_flag("--json", o.json, "Print JSON");
  if (const auto ended = weft::bench::read_command_line(app, count, words)) std::exit(*ended);
  std::copy_n(cores.begin(), 2, o.cores);
  return o;
}

// The segments of the largest train: what fits a datagram, and what this kernel takes.
uint32_t largest_train(const Side& side, const Options& options) {
  const uint32_t fit = std::max(1u, std::min(128u, 65507 / options.size));
  if (fit <= 64) return fit;
  std::vector<char> data(size_t{options.size} * fit);
  Batch batch;
  batch.set(0, data.data(), data.size(), &side.self);
  batch.segment(0, static_cast<uint16_t>(options.size));
  if (sendmsg(side.fd, &batch.headers[0].msg_hdr, MSG_DONTWAIT) < 0) return 64;
  while (recv(side.fd, data.data(), data.size(), MSG_DONTWAIT) >= 0) continue;
  return fit;
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  Board& board = *new (memory) Board;
  Side sides[2] = {open_side(), open_side()};
  sides[0].peer = sides[1].self;
  sides[1].peer = sides[0].self;
  const uint32_t train = options.train ? options.train : largest_train(sides[0], options);
  if (options.connect) {
    connect_side(sides[0]);
    connect_side(sides[1]);
  }
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    pin(options.cores[1]);
    if (options.mode == "lat")
      pong(sides[1], options, board);
    else
      sink(sides[1], options, board);
    _exit(0);
  }
  pin(options.cores[0]);
  if (options.mode == "lat")
    ping(sides[0], options, board);
  else
    source(sides[0], options, train, board);
  waitpid(child, nullptr, 0);
  const char* unit = options.mode == "lat" ? "us" : options.mode == "bw" ? "GB/s" : "M/s";
  if (options.json)
    std::printf(
        "{\"bench\": \"raw_udp\", \"mode\": \"%s\", \"size\": %u, \"train\": %u, "
        "\"value\": %.4f, \"unit\": \"%s\"}\n",
        options.mode.c_str(), options.size, train, board.value, unit);
  else
    std::printf("raw_udp %-4s %6u B  train %3u  %9.3f %s\n", options.mode.c_str(), options.size,
                train, board.value, unit);
  return 0;
}
