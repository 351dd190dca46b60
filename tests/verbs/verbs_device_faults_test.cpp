// SPDX-License-Identifier: BSD-3-Clause
// The faults of a device on a time line (fault.timeline=FILE): each kind happens to a device that
// two connected queue pairs of its own use, is counted, and leaves what it should.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/clock.hpp"
#include "tests/support/catch.hpp"
#include "weft/weft.hpp"

namespace weft {
namespace {

constexpr Duration kLimit = Duration::from_s(30);

// A file of this text, and a device that does what it says.
struct Faulty {
  explicit Faulty(const std::string& text) {
    ::setenv("WEFT_LOG", "off", 1);
    const std::string name = "weft-faults-" + std::to_string(::getpid());
    path = std::filesystem::temp_directory_path() / name;
    std::ofstream(path) << text;
    Result<Device> opened = Device::open("roce+udp:lo,fault.timeline=" + path.string());
    INFO((opened ? "" : opened.error().message));
    REQUIRE(opened);
    device = std::make_unique<Device>(*std::move(opened));
  }
  ~Faulty() { std::filesystem::remove(path); }

  uint64_t counter(std::string_view name) const {
    for (const Counter& counter : device->counters())
      if (counter.name == name) return counter.value;
    FAIL("no counter " << name);
    return 0;
  }
  // The next event of the type; others are dropped.
  AsyncEvent expect(EventType type) const {
    AsyncEvent got;
    const bool found = device->wait_until(
        [&] {
          while (const auto event = device->next_event()) {
            got = *event;
            if (got.type == type) return true;
          }
          return false;
        },
        kLimit);
    INFO("no " << name(type));
    REQUIRE(found);
    return got;
  }

  std::filesystem::path path;
  std::unique_ptr<Device> device;
};

// Two connected queue pairs of the device, and memory.
struct Loop {
  explicit Loop(const Device& device)
      : pd(*device.protection_domain()),
        cq(*device.completion_queue({.capacity = 256})),
        region(*pd.register_memory(words, sizeof words, Access::all)),
        a(queue_pair()),
        b(queue_pair()) {
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) connect(*one, *other);
  }
  QueuePair queue_pair() const { return *pd.queue_pair({.send_cq = cq, .recv_cq = cq}); }
  static void connect(const QueuePair& qp, const QueuePair& peer) {
    QueuePairAttributes init{.state = QpState::init};
    init.pkey_index = uint16_t{0};
    init.port = uint8_t{1};
    init.access = Access::all;
    REQUIRE(qp.modify(init));
    QueuePairAttributes rtr{.state = QpState::rtr};
    rtr.path = AddressVector{.destination = qp.device().attributes().gid};
    rtr.path_mtu = 1024u;
    rtr.dest_qpn = peer.number();
    rtr.rq_psn = Psn{1};
    rtr.max_dest_rd_atomic = uint8_t{1};
    rtr.min_rnr_timer = uint8_t{6};
    REQUIRE(qp.modify(rtr));
    QueuePairAttributes rts{.state = QpState::rts};
    rts.sq_psn = Psn{1};
    rts.timeout = uint8_t{14};
    rts.retry_count = uint8_t{7};
    rts.rnr_retry = uint8_t{7};
    rts.max_rd_atomic = uint8_t{1};
    REQUIRE(qp.modify(rts));
  }
  PostStatus write(uint64_t value) {
    words[0] = value;
    const Sge sge = region.sge(0, 8);
    return a.post_send({.id = value,
                        .opcode = Opcode::write,
                        .sges = {&sge, 1},
                        .remote_address = reinterpret_cast<uint64_t>(&words[1]),
                        .rkey = region.rkey()});
  }
  // Writes a number and waits for its completion.
  Status transfer(uint64_t value) {
    if (!write(value)) return Status::flushed;
    Completion c;
    REQUIRE(cq.wait({&c, 1}, kLimit) == 1);
    return c.status;
  }

  uint64_t arrived() const { return *static_cast<const volatile uint64_t*>(&words[1]); }

