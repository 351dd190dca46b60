// SPDX-License-Identifier: BSD-3-Clause
// The shm port alone, without the engine: what a frame costs between two processes pinned on cores
// 0 and 1. Against raw_shm it shows the price of the port, against weft_write_lat the price of the
// engine.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "providers/port/shm/shm_port.hpp"

namespace {

using weft::Gid;
using weft::transport::Frame;
using weft::transport::Path;
using weft::transport::Port;
using weft::transport::PortOptions;
using weft::transport::Span;
using weft::transport::TxFrame;

constexpr uint32_t kHeader = 28;
constexpr int kBatches = 300;
constexpr size_t kWindow = 16;  // payload buffers that are used in turn

struct End {
  std::unique_ptr<Port> port;
  Path path;
  std::vector<std::byte> memory;
  size_t turn = 0;
  uint64_t by_reference = 0;
  uint64_t taken = 0;  // frames received before a call waited for them
  std::array<TxFrame, 64> burst;
  std::array<Span, 64> spans;
  std::array<Frame, 64> frames;
};

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core % static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  sched_setaffinity(0, sizeof set, &set);
}

double now_ns() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::nanoseconds(t).count());
}

void send(End& end, uint32_t frames, uint32_t payload, bool staged) {
  static std::byte head[128];
  for (uint32_t i = 0; i < frames; ++i) {
    end.burst[i].path = &end.path;
    end.burst[i].head = head;
    end.burst[i].head_length = kHeader + (staged ? payload : 0);
    end.burst[i].header_length = kHeader;
    end.burst[i].span_count = 0;
    end.burst[i].payload_length = 0;
    if (staged) continue;
    end.spans[i] = {end.memory.data() + end.turn++ % kWindow * payload, payload};
    end.burst[i].payload_length = payload;
    end.burst[i].spans = &end.spans[i];
    end.burst[i].span_count = 1;
    end.burst[i].stable = true;
  }
  size_t sent = 0;
  while (sent < frames)
    sent += end.port->transmit(std::span(end.burst.data(), frames).subspan(sent));
}

// Receives frames; returns their number.
uint64_t take(End& end) {
  const size_t count = end.port->receive(end.frames);
  for (size_t i = 0; i < count; ++i) {
    const Frame& frame = end.frames[i];
    const uint32_t payload = frame.more_length + frame.remote_length;
    if (payload == 0) continue;
    std::byte* to = end.memory.data() + end.turn++ % kWindow * payload;
    if (frame.remote != nullptr) {
      end.by_reference += frame.remote->pull(to, frame.remote_address, payload);
    } else {
      if (!weft::memory::copy_in(to, frame.more, payload)) std::exit(1);
    }
  }
  if (count != 0) end.port->release(std::span(end.frames.data(), count));
  return count;
}

void take_all(End& end, uint64_t frames) {
  while (end.taken < frames) end.taken += take(end);
  end.taken -= frames;
}

// Opens a port in each of two processes, exchanges their addresses, and runs both sides.
template <class Near, class Far>
void measure(const PortOptions& options, size_t payload, Near near, Far far) {
  int to_parent[2], to_child[2];
  if (pipe(to_parent) != 0 || pipe(to_child) != 0) std::exit(1);
  const pid_t child = fork();
  const int in = child == 0 ? to_child[0] : to_parent[0];
  const int out = child == 0 ? to_parent[1] : to_child[1];
  pin(child == 0 ? 1 : 0);
  End end;
  auto opened = weft::port::open_shm_port(options);
  if (!opened) {
    std::fprintf(stderr, "raw_shm_port: %s\n", opened.error().message.c_str());
    std::exit(1);
  }
  end.port = *std::move(opened);
  end.memory.assign(std::max<size_t>(payload * kWindow, 4096), std::byte{1});
  end.path.source = end.port->address();
  if (write(out, &end.path.source, sizeof(Gid)) != sizeof(Gid) ||
      read(in, &end.path.destination, sizeof(Gid)) != sizeof(Gid))
    std::exit(1);
  // Establish the links, then let both sides process the link messages.
  send(end, 1, 8, true);
  take_all(end, 1);
  for (int i = 0; i < 2; ++i) {
    char byte = 0;
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) std::exit(1);
    for (int k = 0; k < 3000 && i == 0; ++k) take(end);
  }
  if (child == 0) {
    far(end);
    // Does not exit before the other side has all answers.
    char byte;
    (void)!read(in, &byte, 1);
    _exit(0);
  }
  near(end);
  (void)!write(out, "", 1);
  waitpid(child, nullptr, 0);
  for (const int fd : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) close(fd);
}

