// SPDX-License-Identifier: BSD-3-Clause
// What one small WRITE costs in instructions: two devices of one process, without threads or locks,
// bounce 8 bytes. Under callgrind the count has no noise and says where it goes:
//
//   valgrind --tool=callgrind --toggle-collect=bounce weft_cost roce+shm:cost 20000
//
// Divide by the number of WRITEs that it prints: the figure is both sides together, from post to
// the flag that the target sees, acknowledgements and completions included. srd+shm:cost likewise.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "weft/weft.hpp"

namespace {

using namespace weft;

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "weft_cost: %s\n", error.message.c_str());
  std::exit(1);
}

template <class T>
T need(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}

struct Side {
  explicit Side(const std::string& spec)
      : device(need(Device::open(spec + ",single_thread=1"))),
        pd(need(device.protection_domain())),
        cq(need(device.completion_queue({.capacity = 256}))),
        qp(need(
            pd.queue_pair({.type = device.attributes().qp_type, .send_cq = cq, .recv_cq = cq}))),
        region(need(pd.register_memory(memory, sizeof memory, Access::all))) {}

  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  QueuePair qp;
  alignas(64) uint64_t memory[16] = {};  // [0] is written by the peer, [8] is what we send
  MemoryRegion region;
};

void connect_pair(Side& a, Side& b) {
  Listener listener = need(Listener::listen("127.0.0.1:0"));
  std::thread accepting([&] { need(listener.accept(b.qp)); });
  need(weft::connect("127.0.0.1:" + std::to_string(listener.port()), a.qp));
  accepting.join();
}

void write_flag(Side& from, Side& to, uint64_t value, bool signaled) {
  from.memory[8] = value;
  const Sge source = from.region.sge(64, 8);
  SendRequest request{.opcode = Opcode::write, .sges = {&source, 1}};
  request.flags = signaled ? SendFlags::signaled : SendFlags::none;
  request.remote_address = reinterpret_cast<uint64_t>(to.memory);
  request.rkey = to.region.rkey();
  if (!from.qp.post_send(request)) std::exit(1);
}

void wait_for(Side& side, uint64_t value) {
  (void)side.device.wait_until(
      [&] { return __atomic_load_n(&side.memory[0], __ATOMIC_ACQUIRE) == value; });
}

}  // namespace

// Not in a namespace, so that callgrind finds it by this name.
extern "C" __attribute__((noinline)) void bounce(Side& a, Side& b, uint64_t count) {
  Completion done[16];
  for (uint64_t i = 1; i <= count; ++i) {
    const bool signaled = i % 32 == 0;
    write_flag(a, b, i, signaled);
    wait_for(b, i);
    write_flag(b, a, i, signaled);
    wait_for(a, i);
    if (!signaled) continue;
    while (a.cq.poll(done) == 0) b.device.progress();
    while (b.cq.poll(done) == 0) a.device.progress();
  }
}

int main(int argc, char** argv) {
  const std::string spec = argc > 1 ? argv[1] : "roce+shm:cost";
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20000;
  Side a(spec), b(spec);
  connect_pair(a, b);
  bounce(a, b, count);
  std::printf("%llu WRITEs of 8 B over %s\n", static_cast<unsigned long long>(2 * count),
              spec.c_str());
  return 0;
}
