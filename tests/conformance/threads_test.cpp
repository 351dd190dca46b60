// SPDX-License-Identifier: BSD-3-Clause
// Every call from any thread at any time: many threads post on one queue pair, poll one queue, arm
// and sleep, modify, query, create and destroy, all at once. Also for ThreadSanitizer.
// //= roce:C-EVT-112
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

struct Stage {
  explicit Stage(Wire wire)
      : p(wire, {.qp = {.max_send_wr = 64, .max_recv_wr = 256}, .cq_capacity = 4096}) {}
  Pair p;
  Buffer near{p.a, 8 * 4096};
  Buffer far{p.b, 8 * 4096};
  const QpType type = p.a.device.attributes().qp_type;
  const uint64_t per_thread = scaled(4000);
  std::atomic<uint64_t> posted{0}, completed{0}, wrong{0}, received{0};
  std::atomic<bool> stop{false};
  Deadline deadline{Duration::from_s(60)};

  bool over() const { return stop.load() || deadline.passed(); }
};

// Posts WRITEs, READs and SENDs of its own part of the memory on the queue pair that all share.
void post(Stage& s, size_t index) {
  const Sge piece = s.near.sge(index * 4096, 512);
  for (uint64_t i = 0; i < s.per_thread && !s.over();) {
    SendRequest r{.id = index,
                  .opcode = i % 3 == 0 ? Opcode::read : Opcode::write,
                  .sges = {&piece, 1},
                  .remote_address = s.far.address(index * 4096),
                  .rkey = s.far.region.rkey()};
    if (i % 8 == 1) r.opcode = Opcode::send;
    const PostStatus status = s.p.qa.post_send(r);
    if (status.code == Code::queue_full) {
      std::this_thread::yield();
      continue;
    }
    s.wrong += !status;
    s.posted += status.accepted;
    ++i;
  }
}

void poll(Stage& s) {
  while (!s.over()) {
    Completion c[16];
    const size_t n = s.p.a.cq.poll(c);
    for (size_t i = 0; i < n; ++i) s.wrong += c[i].status != Status::success;
    s.completed += n;
    if (n == 0) std::this_thread::yield();
  }
}

// Sleeps on the receiving side, and posts the receives again.
void receive(Stage& s) {
  const Sge in = s.far.sge(7 * 4096, 512);
  while (!s.over()) {
    Completion c[16];
    const size_t n = s.p.b.cq.wait(c, Duration::from_ms(20));
    for (size_t i = 0; i < n; ++i) {
      s.wrong += c[i].status != Status::success;
      s.wrong += !s.p.qb.post_recv({.id = 1, .sges = {&in, 1}});
    }
    s.received += n;
    s.p.a.cq.arm(Notify::solicited);
  }
}

// iWARP: the states that modify() reaches, each time of a new queue pair.
void walk_without_connection(Stage& s) {
  CompletionQueue own = *s.p.a.device.completion_queue({.capacity = 16});
  while (!s.over()) {
    const QueuePair qp = *s.p.a.pd.queue_pair({.send_cq = own, .recv_cq = own});
    s.wrong += !qp.modify(to_init());
    s.wrong += !qp.modify({.state = QpState::err});
    s.wrong += qp.state() != QpState::err;
    (void)s.p.a.device.counters();
    (void)s.p.a.device.next_event();
  }
}

// Walks a queue pair of its own through its states, again and again.
void walk(Stage& s) {
  if (s.p.a.device.attributes().only_by_cm) return walk_without_connection(s);
  CompletionQueue own = *s.p.a.queue({.capacity = 16});
  const QueuePair qp = *s.p.a.pd.queue_pair({.type = s.type, .send_cq = own, .recv_cq = own});
  while (!s.over()) {
    s.wrong += !qp.modify(to_init());
    s.wrong += !qp.modify(to_rtr({}, s.p.qb, Psn{1}));
    s.wrong += !qp.modify(to_rts({}, Psn{2}));
    s.wrong += qp.query().state != QpState::rts;
    s.wrong += !qp.modify({.state = QpState::err});
    s.wrong += qp.state() != QpState::err;
    s.wrong += !qp.modify({.state = QpState::reset});
    (void)s.p.a.device.counters();
    (void)s.p.a.device.next_event();
  }
}

