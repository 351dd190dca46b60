// SPDX-License-Identifier: BSD-3-Clause
// Two devices owned by one thread (single_thread=1: no locks, no library threads), with a queue
// pair and memory each: for programs that measure the processor cost of a WRITE, not its latency.
// Errors end the program with a message.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "weft/weft.hpp"

namespace weft::bench {

[[noreturn]] inline void fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(1);
}

template <class T>
T need(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}

struct Side {
  explicit Side(const std::string& spec, size_t words = 16)
      : Side(need(Device::open(spec.starts_with("ibverbs") ? spec : spec + ",single_thread=1")), 0,
             words) {}
  // On an engine of a shared device: with locks.
  Side(Device shared, uint32_t engine, size_t words)
      : device(std::move(shared)),
        pd(need(device.protection_domain())),
        cq(need(device.completion_queue({.capacity = 256, .engine = engine}))),
        qp(need(
            pd.queue_pair({.type = device.attributes().qp_type, .send_cq = cq, .recv_cq = cq}))),
        memory(new Line[(words + 7) / 8]),
        region(
            need(pd.register_memory(memory.get(), (words + 7) / 8 * sizeof(Line), Access::all))) {}
  uint64_t* word(size_t i) const { return &memory[i / 8].words[i % 8]; }

  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  QueuePair qp;
  struct alignas(64) Line {
    uint64_t words[8] = {};
  };
  std::unique_ptr<Line[]> memory;
  MemoryRegion region;
};

// A first WRITE of zeros onto zeros. Over Ethernet ports each end resolves the other's MAC address,
// and must be polled for that.
inline void find_way(Side& from, Side& to) {
  const Sge source = from.region.sge(0, 8);
  SendRequest request{.opcode = Opcode::write, .sges = {&source, 1}};
  request.remote_address = reinterpret_cast<uint64_t>(to.word(0));
  request.rkey = to.region.rkey();
  if (!from.qp.post_send(request)) std::exit(1);
  Completion done;
  while (from.cq.poll({&done, 1}) == 0) to.device.progress();
}

inline void connect_pair(Side& a, Side& b) {
  Listener listener = need(Listener::listen("127.0.0.1:0"));
  std::thread accepting([&] { need(listener.accept(b.qp)); });
  need(weft::connect("127.0.0.1:" + std::to_string(listener.port()), a.qp));
  accepting.join();
  find_way(a, b);
  find_way(b, a);
}

}  // namespace weft::bench
