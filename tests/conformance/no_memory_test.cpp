// SPDX-License-Identifier: BSD-3-Clause
// Out of memory at every allocation, threat:A28: opening, creating, registering, and data between
// queue pairs connected by modify(). connect(): no_memory_connect_test.cpp.
// program: own
#include "tests/conformance/no_memory.hpp"

#include <unistd.h>

namespace weft::test {
namespace {

constexpr std::string_view kUdp = "roce+udp:lo,single_thread=1";
std::string_view shm() { return spec_of("roce+shm:nomem%d,single_thread=1"); }
constexpr Walk kWalk{.timeout = 10};  // 4 ms

Code opens(std::string_view spec) {
  End end;
  return end.open(spec);
}
Code opens_udp() { return opens(kUdp); }
Code opens_shm() { return opens(shm()); }
Code opens_threaded() { return opens("roce+udp:lo"); }
Code opens_layers() {
  return opens(
      "roce+udp:lo,single_thread=1,fault.loss=0.01,fault.dup=0.01,pcap=/dev/null,"
      "tracer=/dev/null");
}
Code opens_paced() { return opens("roce+udp:lo,single_thread=1,cc=dcqcn-nic,cc.min_rate_mbps=10"); }
Code opens_srd() { return opens("srd+udp:lo,single_thread=1,paths=8"); }

// What is refused is refused with its own words, or with none.
Code refuses() {
  Code first = Code::ok;
  const auto expect = [&first](Code code, Code wanted) {
    if (code != wanted && first == Code::ok) first = code;
  };
  for (const std::string_view spec :
       {"roce+udp:lo,fault.loss=2", "roce+nosuch:lo", "nosuch+udp:lo"})
    if (const Result<Device> wrong = Device::open(spec))
      return Code::io_error;
    else if (wrong.error().code == Code::no_memory)
      return Code::no_memory;
  End end;
  WEFT_DONE(end.open(kUdp));
  expect(end.queue_pair({.max_send_sge = 1000}).ok() ? Code::io_error : Code::ok, Code::ok);
  WEFT_GIVE(qp, end.queue_pair());
  const Result<void> leap = qp.modify({.state = QpState::rts});
  expect(leap.ok() ? Code::ok : leap.error().code, Code::bad_state);
  const Result<void> early = end.cq.resize(0);
  expect(early.ok() ? Code::ok : early.error().code, Code::invalid_argument);
  const Result<Gid> odd = parse_gid("no address at all, and a long one");
  expect(odd ? Code::ok : odd.error().code, Code::invalid_argument);
  const Result<MemoryRegion> nowhere = end.pd->register_memory(nullptr, 4096, Access::all);
  expect(nowhere ? Code::ok : nowhere.error().code, Code::permission_denied);
  return first;
}

Code looks() {
  End end;
  WEFT_DONE(end.open(kUdp));
  if (end.device->counters().empty()) return Code::no_memory;
  (void)end.device->paths(end.device->attributes().gid, {7});
  (void)end.device->next_event();
  WEFT_OK(end.cq.resize(200));
  WEFT_OK(end.cq.moderate({.count = 4, .period = Duration::from_us(50)}));
  WEFT_GIVE(timed, end.device->completion_queue({.capacity = 16, .timestamps = true}));
  WEFT_OK(timed.resize(40));
  return Code::ok;
}

// More than the tables of a new device have room for.
Code creates_many() {
  End end;
  WEFT_DONE(end.open(kUdp));
  constexpr size_t kMany = 40;
  std::array<QueuePair, kMany> pairs;
  std::array<MemoryRegion, kMany> regions;
  std::array<MemoryWindow, kMany> windows;
  for (size_t i = 0; i < kMany; ++i) {
    WEFT_GIVE(qp, end.queue_pair());
    pairs[i] = qp;
    WEFT_GIVE(region, end.pd->register_memory(end.bytes.data() + i, 8, Access::all));
    regions[i] = region;
    WEFT_GIVE(window, end.pd->memory_window(i % 2 == 0 ? WindowType::one : WindowType::two));
    windows[i] = window;
  }
  return Code::ok;
}

// Two devices of one string with a queue pair each.
struct Twins {
  Code open(std::string_view spec, QpType type, const Walk& w = kWalk) {
    WEFT_DONE(a.open(spec));
    WEFT_DONE(b.open(spec));
    WEFT_GIVE(one, a.queue_pair({.type = type}));
    WEFT_GIVE(other, b.queue_pair({.type = type}));
    qa = one, qb = other;
    return walk(qa, qb, w);
  }
  Code send(Opcode opcode) {
    const Sge sge = a.region.sge(0, opcode == Opcode::fetch_add ? 8 : 5000);
    WEFT_POST(qa.post_send({.opcode = opcode,
                            .flags = SendFlags::signaled,
                            .sges = {&sge, 1},
                            .remote_address = b.address(8192),
                            .rkey = b.region.rkey()}));
    return Code::ok;
  }
  Code expect() {
    const Sge sge = b.region.sge(16384, 8192);
    WEFT_POST(qb.post_recv({.sges = {&sge, 1}}));
    return Code::ok;
  }
  End a, b;
  QueuePair qa, qb;
};

Code transfer_rc(std::string_view spec) {
  Twins t;
  WEFT_DONE(t.open(spec, QpType::rc));
  WEFT_DONE(t.expect());
  uint32_t sends = 0;
  for (const Opcode opcode : {Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add}) {
    WEFT_DONE(t.send(opcode));
    ++sends;
  }
  WEFT_DONE(wait(t.a, t.b, sends, 1));
  // Destruction of a queue pair is reported, and its number is free again.
  WEFT_OK(t.qa.modify({.state = QpState::err}));
  WEFT_OK(t.qa.modify({.state = QpState::reset}));
  return Code::ok;
}
Code rc_udp() { return transfer_rc(kUdp); }
Code rc_shm() { return transfer_rc(shm()); }
Code rc_layers() {
  return transfer_rc("roce+udp:lo,single_thread=1,fault.loss=0.01,pcap=/dev/null,tracer=/dev/null");
}
Code rc_threaded() { return transfer_rc("roce+udp:lo"); }
Code rc_paced() { return transfer_rc("roce+udp:lo,single_thread=1,cc=hpcc,telemetry=1"); }

// Lost requests are not reported: they are sent until one is received.
Code uc_udp() {
  Twins t;
  WEFT_DONE(t.open(kUdp, QpType::uc));
  WEFT_DONE(t.expect());
  uint32_t sent = 0;
  int64_t said = 0;
  Code failed = Code::ok;
  WEFT_DONE(pump(t.a, t.b, [&] {
    if (t.b.receives != 0) return true;
    if (t.a.sends != sent || clock_ns() - said < 2'000'000) return false;
    said = clock_ns();
    failed = t.send(Opcode::send);
    return ++sent, failed != Code::ok;
  }));
  return failed;
}

// A datagram to one, and one to a group.
Code ud_udp() {
  End a, b;
  WEFT_DONE(a.open(kUdp));
  WEFT_DONE(b.open(kUdp));
  WEFT_GIVE(from, a.queue_pair({.type = QpType::ud}));
  WEFT_GIVE(to, b.queue_pair({.type = QpType::ud}));
  for (const QueuePair& qp : {from, to}) {
    WEFT_OK(qp.modify({.state = QpState::init,
                       .pkey_index = uint16_t{0},
                       .port = uint8_t{1},
                       .qkey = 0x11111111}));
    WEFT_OK(qp.modify({.state = QpState::rtr}));
    WEFT_OK(qp.modify({.state = QpState::rts, .sq_psn = Psn{1}}));
  }
  const Gid group = Gid::from_ipv4(239, 1, 2, 3);
  WEFT_OK(to.attach_multicast(group));
  const Sge in = b.region.sge(0, 4096), out = a.region.sge(0, 64);
  WEFT_POST(to.post_recv({.sges = {&in, 1}}));
  const AddressHandle handle = a.pd->address_handle({.destination = b.device->attributes().gid});
  int64_t said = 0;
  PostStatus posted;
  WEFT_DONE(pump(a, b, [&] {
    if (b.receives != 0) return true;
    if (clock_ns() - said < 2'000'000) return false;
    said = clock_ns();
    posted = from.post_send(
        {.sges = {&out, 1}, .to = &handle, .remote_qpn = to.number(), .remote_qkey = 0x11111111});
    return !posted;
  }));
  if (!posted) return posted.code;
  WEFT_OK(to.detach_multicast(group));
  return Code::ok;
}

// More events than a device has room for at first, which are not taken: each is delivered in the
// end or counted as lost.
Code srq_shm() {
  constexpr uint64_t kEvents = 60;
  End a, b;
  WEFT_DONE(a.open(shm()));
  WEFT_DONE(b.open(shm()));
  WEFT_GIVE(shared, b.pd->shared_receive_queue({.max_recv_wr = 16}));
  WEFT_GIVE(from, a.queue_pair());
  WEFT_GIVE(to, b.queue_pair({.shared_receive_queue = shared}));
  WEFT_DONE(walk(from, to, kWalk));
  const Sge in = b.region.sge(0, 4096), out = a.region.sge(0, 64);
  for (uint64_t i = 0; i < kEvents; ++i) {
    WEFT_POST(shared.post_recv({.sges = {&in, 1}}));
    WEFT_OK(shared.arm_limit(1));
    WEFT_POST(from.post_send({.flags = SendFlags::signaled, .sges = {&out, 1}}));
    WEFT_DONE(wait(a, b, 1, 1));
  }
  uint64_t events = 0;
  while (b.device->next_event()) ++events;
  const std::vector<Counter> counters = b.device->counters();
  if (counters.empty()) return Code::no_memory;
  for (const Counter& counter : counters)
    if (counter.name == "events_lost") events += counter.value;
  return events >= kEvents ? Code::ok : Code::io_error;
}

Code window_udp() {
  Twins t;
  WEFT_DONE(t.open(kUdp, QpType::rc));
  WEFT_GIVE(window, t.b.pd->memory_window(WindowType::two));
  WEFT_GIVE(shown,
            t.b.pd->register_memory(t.b.bytes.data(), 4096, Access::all | Access::window_bind));
  const WindowBind bind{.window = &window,
                        .region = &shown,
                        .address = t.b.bytes.data(),
                        .size = 64,
                        .access = Access::remote_write};
  WEFT_POST(
      t.qb.post_send({.opcode = Opcode::bind_window, .rkey = window.next_key(), .bind = &bind}));
  WEFT_DONE(wait(t.b, t.a, 1, 0));
  const Sge out = t.a.region.sge(0, 8);
  WEFT_POST(t.qa.post_send({.opcode = Opcode::write,
                            .sges = {&out, 1},
                            .remote_address = t.b.address(0),
                            .rkey = window.rkey()}));
  return wait(t.a, t.b, 1, 0);
}

Code xrc_udp() {
  End a, b;
  WEFT_DONE(a.open(kUdp));
  WEFT_DONE(b.open(kUdp));
  WEFT_GIVE(domain, b.device->xrc_domain());
  WEFT_GIVE(shared,
            b.pd->shared_receive_queue({.max_recv_wr = 4, .xrc_domain = domain, .cq = b.cq}));
  WEFT_GIVE(second,
            b.pd->shared_receive_queue({.max_recv_wr = 4, .xrc_domain = domain, .cq = b.cq}));
  WEFT_GIVE(from, a.queue_pair({.type = QpType::xrc_initiator}));
  WEFT_GIVE(to, b.pd->queue_pair({.type = QpType::xrc_target, .xrc_domain = domain}));
  WEFT_DONE(walk(from, to, kWalk));
  const Sge in = b.region.sge(0, 4096), out = a.region.sge(0, 64);
  for (const SharedReceiveQueue& pool : {shared, second}) {
    WEFT_POST(pool.post_recv({.sges = {&in, 1}}));
    WEFT_POST(from.post_send(
        {.flags = SendFlags::signaled, .sges = {&out, 1}, .remote_srq = pool.number()}));
    WEFT_DONE(wait(a, b, 1, 1));
  }
  return Code::ok;
}

WEFT_RUN_OUT(opens_udp)
WEFT_RUN_OUT(opens_shm)
WEFT_RUN_OUT(opens_threaded)
WEFT_RUN_OUT(opens_layers)
WEFT_RUN_OUT(opens_paced)
WEFT_RUN_OUT(opens_srd)
WEFT_RUN_OUT(refuses)
WEFT_RUN_OUT(looks)
WEFT_RUN_OUT(creates_many)
WEFT_RUN_OUT(rc_udp)
WEFT_RUN_OUT(rc_shm)
WEFT_RUN_OUT(rc_layers)
WEFT_RUN_OUT(rc_threaded)
WEFT_RUN_OUT(rc_paced)
WEFT_RUN_OUT(uc_udp)
WEFT_RUN_OUT(ud_udp)
WEFT_RUN_OUT(srq_shm)
WEFT_RUN_OUT(window_udp)
WEFT_RUN_OUT(xrc_udp)

}  // namespace
}  // namespace weft::test
