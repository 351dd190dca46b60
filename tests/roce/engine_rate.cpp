// SPDX-License-Identifier: BSD-3-Clause
// The packet rate of the engine alone: two engines on the simulated network, without faults, hash
// or model, on one core. A packet counts once, from the requester's post over both engines to the
// completion; answers count as packets too. Seconds are those that the process had a processor.
//
//   sim_engine_rate [SECONDS_PER_CASE] [SIZE]
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/virtual_time/pair.hpp"

namespace {

using namespace weft;

// Seconds of this process on a processor: what others do on the machine hardly matters.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Case {
  const char* name;
  Opcode opcode;
  uint32_t size;
  uint32_t depth;
};

struct Figures {
  uint64_t requests = 0, packets = 0;
  double seconds = 0;
};

class Bench {
 public:
  explicit Bench(const Case& c) : case_(c), pair_(options(c)) {
    pair_.world.network().hash_arrivals(false);
    receives_ = c.opcode == Opcode::send;
    for (uint32_t i = 0; receives_ && i < 512; ++i) post_receive();
    pair_.station_a.driver().after_turn([this](Instant) { refill(); });
    pair_.station_b.driver().after_turn([this](Instant) { take_received(); });
  }

  Figures run(double seconds) {
    refill();
    pair_.station_a.driver().kick();
    run_for(seconds / 4);  // warm up
    const uint64_t requests = completed_, packets = pair_.world.network().packets();
    const double begin = cpu_seconds();
    run_for(seconds);
    Figures rate;
    rate.seconds = cpu_seconds() - begin;
    rate.requests = completed_ - requests;
    rate.packets = pair_.world.network().packets() - packets;
    return rate;
  }

 private:
  static test::PairOptions options(const Case& c) {
    test::PairOptions o;
    o.connect.mtu = 4096;
    o.connect.timeout = 14;
    o.qp_a.max_send_wr = c.depth;
    o.qp_b.max_recv_wr = 512;
    o.qp_a.max_inline = 64;
    for (test::StationOptions* s : {&o.station_a, &o.station_b}) {
      s->turns.turn = Duration::from_us(1);
      s->engine.credits = false;
      s->memory = 4u << 20;
    }
    o.link.queue_bytes = 4u << 20;
    return o;
  }

  void run_for(double seconds) {
    const double end = cpu_seconds() + seconds;
    do {
      for (int i = 0; i < 5000; ++i) pair_.world.network().events().step();
    } while (cpu_seconds() < end);
  }

  void refill() {
    Completion done[64];
    while (const size_t n = pair_.a.send_cq().pop(done)) completed_ += n;
    const Sge sge = pair_.station_a.sge(0, case_.size);
    SendRequest r = pair_.request(case_.opcode, 0, {&sge, 1}, 1u << 20);
    r.compare_add = 1;
    roce::QueuePair& qp = pair_.a.qp();
    while (!qp.sq.full())
      if (!pair_.station_a.engine().post_send(qp, {&r, 1}, pair_.world.now())) std::abort();
    pair_.station_a.driver().kick();
  }

  void post_receive() {
    const Sge sge = pair_.station_b.sge(0, case_.size);
    if (!pair_.station_b.engine().post_recv(pair_.b.qp(), {{RecvRequest{0, {&sge, 1}}}}))
      std::abort();
  }

  void take_received() {
    Completion done[64];
    while (const size_t n = pair_.b.recv_cq().pop(done))
      for (size_t i = 0; i < n; ++i) post_receive();
  }

  const Case case_;
  test::Pair pair_;
  bool receives_ = false;
  uint64_t completed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  const uint32_t only = argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 0;
  const Case cases[] = {
      {"write", Opcode::write, 8, 128},    {"send", Opcode::send, 8, 128},
      {"read", Opcode::read, 8, 128},      {"fetch_add", Opcode::fetch_add, 8, 128},
      {"write", Opcode::write, 4096, 128}, {"send", Opcode::send, 4096, 128},
      {"read", Opcode::read, 4096, 128},   {"write", Opcode::write, 1u << 20, 16},
  };
  std::printf("%-10s %9s %12s %12s %10s\n", "operation", "bytes", "requests/s", "packets/s",
              "GB/s");
  for (const Case& c : cases) {
    if (only != 0 && c.size != only) continue;
    const Figures r = Bench(c).run(seconds);
    const auto requests = static_cast<double>(r.requests), packets = static_cast<double>(r.packets);
    std::printf("%-10s %9u %12.0f %12.0f %10.3f\n", c.name, c.size, requests / r.seconds,
                packets / r.seconds, requests * c.size / r.seconds * 1e-9);
  }
  return 0;
}