  alignas(8) uint64_t words[2] = {};
  ProtectionDomain pd;
  CompletionQueue cq;
  MemoryRegion region;
  QueuePair a, b;
};

// So that it happens after the test has made its objects, on any machine.
std::string again_and_again(const std::string& what) {
  std::string text;
  for (int ms = 300; ms <= 20'000; ms += 500) text += std::to_string(ms) + "ms " + what + "\n";
  return text;
}

TEST_CASE("faults: the port goes down and comes up, with events, and nothing passes meanwhile") {
  const Faulty faulty("1ms port=down\n");
  Loop loop(*faulty.device);
  faulty.expect(EventType::port_error);
  CHECK(faulty.device->query_port()->state == PortState::down);
  CHECK(loop.transfer(1) == Status::retry_exceeded);
  CHECK(faulty.counter("fault_blackhole") > 0);
  CHECK(faulty.counter("fault_port_down") == 1);

  const Faulty returns("1ms port=down\n2ms port=up\n");
  returns.expect(EventType::port_error);
  returns.expect(EventType::port_active);
  CHECK(returns.device->query_port()->state == PortState::active);
  CHECK(Loop(*returns.device).transfer(2) == Status::success);
  CHECK(returns.counter("fault_port_up") == 1);
}

TEST_CASE("faults: the device's GID leaves the table and comes back") {
  const Faulty faulty("1ms gid=gone\n");
  const Gid own = faulty.device->attributes().gid;
  const auto listed = [&own](const Faulty& where) {
    for (const GidTableEntry& entry : *where.device->query_gid_table())
      if (entry.gid == own) return true;
    return false;
  };
  faulty.expect(EventType::gid_change);
  CHECK_FALSE(listed(faulty));
  CHECK(Loop(*faulty.device).transfer(1) == Status::retry_exceeded);

  const Faulty returns("1ms gid=gone\n2ms gid=back\n");
  returns.expect(EventType::gid_change);
  returns.expect(EventType::gid_change);
  CHECK(returns.device->query_gid_table()->front().gid == returns.device->attributes().gid);
  CHECK(Loop(*returns.device).transfer(2) == Status::success);
}

TEST_CASE("faults: queue pairs go to ERR, and others can be made") {
  const Faulty faulty(again_and_again("qp=error"));
  Loop loop(*faulty.device);
  const AsyncEvent event = faulty.expect(EventType::qp_fatal);
  CHECK((event.qp == loop.a.number() || event.qp == loop.b.number()));
  REQUIRE(faulty.device->wait_until([&] { return loop.a.state() == QpState::err; }, kLimit));
  CHECK(loop.transfer(1) == Status::flushed);
  CHECK(faulty.counter("fault_qp_error") > 0);
  CHECK(faulty.device->query_port()->state == PortState::active);
}

TEST_CASE("faults: a completion queue overruns, and its queue pairs end with the next completion") {
  const Faulty faulty(again_and_again("cq=overrun"));
  Loop loop(*faulty.device);
  CHECK(faulty.expect(EventType::cq_error).completion_queue == loop.cq.number());
  REQUIRE(loop.write(1));
  faulty.expect(EventType::qp_fatal);
  CHECK(loop.a.state() == QpState::err);
  CHECK(faulty.counter("cq_overruns") > 0);
}

TEST_CASE("faults: a removed device has no usable queue pair, and makes no new objects") {
  const Faulty faulty(again_and_again("device=removed"));
  Result<ProtectionDomain> pd = faulty.device->protection_domain();
  if (pd) {  // else it was removed very soon
    Loop loop(*faulty.device);
    faulty.expect(EventType::device_fatal);
    CHECK(loop.transfer(1) != Status::success);
  }
  const Result<ProtectionDomain> none = faulty.device->protection_domain();
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::io_error);
  CHECK(none.error().message.find("removed") != std::string::npos);
  CHECK(faulty.device->completion_queue({.capacity = 1}).error().code == Code::io_error);
  CHECK(faulty.device->query_port()->state == PortState::down);
}

TEST_CASE("faults: completions are held back while data arrives, and wake who waits for them") {
  constexpr auto kHeld = Duration::from_s(1);
  const Instant begin = base::Clock::process().now();
  const Faulty faulty("1ms hold_completions_us=1000000\n");
  REQUIRE(faulty.device->wait_until([&] { return faulty.counter("fault_completions_held") == 1; },
                                    kLimit));
  Loop loop(*faulty.device);
  REQUIRE(loop.write(7));
  REQUIRE(faulty.device->wait_until([&] { return loop.arrived() == 7; }, kLimit));
  Completion c;
  const size_t polled = loop.cq.poll({&c, 1});
  const bool in_time = base::Clock::process().now() - begin < kHeld;
  CHECK((polled == 0 || !in_time));
  if (polled == 0) REQUIRE(loop.cq.wait({&c, 1}, kLimit) == 1);
  CHECK(c.status == Status::success);
  CHECK(base::Clock::process().now() - begin >= kHeld);
}

TEST_CASE("faults: those of frames begin at their time, from the seed of the file") {
  const Faulty faulty("seed = 7\n1ms loss=0.05 dup=0.2 reorder=0.2 delay_us=20 rate_mbps=1000\n");
  Loop loop(*faulty.device);
  const auto seen = [&](std::string_view name) { return faulty.counter(name) > 0; };
  for (uint64_t i = 1; i < 2000; ++i) {
    REQUIRE(loop.transfer(i) == Status::success);
    REQUIRE(loop.arrived() == i);
    if (seen("fault_loss") && seen("fault_dup") && seen("fault_reorder") && seen("fault_delay") &&
        seen("fault_rate"))
      return;
  }
  FAIL("not every fault happened");
}

TEST_CASE("faults: a file that cannot be meant so is refused with its line") {
  const auto refused = [](const std::string& text, const std::string& why) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("weft-faults-" + std::to_string(::getpid()));
    std::ofstream(path) << text;
    const Result<Device> opened = Device::open("roce+udp:lo,fault.timeline=" + path.string());
    std::filesystem::remove(path);
    REQUIRE_FALSE(opened);
    INFO(opened.error().message);
    CHECK(opened.error().code == Code::invalid_argument);
    CHECK(opened.error().message.find(why) != std::string::npos);
  };
  refused("loss=0.1\nloss\n", ":2: 'loss' is neither a time");
  refused("5 port=down\n", ":1: '5' is no time");
  refused("2ms port=down\n1ms port=up\n", ":2: 1ms is before the line above");
  refused("2ms port=down\nloss=0.1\n", ":2: lines without a time come first");
  refused("port=down\n", ":1: port=down happens once");
  refused("1ms bogus=1\n", ":1: there is no key fault.bogus");
  refused("1ms seed=1\n", ":1: the seed");
  refused("1ms\n", ":1: nothing follows");
  CHECK(Device::open("roce+udp:lo,fault.timeline=/nonesuch").error().code == Code::not_found);
}

}  // namespace
}  // namespace weft