// The best of many short batches: on a shared machine most are disturbed.
template <class Batch>
double best_of(int batches, Batch batch) {
  double best = 1e18;
  for (int i = 0; i < batches; ++i) {
    const double begin = now_ns();
    batch();
    best = std::min(best, now_ns() - begin);
  }
  return best;
}

double half_round_trip(const PortOptions& options, uint32_t payload, bool staged, int rounds) {
  double best = 0;
  const auto near = [&](End& end) {
    best = best_of(kBatches, [&] {
      for (int i = 0; i < rounds; ++i) {
        send(end, 1, payload, staged);
        take_all(end, 1);
      }
    });
  };
  const auto far = [=](End& end) {
    for (int i = 0; i < rounds * kBatches; ++i) {
      take_all(end, 1);
      send(end, 1, payload, staged);
    }
  };
  measure(options, payload, near, far);
  return best / rounds / 2;
}

// Frames per nanosecond; a credit frame comes back for every burst, at most `ahead` are in flight.
double rate(const PortOptions& options, uint32_t payload, bool staged, uint32_t burst, int bursts) {
  constexpr uint64_t kAhead = 4;
  double best = 0;
  const auto near = [&](End& end) {
    for (uint64_t i = 0; i < kAhead; ++i) send(end, burst, payload, staged);
    best = best_of(kBatches, [&] {
      for (int i = 0; i < bursts; ++i) {
        take_all(end, 1);
        send(end, burst, payload, staged);
      }
    });
    take_all(end, kAhead);
  };
  const auto far = [=](End& end) {
    uint64_t got = 0, credits = 0;
    while (credits < static_cast<uint64_t>(bursts) * kBatches + kAhead) {
      got += take(end);
      for (; got >= burst; got -= burst, ++credits) send(end, 1, 8, true);
    }
  };
  measure(options, payload, near, far);
  return static_cast<double>(burst) * bursts / best;
}

}  // namespace

int main(int argc, char** argv) {
  PortOptions options;
  bool json = false;
  options.where = "raw" + std::to_string(getpid());
  std::vector<std::string> keys;
  CLI::App app("raw_shm_port: what the port shm reaches between two processes, without an engine.");
  app.add_flag("--json", json, "Print JSON");
  app.add_option("keys", keys, "KEY=VALUE of the port (default: the port's values)");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  for (const std::string& key : keys) {
    const size_t equals = key.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "raw_shm_port: '%s' is not KEY=VALUE\n", key.c_str());
      return 2;
    }
    options.options.push_back({key.substr(0, equals), key.substr(equals + 1)});
  }
  const char* separator = "{";
  const auto report = [&](const char* name, double value, const char* unit) {
    if (json) {
      std::printf("%s\"%s\": {\"value\": %.3f, \"unit\": \"%s\"}", separator, name, value, unit);
      separator = ", ";
    } else {
      std::printf("%-22s %10.2f %s\n", name, value, unit);
    }
    std::fflush(stdout);
  };
  report("frame_36_half_trip", half_round_trip(options, 8, true, 1000), "ns");
  report("frame_4k_half_trip", half_round_trip(options, 4096, false, 200), "ns");
  report("frame_64k_half_trip", half_round_trip(options, 65536, false, 10), "ns");
  report("frame_36_rate", rate(options, 8, true, 32, 2000) * 1e3, "M/s");
  for (const uint32_t size : {4096u, 16384u, 65536u, 262144u, 1048576u}) {
    const std::string name = "stream_" + std::to_string(size / 1024) + "k";
    const uint32_t burst = size < 65536 ? 2 : 1;
    const int bursts = static_cast<int>((8u << 20) / size / burst);
    report(name.c_str(), rate(options, size, false, burst, bursts) * size, "GB/s");
  }
  if (json) std::printf("}\n");
  return 0;
}