// Creates and destroys domains, queues, queue pairs and regions.
void churn(Stage& s) {
  std::vector<std::byte> memory(8192);
  while (!s.over()) {
    const ProtectionDomain pd = *s.p.a.device.protection_domain();
    const CompletionQueue own = *s.p.a.queue({.capacity = 8});
    const MemoryRegion region = *pd.register_memory(memory.data(), memory.size(), Access::all);
    const QueuePair qp = *pd.queue_pair({.type = s.type, .send_cq = own, .recv_cq = s.p.a.cq});
    s.wrong += !qp.modify(to_init());
    s.wrong += qp.number() == s.p.qa.number();
    s.p.a.device.progress();
  }
}

void all_at_once(Wire wire) {
  Stage s(wire);
  const Sge in = s.far.sge(7 * 4096, 512);
  for (int i = 0; i < 256; ++i) REQUIRE(s.p.qb.post_recv({.id = 1, .sges = {&in, 1}}));
  const size_t posters = 3;
  {
    std::vector<std::jthread> others;
    for (int i = 0; i < 2; ++i) others.emplace_back([&] { poll(s); });
    others.emplace_back([&] { receive(s); });
    others.emplace_back([&] { walk(s); });
    others.emplace_back([&] { churn(s); });
    std::vector<std::jthread> first;
    for (size_t i = 0; i < posters; ++i) first.emplace_back([&s, i] { post(s, i); });
    first.clear();  // joins
    while (s.completed < s.posted && !s.deadline.passed()) std::this_thread::yield();
    s.stop = true;
  }
  if (s.completed != s.posted || s.wrong != 0) s.p.print();
  CHECK(s.posted == posters * s.per_thread);
  CHECK(s.completed == s.posted);
  CHECK(s.wrong == 0);
  CHECK(s.p.qa.state() == QpState::rts);
  CHECK(s.p.qb.state() == QpState::rts);
  CHECK(s.received > 0);
}
WEFT_ON_EACH_PORT_AND_SRD(all_at_once, "eight threads make every call at once (C-EVT-112)")
WEFT_ON_LOSSY_PORTS(all_at_once, "eight threads make every call at once under faults (C-EVT-112)")

// Queue pairs that die while others post on them, and while their completions are polled.
void destroyed_in_flight(Wire wire) {
  const std::string spec = device_string(wire);
  const Side a(spec, 65536), b(spec, 65536);
  const Buffer near(a, 4096), far(b, 4096);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::jthread poller([&] {
    Completion c[16];
    while (!stop) wrong += a.cq.poll(c) + b.cq.poll(c) > 32;
  });
  const Sge piece = near.sge(0, 2048);
  for (uint64_t round = 0; round < scaled(200); ++round) {
    QueuePair qa = a.queue_pair(), qb = b.queue_pair();
    connect(qa, qb);
    std::jthread poster([&, qp = qa] {
      for (int i = 0; i < 50; ++i)
        (void)qp.post_send({.opcode = Opcode::write,
                            .sges = {&piece, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()});
    });
    qb = QueuePair{};
    (void)qa.modify({.state = QpState::err});
    qa = QueuePair{};
  }
  stop = true;
  poller.join();
  CHECK(wrong == 0);
}
WEFT_ON_EACH_PORT_AND_SRD(destroyed_in_flight,
                          "queue pairs die while threads post and poll (C-STATE-67)")

// Devices that open and close while their progress threads are in the middle of things.
void opened_and_closed(Wire wire) {
  { const Pair first(wire); }  // what a process opens once
  const size_t descriptors = entries_of_process("fd"), threads = entries_of_process("task");
  for (uint64_t round = 0; round < scaled(50); ++round) {
    Pair p(wire);
    const Buffer near(p.a, 65536), far(p.b, 65536);
    const Sge whole = near.sge(0, 65536);
    REQUIRE(p.qa.post_send({.opcode = Opcode::write,
                            .sges = {&whole, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
    if (round % 3 == 0) p.a.cq.arm();
    if (round % 3 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // DPDK's memif goes on watching a number for each socket that it served.
  const bool memif = name(wire).find("dpdk") != std::string_view::npos;
  const size_t kept = memif ? scaled(50) : 0;
  CHECK(entries_of_process("fd") <= descriptors + kept);
  CHECK(entries_of_process("task") == threads);
}
WEFT_ON_EACH_PORT_AND_SRD(opened_and_closed, "devices close at work (C-EVT-112)")

}  // namespace
}  // namespace weft
