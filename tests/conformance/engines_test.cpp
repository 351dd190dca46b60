// SPDX-License-Identifier: BSD-3-Clause
// Several engines of one device: the engine of each object, what all engines share, what is
// refused, and packets that the kernel delivers to the wrong engine. The rest of the suite runs on
// such a device too (Wire::udp_engines).
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/conformance/engines_node.hpp"

namespace weft {
namespace {

using namespace test;

void refused(const std::string& spec, Code code, std::string_view because) {
  const Result<Device> device = Device::open(spec);
  INFO(spec);
  REQUIRE_FALSE(device);
  INFO(device.error().message);
  CHECK(device.error().code == code);
  CHECK(device.error().message.find(because) != std::string::npos);
}

template <class T>
void refused(const Result<T>& made, std::string_view because) {
  REQUIRE_FALSE(made);
  CHECK(made.error().code == Code::invalid_argument);
  CHECK(made.error().message.find(because) != std::string::npos);
}

TEST_CASE("engines: unsupported combinations are refused with the supported ones") {
  for (const char* const number : {"0", "65", "-1", "two", ""})
    refused(std::string("roce+udp:lo,engines=") + number, Code::invalid_argument, "1..64");
  for (const char* const port : {"shm:engines-test", "af_packet:lo"})
    refused(std::string("roce+") + port + ",engines=2", Code::not_supported, "use udp");
  refused("roce+udp:lo,engines=2,single_thread=1", Code::invalid_argument, "single_thread");
  refused("roce+udp:lo,engines=2,telemetry=1", Code::not_supported, "telemetry=1");
  refused("srd+udp:lo,engines=2,rails=127.0.0.9", Code::not_supported, "rails=");
  CHECK(Device::open("roce+shm:engines-test,engines=1"));
}

TEST_CASE("engines: objects that do not live together are refused") {
  const EngineNode n(kTwo);
  refused(n.device.completion_queue({.engine = 2}), "no engine 2");
  refused(n.device.xrc_domain(2), "no engine 2");
  refused(n.pd.memory_window(WindowType::two, 2), "no engine 2");
  refused(n.pd.shared_receive_queue({.engine = 2}), "no engine 2");
  refused(n.pd.queue_pair({.send_cq = n.cqs[0], .recv_cq = n.cqs[1]}), "different engines");
  const SharedReceiveQueue shared = *n.pd.shared_receive_queue({.engine = 1});
  refused(
      n.pd.queue_pair({.send_cq = n.cqs[0], .recv_cq = n.cqs[0], .shared_receive_queue = shared}),
      "another engine");
  CHECK(
      n.pd.queue_pair({.send_cq = n.cqs[1], .recv_cq = n.cqs[1], .shared_receive_queue = shared}));
  const XrcDomain xrc = *n.device.xrc_domain(1);
  refused(n.pd.shared_receive_queue({.xrc_domain = xrc, .cq = n.cqs[0]}), "one engine");
  refused(n.pd.shared_receive_queue({.engine = 1, .xrc_domain = xrc, .cq = n.cqs[0]}),
          "one engine");
  CHECK(n.pd.shared_receive_queue({.engine = 1, .xrc_domain = xrc, .cq = n.cqs[1]}));
  CHECK(n.pd.queue_pair({.type = QpType::xrc_target, .xrc_domain = xrc}));
  const EngineNode one("roce+udp:lo");
  CHECK(one.device.attributes().engines == 1);
  refused(one.device.completion_queue({.engine = 1}), "engines=N");
}

TEST_CASE("engines: numbers of queues are of one engine, and of one queue") {
  const EngineNode n("roce+udp:lo,engines=3");
  std::vector<uint32_t> tops, shared;
  for (uint32_t i = 0; i < 3; ++i) {
    tops.push_back(n.qps[i].number().value >> 16);
    shared.push_back(n.pd.shared_receive_queue({.engine = i})->number());
  }
  CHECK(tops == std::vector<uint32_t>{1, 2, 3});
  std::sort(shared.begin(), shared.end());
  CHECK(std::unique(shared.begin(), shared.end()) == shared.end());
}

TEST_CASE("engines: each reaches each, on the other device and on its own") {
  const EngineNode a(kTwo);
  for (const bool own : {false, true}) {
    const EngineNode other(kTwo);
    const EngineNode& b = own ? a : other;
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 2; ++j) {
        // Fresh queue pairs on the engines i and j.
        const QueuePair from = *a.pd.queue_pair({.send_cq = a.cqs[i], .recv_cq = a.cqs[i]});
        const QueuePair to = *b.pd.queue_pair({.send_cq = b.cqs[j], .recv_cq = b.cqs[j]});
        connect(from, to);
        a.memory.word(0) = 1 + 2 * i + j;
        const Sge local = a.memory.sge(0, 8);
        REQUIRE(from.post_send({.opcode = Opcode::write,
                                .sges = {&local, 1},
                                .remote_address = b.memory.address(64),
                                .rkey = b.memory.region.rkey()}));
        Completion c;
        REQUIRE(a.cqs[i].wait({&c, 1}, Duration::from_s(20)) == 1);
        CHECK(c.status == Status::success);
        CHECK(b.memory.word(64) == a.memory.word(0));
      }
  }
  CHECK(a.counter("udp_forwarded") == 0);
}

TEST_CASE("engines: a region is good on all of them until it goes") {
  const EngineNode a(kTwo), b(kTwo);
  for (size_t i = 0; i < 2; ++i) connect(a.qps[i], b.qps[i]);
  auto far = std::make_unique<Buffer>(b.pd, 64, Access::all);
  const uint64_t address = far->address();
  const RKey rkey = far->region.rkey();
  for (size_t i = 0; i < 2; ++i) CHECK(a.write(i, address, rkey) == Status::success);
  far.reset();
  for (size_t i = 0; i < 2; ++i) CHECK(a.write(i, address, rkey) == Status::remote_access_error);
}

TEST_CASE("engines: no peer takes a region's rights away on one of them") {
  const EngineNode a(kTwo), b(kTwo);
  CHECK_FALSE(b.device.attributes().invalidates_regions);
  for (size_t i = 0; i < 2; ++i) connect(a.qps[i], b.qps[i]);
  const Sge out = a.memory.sge(0, 8), in = b.memory.sge(64, 8);
  REQUIRE(b.qps[1].post_recv({.sges = {&in, 1}}));
  REQUIRE(a.qps[1].post_send({.opcode = Opcode::send_with_invalidate,
                              .invalidate = b.memory.region.rkey(),
                              .sges = {&out, 1}}));
  Completion c;
  REQUIRE(a.cqs[1].wait({&c, 1}, Duration::from_s(20)) == 1);
  CHECK(c.status != Status::success);
  CHECK(a.write(0, b, 8) == Status::success);
}

TEST_CASE("engines: events of each come to the device, once") {
  const EngineNode a(kTwo), b(kTwo);
  for (size_t i = 0; i < 2; ++i) connect(a.qps[i], b.qps[i]);
  for (size_t i = 0; i < 2; ++i) {
    const Sge local = a.memory.sge(0, 8);
    REQUIRE(a.qps[i].post_send({.opcode = Opcode::write,
                                .sges = {&local, 1},
                                .remote_address = b.memory.address(),
                                .rkey = RKey{b.memory.region.rkey().value ^ 0x10000}}));
    Completion c;
    REQUIRE(a.cqs[i].wait({&c, 1}, Duration::from_s(20)) == 1);
    pollfd wanted{b.device.event_fd(), POLLIN, 0};
    CHECK(::poll(&wanted, 1, 20'000) == 1);
    const auto event = b.device.next_event();
    REQUIRE(event);
    CHECK(event->type == EventType::qp_access_error);
    CHECK(event->qp == b.qps[i].number());
    CHECK_FALSE(b.device.next_event());
    CHECK(::poll(&wanted, 1, 0) == 0);
  }
}

TEST_CASE("engines: an address of its own is one device's until it closes") {
  const std::string spec = "roce+udp:127.98.7.6,udp.shared=0";
  for (int i = 0; i < 2; ++i) {
    const Result<Device> first = Device::open(spec + ",engines=2");
    REQUIRE(first);
    for (const char* const more : {"", ",engines=2", ",engines=1"})
      refused(spec + more, Code::address_in_use, "belongs to another device");
    refused("roce+udp:127.98.7.6", Code::address_in_use, "belongs to another device");
  }
  const Result<Device> lone = Device::open(spec);
  REQUIRE(lone);
  refused(spec + ",engines=2", Code::address_in_use, "belongs to another device");
  const Result<Device> free = Device::open(kTwo), next = Device::open(kTwo);
  REQUIRE(free);
  REQUIRE(next);
  CHECK(free->attributes().gid != next->attributes().gid);
}

// To the other engine.
void mislead(const Device& device) {
  ::close(steer(device, {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kTopByteOfQpn),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1), BPF_STMT(BPF_RET | BPF_K, 1),
                         BPF_STMT(BPF_RET | BPF_K, 0)}));
}

TEST_CASE("engines: what comes to the wrong one is handed over, and then steered right") {
  const EngineNode a(kTwo), b(kTwo);
  for (size_t i = 0; i < 2; ++i) connect(a.qps[i], b.qps[i]);
  mislead(b.device);
  const auto write_some = [&] {
    for (uint64_t round = 0; round < 20; ++round)
      for (size_t i = 0; i < 2; ++i) {
        a.memory.word(0) = 100 * round + i;
        REQUIRE(a.write(i, b, 64) == Status::success);
        CHECK(b.memory.word(64) == a.memory.word(0));
      }
  };
  write_some();
  const uint64_t forwarded = b.counter("udp_forwarded");
  CHECK(forwarded > 0);
  CHECK(b.counter("udp_forward_drops") == 0);
  CHECK(b.counter("udp_steering_programs") > 2);  // the engines correct what we attached
  write_some();
  CHECK(b.counter("udp_forwarded") == forwarded);
}

TEST_CASE("engines: each writes a capture of its own") {
  const std::string file = std::filesystem::temp_directory_path() /
                           ("weft-engines-" + std::to_string(getpid()) + ".pcap");
  {
    const EngineNode n(std::string(kTwo) + ",pcap=" + file);
    connect(n.qps[0], n.qps[1]);
    CHECK(n.write(0, n, 8) == Status::success);
    CHECK(n.counter("tx_acks") >= 1);  // counters are those of all: engine 1 sent it
  }
  for (const std::string& each : {file, file + ".1"}) {
    CHECK(std::filesystem::file_size(each) > 24);
    std::filesystem::remove(each);
  }
}

// Two DPDK devices of two queues each that bring what queue k sends to queue k: of queue pairs that
// are connected crosswise every packet crosses to the other engine.
void cross(const std::string& one, const std::string& other) {
  const EngineNode a(one), b(other);
  for (size_t i = 0; i < 2; ++i) connect(a.qps[i], b.qps[1 - i]);
  for (uint64_t round = 0; round < 20; ++round)
    for (size_t i = 0; i < 2; ++i) {
      a.memory.word(0) = 100 * round + i;
      REQUIRE(a.write(i, b, 64) == Status::success);
      CHECK(b.memory.word(64) == a.memory.word(0));
      REQUIRE(b.write(i, a, 128) == Status::success);
    }
  for (const EngineNode* const node : {&a, &b}) {
    CHECK(node->counter("dpdk_handed_over") >= 80);
    CHECK(node->counter("dpdk_handed_drops") == 0);
  }
}

TEST_CASE("engines: a queue of a DPDK device each, and what comes to the wrong one @dpdk") {
  const Ground ground(Wire::dpdk);
  if (!ground.missing().empty())
    WEFT_SKIP("engines: a queue of a DPDK device each, and what comes to the wrong one @dpdk",
              ground.missing());
  const std::string spec = device_string(Wire::dpdk) + ",engines=2";
  cross(spec, spec);
}

TEST_CASE("engines: a queue of a vhost and of its virtio_user each @dpdk") {
  const Ground ground(Wire::dpdk);
  if (!ground.missing().empty())
    WEFT_SKIP("engines: a queue of a vhost and of its virtio_user each @dpdk", ground.missing());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weft-engines-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string spec =
      "roce+dpdk:net_vhost,dpdk.iface=" + (folder / "s").string() + ",engines=2,dpdk.address=";
  cross(spec + "10.78.0.1", spec + "10.78.0.2");
  std::filesystem::remove_all(folder);
}

// A thread for each engine, with its own queues, while others register memory and look.
TEST_CASE("engines: a thread on each, and others beside them (C-EVT-112)") {
  constexpr uint32_t kEngines = 3;
  const EngineNode a("roce+udp:lo,engines=3"), b("roce+udp:lo,engines=3");
  for (size_t i = 0; i < kEngines; ++i) connect(a.qps[i], b.qps[i]);
  std::atomic<uint32_t> running{kEngines}, wrong{0};
  const Deadline deadline(Duration::from_s(60));
  const auto stream = [&](size_t engine) {
    const Sge local = a.memory.sge(64 * engine, 8);
    const uint64_t count = scaled(3000);
    for (uint64_t posted = 0, done = 0; done < count && !deadline.passed();) {
      if (posted < count && posted < done + 32) {
        wrong += !a.qps[engine].post_send({.opcode = Opcode::write,
                                           .sges = {&local, 1},
                                           .remote_address = b.memory.address(64 * engine),
                                           .rkey = b.memory.region.rkey()});
        ++posted;
      }
      Completion c[16];
      const size_t n = a.cqs[engine].poll(c);
      for (size_t i = 0; i < n; ++i) wrong += c[i].status != Status::success;
      done += n;
      wrong += b.cqs[engine].poll(c) != 0;
      if (n == 0) std::this_thread::yield();
    }
    wrong += deadline.passed();
    --running;
  };
  const auto churn = [&] {
    std::vector<std::byte> bytes(8192);
    for (uint32_t round = 0; running != 0; ++round) {
      const MemoryRegion region = *b.pd.register_memory(bytes.data(), bytes.size(), Access::all);
      const CompletionQueue cq = *b.device.completion_queue({.engine = round % kEngines});
      const QueuePair qp = *b.pd.queue_pair({.send_cq = cq, .recv_cq = cq});
      wrong += !qp.modify(to_init());
      (void)b.device.counters();
      (void)b.device.next_event();
      b.device.progress();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kEngines; ++i) threads.emplace_back(stream, i);
    threads.emplace_back(churn);
  }
  CHECK(wrong == 0);
}

TEST_CASE("engines: srd names peers of each") {
  const EngineNode a("srd+udp:lo,engines=2", QpType::srd), b("srd+udp:lo,engines=2", QpType::srd);
  for (const EngineNode* const node : {&a, &b})
    for (const QueuePair& qp : node->qps)
      for (const QpState state : {QpState::init, QpState::rtr, QpState::rts})
        REQUIRE(qp.modify({.state = state}));
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 2; ++j) {
      const Sge out = a.memory.sge(0, 8), in = b.memory.sge(64, 8);
      REQUIRE(b.qps[j].post_recv({.sges = {&in, 1}}));
      const AddressHandle to = a.pd.address_handle({.destination = b.device.attributes().gid});
      REQUIRE(a.qps[i].post_send({.sges = {&out, 1}, .to = &to, .remote_qpn = b.qps[j].number()}));
      Completion c;
      REQUIRE(b.cqs[j].wait({&c, 1}, Duration::from_s(20)) == 1);
      CHECK(c.status == Status::success);
      CHECK(c.source_qp == a.qps[i].number());
      CHECK(b.device.peer_address(c.source_peer) == a.device.attributes().gid);
      REQUIRE(a.cqs[i].wait({&c, 1}, Duration::from_s(20)) == 1);
      CHECK(c.status == Status::success);
      CHECK_FALSE(a.device.paths(b.device.attributes().gid, b.qps[j].number()).empty());
    }
}

}  // namespace
}  // namespace weft
