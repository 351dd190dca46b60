// SPDX-License-Identifier: BSD-3-Clause
// What connect() and the connection manager negotiate, if both devices support it: telemetry and
// selective repeat (lib/wire/SACK.md). The keys that enable them, profile= among them; data is
// transferred with and without, and a controller that needs telemetry counts its absence.
#include <algorithm>

#include "lib/roce/profiles.hpp"
#include "providers/roce/congestion_keys.hpp"
#include "tests/conformance/cm_party.hpp"
#include "tests/conformance/connect_support.hpp"
#include "tests/conformance/fixture.hpp"
#include "tests/support/catch.hpp"

namespace weft {

using namespace test;

namespace {

uint64_t counter(const Device& device, std::string_view name) {
  for (const Counter& c : device.counters())
    if (c.name == name) return c.value;
  return 0;
}

// WRITEs of one MTU and more from a to b, until all are done.
void transfer(Endpoint& from, const QueuePair& a, Endpoint& to, uint32_t bytes) {
  std::vector<std::byte> source(bytes), target(bytes);
  for (uint32_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
  const MemoryRegion in = *to.pd.register_memory(target.data(), bytes, Access::all);
  const MemoryRegion out = *from.pd.register_memory(source.data(), bytes, Access::all);
  const Sge sge = out.sge(0, bytes);
  REQUIRE(a.post_send({.id = 1,
                       .opcode = Opcode::write,
                       .sges = {&sge, 1},
                       .remote_address = reinterpret_cast<uint64_t>(target.data()),
                       .rkey = in.rkey()}));
  Completion done;
  REQUIRE(from.cq.wait({&done, 1}, Duration::from_s(30)) == 1);
  CHECK(done.status == Status::success);
  CHECK(source == target);
}

struct TelemetryConnected {
  Endpoint from, to;
  QueuePair a = from.queue_pair(), b = to.queue_pair();

  TelemetryConnected(const char* first, const char* second)
      : from{.spec = first}, to{.spec = second} {
    Listener listener = *Listener::listen("127.0.0.1:0");
    Result<Connection> ra = kNone, rb = kNone;
    connect_both(listener, a, b, {}, {}, ra, rb);
    REQUIRE(ra);
    REQUIRE(rb);
  }
};

TEST_CASE("telemetry is agreed when both devices have it") {
  TelemetryConnected c("roce+udp:lo,cc=hpcc", "roce+udp:lo,telemetry=1");
  CHECK(c.from.device.attributes().telemetry);
  CHECK(c.to.device.attributes().telemetry);
  CHECK(c.a.query().telemetry == true);
  transfer(c.from, c.a, c.to, 100'000);
  CHECK(counter(c.to.device, "udp_rx_telemetry_frames") >= 25);
  CHECK(counter(c.to.device, "udp_rx_frames") == 0);
  CHECK(counter(c.from.device, "udp_rx_telemetry_frames") > 0);
  // No switch stamps here: hpcc uses its own queue, and a counter tells.
  CHECK(counter(c.from.device, "acks_without_telemetry") > 0);
}

void agreed_on(Wire wire) {
  const std::string spec = device_string(wire);
  TelemetryConnected c((spec + ",cc=hpcc").c_str(), (spec + ",telemetry=1").c_str());
  CHECK(c.a.query().telemetry == true);
  transfer(c.from, c.a, c.to, 100'000);
  // No frame was refused for its port or its block, and every answer had one.
  for (const Endpoint* e : {&c.from, &c.to})
    for (const char* const bad : {"rx_bad_telemetry", "rx_unagreed_telemetry", "rx_icrc_error"})
      CHECK(counter(e->device, bad) == 0);
  CHECK(counter(c.from.device, "acks_without_telemetry") > 0);
}
WEFT_ON_WIRE(agreed_on, "frames with telemetry cross", udp)
WEFT_ON_WIRE(agreed_on, "frames with telemetry cross", dpdk)

TEST_CASE("telemetry is left out when one device has none") {
  const bool first = GENERATE(false, true);
  TelemetryConnected c(first ? "roce+udp:lo,cc=hpcc" : "roce+udp:lo",
                       first ? "roce+udp:lo" : "roce+udp:lo,telemetry=1");
  CHECK_FALSE(c.a.query().telemetry.has_value());
  transfer(c.from, c.a, c.to, 100'000);
  CHECK(counter(c.to.device, "udp_rx_telemetry_frames") == 0);
  CHECK((counter(c.from.device, "acks_without_telemetry") > 0) == first);
}

TEST_CASE("the port leaves room for the block in its MTU") {
  const Endpoint e{.spec = "roce+udp:lo,telemetry=1"};
  CHECK(e.device.attributes().active_mtu == 4096);
}

TEST_CASE("srd takes hpcc in its digest form") {
  const auto open = [](const char* name) {
    return Device::open(std::string("srd+udp:lo,cc=") + name);
  };
  for (const char* const name : {"hpcc", "hpcc-pint"}) CHECK(open(name));
  for (const char* const name : {"powertcp", "hpcc+win"}) {
    const Result<Device> no = open(name);
    REQUIRE_FALSE(no);
    CHECK(no.error().code == Code::not_supported);
    CHECK(no.error().message.find("try hpcc ") != std::string::npos);
  }
}

TEST_CASE("telemetry=0 leaves a controller with its own queue, on every port") {
  const char* const spec =
      GENERATE("roce+udp:lo,cc=hpcc,telemetry=0", "roce+udp:lo,telemetry=0,cc=hpcc-pint",
               "roce+shm:telemetry_test,cc=hpcc");
  INFO(spec);
  const std::string with = spec;
  TelemetryConnected c(spec, with.find("shm") != std::string::npos ? "roce+shm:telemetry_test"
                                                                   : "roce+udp:lo,telemetry=1");
  CHECK_FALSE(c.from.device.attributes().telemetry);
  CHECK_FALSE(c.a.query().telemetry.has_value());
  transfer(c.from, c.a, c.to, 100'000);
  CHECK(counter(c.from.device, "acks_without_telemetry") > 0);
}

TEST_CASE("a queue pair has a controller of its own") {
  const Endpoint e{.spec = "roce+udp:lo"};
  QueuePairOptions options{.send_cq = e.cq, .recv_cq = e.cq};
  options.congestion = "swift";
  CHECK(e.pd.queue_pair(options));
  options.congestion = "swft";
  const Result<QueuePair> refused = e.pd.queue_pair(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("theta-powertcp") != std::string::npos);
}

TEST_CASE("keys of congestion control that make no sense are refused") {
  const std::pair<const char*, const char*> cases[] = {
      {"roce+udp:lo,cc=nscc", "many paths"},
      {"roce+shm:telemetry_test,telemetry=1", "no switch lies on the way"},
      {"roce+udp:lo,cc=hpcc,cc.etta=0.9", "eta"},
      {"roce+udp:lo,cc=hpcc,cc.eta=x", "must be a number"},
      {"roce+udp:lo,cc.eta=0.9", "add cc=NAME"},
      {"roce+udp:lo,telemetry=2", "0 or 1"},
      {"roce+udp:lo,udp.switched=1", "127.9.0.1"}};
  for (const auto& [spec, words] : cases) {
    const Result<Device> device = Device::open(spec);
    INFO(spec);
    REQUIRE_FALSE(device);
    CHECK(device.error().message.find(words) != std::string::npos);
  }
  CHECK(Device::open("roce+udp:lo,cc=dctcp,cc.min_rate_mbps=10,cc_line_mbps=1000"));
}

// Two RC queue pairs, and megabytes that cross.
struct Selective {
  Endpoint from, to;
  QueuePair a = from.queue_pair(), b = to.queue_pair();

  Selective(const std::string& first, const std::string& second)
      : from{.spec = first}, to{.spec = second} {
    Listener listener = *Listener::listen("127.0.0.1:0");
    Result<Connection> ra = kNone, rb = kNone;
    connect_both(listener, a, b, {}, {}, ra, rb);
    REQUIRE(ra);
    REQUIRE(rb);
  }

  void transfer(Opcode opcode) {
    constexpr uint32_t kBytes = 1u << 20;
    const bool read = opcode == Opcode::read;
    std::vector<std::byte> source(kBytes), target(kBytes);
    for (uint32_t i = 0; i < kBytes; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
    std::vector<std::byte>&here = read ? target : source, &there = read ? source : target;
    const MemoryRegion out = *from.pd.register_memory(here.data(), kBytes, Access::all);
    const MemoryRegion in = *to.pd.register_memory(there.data(), kBytes, Access::all);
    const Sge sge = out.sge(0, kBytes);
    REQUIRE(a.post_send({.id = 1,
                         .opcode = opcode,
                         .sges = {&sge, 1},
                         .remote_address = reinterpret_cast<uint64_t>(there.data()),
                         .rkey = in.rkey()}));
    Completion done;
    REQUIRE(from.cq.wait({&done, 1}, Duration::from_s(30)) == 1);
    CHECK(done.status == Status::success);
    CHECK(source == target);
  }
};

TEST_CASE("selective repeat is agreed when both devices have it, which is the default") {
  Selective p("roce+udp:lo,fault.loss=0.02,fault.seed=3", "roce+udp:lo");
  CHECK(p.from.device.attributes().selective_repeat);
  CHECK(p.a.query().selective_repeat == true);
  CHECK(p.b.query().selective_repeat == true);
  p.transfer(Opcode::write);
  p.transfer(Opcode::read);
}

TEST_CASE("selective repeat is left out when one device has none") {
  const bool first = GENERATE(false, true);
  const std::string none = "roce+udp:lo,selective_repeat=0", has = "roce+udp:lo";
  Selective p((first ? none : has) + ",fault.loss=0.02,fault.seed=3", first ? has : none);
  CHECK_FALSE(p.a.query().selective_repeat.has_value());
  CHECK_FALSE(p.b.query().selective_repeat.has_value());
  p.transfer(Opcode::write);
  p.transfer(Opcode::read);
}

constexpr uint32_t kBytes = 1u << 20;

struct Joined {
  Joined(const std::string& of_client, const std::string& of_server, QpType type = QpType::rc)
      : server(of_server),
        client(of_client),
        from(client.queue_pair(type)),
        to(server.queue_pair(type)) {
    const CmId listener = *server.channel.create_id();
    REQUIRE(listener.listen(0));
    at_client = client.way_to(server, listener.port());
    REQUIRE(at_client.connect(from, {.private_data = std::vector<std::byte>(56, std::byte{7})}));
    const CmEvent asked = server.expect(CmEventType::connect_request);
    CHECK(asked.peer.private_data == std::vector<std::byte>(56, std::byte{7}));
    at_server = asked.id;
    const Result<void> accepted =
        at_server.accept(to, {.private_data = std::vector<std::byte>(196, std::byte{9})});
    if (!accepted) FAIL(accepted.error().message);
    const CmEvent done = client.expect(CmEventType::established);
    CHECK(done.peer.private_data == std::vector<std::byte>(196, std::byte{9}));
    server.expect(CmEventType::established);
  }

  // A WRITE of a mebibyte arrives whole.
  void write() const {
    std::vector<std::byte> source(kBytes), target(kBytes);
    for (uint32_t i = 0; i < kBytes; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 4096);
    const MemoryRegion out = *client.pd.register_memory(source.data(), kBytes, Access::all);
    const MemoryRegion in = *server.pd.register_memory(target.data(), kBytes, Access::all);
    const Sge sge = out.sge(0, kBytes);
    REQUIRE(from.post_send({.id = 1,
                            .opcode = Opcode::write,
                            .sges = {&sge, 1},
                            .remote_address = reinterpret_cast<uint64_t>(target.data()),
                            .rkey = in.rkey()}));
    Completion done;
    REQUIRE(client.cq.wait({&done, 1}, Duration::from_s(30)) == 1);
    CHECK(done.status == Status::success);
    CHECK(source == target);
  }

  CmParty server, client;
  QueuePair from, to;
  CmId at_client, at_server;
};

constexpr const char* kHas = "roce+udp:lo";
constexpr const char* kLossy = "roce+udp:lo,fault.loss=0.02,fault.seed=3";

TEST_CASE("the connection manager agrees on selective repeat where both devices have it") {
  const Joined j(kLossy, kHas);
  CHECK(j.from.query().selective_repeat == true);
  CHECK(j.to.query().selective_repeat == true);
  j.write();
}

TEST_CASE("the connection manager leaves it out where one device has none") {
  const std::string none = GENERATE("roce+udp:lo,selective_repeat=0", "roce+udp:lo,profile=rxe",
                                    "roce+udp:lo,profile=connectx");
  const bool first = GENERATE(false, true);
  CAPTURE(none, first);
  const Joined j((first ? none : kHas) + std::string(",fault.loss=0.02,fault.seed=3"),
                 first ? kHas : none);
  CHECK_FALSE(j.from.query().selective_repeat.has_value());
  CHECK_FALSE(j.to.query().selective_repeat.has_value());
  j.write();
}

TEST_CASE("UC has no selective repeat") {
  const Joined j(kHas, kHas, QpType::uc);
  CHECK_FALSE(j.from.query().selective_repeat.has_value());
  CHECK_FALSE(j.to.query().selective_repeat.has_value());
}

TEST_CASE("a profile is opened by name, and an unknown name lists all") {
  for (const roce::Profile& profile : roce::profiles()) {
    CAPTURE(profile.name);
    const Result<Device> device = Device::open("roce+udp:lo,profile=" + std::string(profile.name));
    REQUIRE(device);
    CHECK(device->attributes().selective_repeat == roce::repeats_selectively(profile));
  }
  const Result<Device> none = Device::open("roce+udp:lo,profile=mlx5");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::invalid_argument);
  CHECK(none.error().message.find("profile=mlx5: must be one of connectx, bnxt, e810, rxe, weft") !=
        std::string::npos);
}

TEST_CASE("other keys override the profile, before it or behind it") {
  CHECK(Device::open("roce+udp:lo,profile=rxe,selective_repeat=1")->attributes().selective_repeat);
  CHECK(Device::open("roce+udp:lo,selective_repeat=1,profile=rxe")->attributes().selective_repeat);
  roce::EngineConfig config;
  roce::apply(*roce::find_profile("connectx"), config);
  roce_provider::CongestionKeys keys(config);
  std::vector<software::OwnKey> own;
  keys.append_to(own);
  REQUIRE(keys.apply(config));
  CHECK(config.cnp_interval == Duration::from_us(4));
  CHECK(config.cnp_dscp == 48);
  for (const software::OwnKey& key : own) {
    if (key.name == "cnp_interval_us") REQUIRE(key.take("77"));
    if (key.name == "cnp_dscp") REQUIRE(key.take("5"));
  }
  REQUIRE(keys.apply(config));
  CHECK(config.cnp_interval == Duration::from_us(77));
  CHECK(config.cnp_dscp == 5);
}

}  // namespace
}  // namespace weft
