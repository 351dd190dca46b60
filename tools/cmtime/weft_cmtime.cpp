// SPDX-License-Identifier: BSD-3-Clause
// Measures how fast RDMA CM establishes and ends connections, like cmtime of librdmacm. Each step
// runs for all connections before the next step starts.
// link: perftest
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "lib/base/clock.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr Duration kEventTimeout = Duration::from_s(20);

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "weft_cmtime: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
T check(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(*result);
}
void check(const Result<void>& result) {
  if (!result) fail(result.error().message);
}

struct Side {
  explicit Side(const std::string& spec) : device(check(Device::open(spec))) {}

  QueuePair queue_pair() const {
    return check(pd.queue_pair({.send_cq = cq, .recv_cq = cq, .max_send_wr = 1, .max_recv_wr = 1}));
  }
  CmEvent event() const {
    std::optional<CmEvent> event = channel.wait(kEventTimeout);
    if (!event)
      fail(
          "no connection manager event for 20 s: is the server running with the same --port and "
          "--connections?");
    if (event->error)
      fail("event " + std::string(name(event->type)) + ": " + event->error->message);
    return std::move(*event);
  }
  void expect(CmEventType type, size_t count) const {
    for (size_t i = 0; i < count; ++i)
      if (const CmEvent got = event(); got.type != type)
        fail("event " + std::string(name(got.type)) + " instead of " + std::string(name(type)) +
             ": start the server with the same --connections, then this side");
  }

  Device device;
  CmChannel channel = check(CmChannel::create(device));
  CompletionQueue cq = check(device.completion_queue({.capacity = 64}));
  ProtectionDomain pd = check(device.protection_domain());
};

// Accepts connections, and returns after `count` of them have ended.
void serve(const Side& side, uint16_t port, size_t count) {
  const CmId listener = check(side.channel.create_id());
  check(listener.listen(port));
  std::printf("listening on port %u\n", listener.port());
  std::fflush(stdout);
  std::vector<CmId> ids;
  for (size_t ended = 0; ended < count;) {
    const std::optional<CmEvent> event = side.channel.wait();
    if (!event) continue;
    if (event->type == CmEventType::connect_request) {
      check(event->id.accept(side.queue_pair()));
      ids.push_back(event->id);
    }
    if (event->type == CmEventType::disconnected || event->type == CmEventType::unreachable)
      ++ended;
  }
}

class Client {
 public:
  Client(const Side& side, size_t count) : side_(side), count_(count) {
    std::printf("%-14s %10s %10s %12s\n", "step", "total ms", "us / conn", "per second");
  }

  void run(const std::string& address) {
    step("create id", [&] { ids_.push_back(check(side_.channel.create_id())); });
    step(
        "resolve addr", [&] { check(next().resolve_address(address)); },
        CmEventType::address_resolved);
    step(
        "resolve route", [&] { check(next().resolve_route()); }, CmEventType::route_resolved);
    step("create qp", [&] { qps_.push_back(side_.queue_pair()); });
    step(
        "connect", [&] { connect(); }, CmEventType::established);
    step(
        "disconnect", [&] { check(next().disconnect()); }, CmEventType::disconnected);
  }

 private:
  // Every step processes the connections in the same order.
  const CmId& next() { return ids_[next_index_++ % count_]; }
  void connect() {
    const QueuePair& qp = qps_[next_index_ % count_];
    check(next().connect(qp));
  }

  void step(const char* what, const std::function<void()>& action,
            std::optional<CmEventType> until = {}) {
    const Instant begin = base::wall_now();
    for (size_t i = 0; i < count_; ++i) action();
    if (until) side_.expect(*until, count_);
    const double us = static_cast<double>((base::wall_now() - begin).ps) / 1e6;
    const auto count = static_cast<double>(count_);
    std::printf("%-14s %10.2f %10.2f %12.0f\n", what, us / 1e3, us / count, count / us * 1e6);
  }

  const Side& side_;
  size_t count_, next_index_ = 0;
  std::vector<CmId> ids_;
  std::vector<QueuePair> qps_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "weft_cmtime: measures how fast RDMA CM establishes connections. Start it without a host on "
      "one side, then with the address of that side's device on the other."};
  app.option_defaults()->always_capture_default();
  std::string spec, host;
  uint16_t port = 7471;
  size_t count = 1000;
  app.add_option("-d,--device", spec, "Device string, like roce+udp:lo")
      ->envname("WEFT_DEVICE")
      ->required();
  app.add_option("-p,--port", port, "Port of the server (RDMA CM)")->check(CLI::Range(1, 65535));
  app.add_option("-c,--connections", count, "Number of connections; the same on both sides")
      ->check(CLI::Range(1, 100'000));
  app.add_option("host", host, "The address of the server's device; without it this is the server");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  const Side side(spec);
  if (host.empty())
    serve(side, port, count);
  else
    Client(side, count).run(host + ":" + std::to_string(port));
  return 0;
}
