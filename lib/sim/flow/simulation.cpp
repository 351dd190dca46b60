// SPDX-License-Identifier: BSD-3-Clause
// The run loop, and the checks at the end of every run: each packet that was sent has arrived, was
// dropped or is still there, and a network in which nothing moves any more says why.
#include "lib/sim/flow/simulation.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/sim/flow/hosts.hpp"

namespace weft::sim::flow {
namespace {

using fabric::Event;
using fabric::Packet;

class Run {
 public:
  Run(const fabric::Topology& topology, const Scheme& scheme, std::span<const FlowSpec> flows,
      const RunOptions& options)
      : topology_(topology),
        scheme_(scheme),
        specs_(flows),
        options_(options),
        random_(options.seed),
        wheel_(pool_),
        routes_(topology, options.seed),
        fabric_(topology, scheme.fabric, wheel_, pool_, routes_, telemetry_, random_),
        hosts_(topology, scheme, wheel_, pool_, fabric_, telemetry_, flows.size()) {}

  Result<void> prepare();
  void loop();
  RunResult result();

 private:
  Result<void> check(const FlowSpec& spec) const;
  void dispatch(Packet& packet);
  void start_flows(int64_t now);
  void plan_start();
  void sample_until(int64_t at);
  void add_point();
  void tell_progress();
  void prefetch() const noexcept;
  void check_conservation(RunResult& result);
  void find_deadlock(RunResult& result) const;

  const fabric::Topology& topology_;
  const Scheme& scheme_;
  const std::span<const FlowSpec> specs_;
  const RunOptions options_;
  base::Random random_;
  fabric::ChunkPool pool_;
  fabric::EventWheel wheel_;
  fabric::RouteTable routes_;
  fabric::TelemetryPool telemetry_;
  fabric::Fabric fabric_;
  Hosts hosts_;
  std::vector<uint32_t> order_;  // flows by start
  size_t started_ = 0;
  QueueSamples queues_;
  int64_t next_sample_ = kNever;  // ps
  Series series_;
  int64_t end_ = 0;  // ps
  uint64_t events_ = 0;
};

Error row_error(size_t row, const std::string& text) {
  return Error{Code::invalid_argument, "flow " + std::to_string(row + 1) + ": " + text};
}

Result<void> Run::check(const FlowSpec& spec) const {
  for (const uint32_t node : {spec.src, spec.dst})
    if (node >= topology_.node_count() || !topology_.is_host(node))
      return Error{Code::invalid_argument,
                   "node " + std::to_string(node) + " is no host of this network"};
  if (spec.src == spec.dst) return Error{Code::invalid_argument, "src and dst are the same host"};
  if (spec.bytes == 0) return Error{Code::invalid_argument, "a flow of 0 bytes"};
  if (spec.bytes / scheme_.payload >= UINT32_MAX - 1)
    return Error{Code::invalid_argument, "a flow of so many packets cannot be counted"};
  if (spec.start_ns < 0) return Error{Code::invalid_argument, "a start before 0"};
  return {};
}

// Paths for all flows: ports count up per pair of hosts in the order of the list (facts 6.1 c).
Result<void> Run::prepare() {
  routes_.resize(specs_.size());
  std::map<uint64_t, uint32_t> pairs;
  order_.resize(specs_.size());
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const FlowSpec& spec = specs_[i];
    order_[i] = i;
    Result<void> good = check(spec);
    if (!good) return row_error(i, good.error().message);
    const uint32_t before = pairs[uint64_t{spec.src} << 32 | spec.dst]++;
    const auto src_port =
        static_cast<uint16_t>(spec.src_port >= 0 ? uint32_t(spec.src_port) : 10000 + before);
    const fabric::FiveTuple tuple{spec.src, spec.dst, src_port, 100};
    if (spec.path.empty()) {
      routes_.choose(i, tuple);
      continue;
    }
    Result<void> set = routes_.set(i, tuple, spec.path);
    if (!set) return row_error(i, set.error().message);
  }
  std::stable_sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
    return specs_[a].start_ns < specs_[b].start_ns;
  });
  if (options_.sample_ns > 0) {
    queues_ = QueueSamples(topology_, options_.queue_window_ns);
    next_sample_ = 0;
  }
  plan_start();
  return {};
}

// One event for the next start, not one per flow.
void Run::plan_start() {
  if (started_ == order_.size()) return;
  wheel_.plan(specs_[order_[started_]].start_ns * 1000, Event::flow_start, 0);
}

void Run::start_flows(int64_t now) {
  while (started_ < order_.size() && specs_[order_[started_]].start_ns * 1000 <= now) {
    const uint32_t flow = order_[started_++];
    hosts_.start(flow, specs_[flow]);
  }
  plan_start();
}

void Run::loop() {
  const int64_t until = options_.until_ns > kNever / 1000 ? kNever : options_.until_ns * 1000;
  while (hosts_.finished() < specs_.size() && wheel_.ready()) {
    const int64_t at = wheel_.next();
    if (at >= next_sample_) sample_until(std::min(at, until));
    if (at > until) break;
    if (wheel_.turned()) prefetch();
    Packet packet = wheel_.pop();
    if ((++events_ & 0xFFFF) == 0) {
      tell_progress();
      if (options_.progress != nullptr && options_.progress->stop) break;
    }
    dispatch(packet);
  }
  end_ = wheel_.now();
  // The samples of the window go on though nothing moves any more.
  if (until != kNever) end_ = until;
  const int64_t window = options_.queue_until_ns;
  sample_until(window < kNever / 1000 ? std::max(end_, window * 1000) : end_);
  queues_.finish();
  tell_progress();
}

// Loads what the events of the next nanosecond will touch: the port that each leaves through, and
// the account of the one that it comes in through.
void Run::prefetch() const noexcept {
  const std::vector<fabric::Port>& ports = fabric_.ports();
  wheel_.look_ahead([&ports](const Packet& packet) {
    if (packet.target >= ports.size()) return;
    const auto* const port = reinterpret_cast<const char*>(&ports[packet.target]);
    __builtin_prefetch(port, 1);
    __builtin_prefetch(port + 64, 1);
    __builtin_prefetch(&ports[packet.ingress].ingress_bytes, 1);
  });
}

void Run::dispatch(Packet& packet) {
  switch (packet.tag.event) {
    case Event::data:
    case Event::ack:
    case Event::nak:
      return packet.tag.at_host ? hosts_.deliver(packet) : fabric_.forward(packet);
    case Event::port_free:
      return fabric_.port_free(packet.target);
    case Event::nic_wake:
      return hosts_.wake(packet);
    case Event::flow_timer:
      return hosts_.timer(packet);
    case Event::flow_start:
      return start_flows(packet.at);
    case Event::pause:
    case Event::resume:
      if (fabric_.pfc_arrived(packet)) hosts_.resume(packet.target);
      return;
  }
}

// Samples at every multiple of the interval up to `at`, both ends of the window included.
void Run::sample_until(int64_t at) {
  const int64_t last =
      options_.queue_until_ns < kNever / 1000 ? options_.queue_until_ns * 1000 : kNever;
  for (; next_sample_ <= at; next_sample_ += options_.sample_ns * 1000) {
    if (next_sample_ > last) {
      next_sample_ = kNever;
      return;
    }
    queues_.sample(next_sample_ / 1000, fabric_.ports());
    if (next_sample_ >= series_.next_ns() * 1000) add_point();
  }
}

void Run::add_point() {
  Series::Point point{.at_ns = next_sample_ / 1000, .longest_queue = 0};
  for (const fabric::Port& port : fabric_.ports())
    if (!port.at_host) point.longest_queue = std::max(point.longest_queue, port.queue_bytes);
  for (uint32_t i = 0; i < std::min<size_t>(Series::kFlows, specs_.size()); ++i) {
    const FlowState& flow = hosts_.flow(i);
    if (flow.packets > 0 && !flow.done())
      point.gbps[i] = static_cast<float>(flow.controller.rate() / 1e9);
  }
  series_.add(point);
}

void Run::tell_progress() {
  if (options_.progress == nullptr) return;
  options_.progress->delivered.store(hosts_.data_delivered(), std::memory_order_relaxed);
  options_.progress->now_ns.store(wheel_.now() / 1000, std::memory_order_relaxed);
}

RunResult Run::result() {
  RunResult result;
  result.flows.resize(specs_.size());
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const int64_t end = hosts_.finished_at()[i];
    result.flows[i].ideal_ns = ideal_fct_ns(topology_, routes_.forward_path(i), specs_[i].bytes,
                                            scheme_.payload, scheme_.header);
    if (end != kNever) result.flows[i].fct_ns = end / 1000 - specs_[i].start_ns;
  }
  result.end_ns = end_ / 1000;
  result.events = events_;
  result.data_delivered = hosts_.data_delivered();
  result.retransmitted = hosts_.retransmitted();
  result.counters = fabric_.counters();
  for (const fabric::Port& port : fabric_.ports()) {
    result.paused_ns += port.paused_time / 1000;
    if (port.paused) result.paused_ns += (end_ - port.paused_since) / 1000;
    const double sent_ns = static_cast<double>(port.sent_bytes) * 8000.0 / port.mbps;
    if (result.end_ns > 0)
      result.busiest_link =
          std::max(result.busiest_link, sent_ns / static_cast<double>(result.end_ns));
  }
  result.queues = queues_;
  result.series = series_;
  check_conservation(result);
  find_deadlock(result);
  const auto mix = [&result](uint64_t word) {
    result.digest = (result.digest ^ word) * 0x9E3779B97F4A7C15;
    result.digest ^= result.digest >> 29;
  };
  for (const FlowResult& flow : result.flows) mix(static_cast<uint64_t>(flow.fct_ns));
  for (const uint64_t word : {result.counters.sent, result.counters.delivered,
                              result.counters.marked, result.counters.pauses, result.events})
    mix(word);
  return result;
}

void Run::check_conservation(RunResult& result) {
  uint64_t there = fabric_.waiting();
  uint64_t frames = 0;
  const auto count = [&](const Packet& packet) {
    there += packet.tag.event <= Event::nak;
    frames += packet.tag.event == Event::pause || packet.tag.event == Event::resume;
  };
  wheel_.each(count);
  for (const fabric::Port& port : fabric_.ports())
    port.control.each([&](const Packet& packet) {
      const bool frame = packet.tag.event == Event::pause || packet.tag.event == Event::resume;
      frames += frame;
      there -= frame;
    });
  const fabric::Counters& c = result.counters;
  result.in_flight = there;
  WEFT_CHECK(c.sent == c.delivered + c.dropped + there);
  WEFT_CHECK(c.pfc_sent == c.pauses + c.resumes + frames);
  if (there == 0) WEFT_CHECK(fabric_.empty() && telemetry_.lent() == 0);
}

// With no event left, packets that stand in queues stand behind paused ports. Each waits for room
// at the switch that paused it: walking on ends in a circle.
void Run::find_deadlock(RunResult& result) const {
  bool moving = false;
  wheel_.each([&](const Packet& packet) { moving |= packet.tag.event != Event::flow_timer; });
  if (moving || result.in_flight == 0) return;
  const std::vector<fabric::Port>& ports = fabric_.ports();
  const auto stuck = [&](const fabric::Port& p) { return p.paused && !p.data.empty(); };
  const auto first = std::find_if(ports.begin(), ports.end(), stuck);
  if (first == ports.end()) return;
  result.deadlocked = true;
  std::vector<uint32_t> walked;
  uint32_t port = static_cast<uint32_t>(first - ports.begin());
  while (std::find(walked.begin(), walked.end(), port) == walked.end()) {
    walked.push_back(port);
    for (const uint32_t next : topology_.ports_of(topology_.to(port)))
      if (stuck(ports[next])) port = next;
  }
  const auto circle = std::find(walked.begin(), walked.end(), port);
  for (auto it = circle; it != walked.end(); ++it)
    result.deadlock += std::to_string(topology_.from(*it)) + " -> ";
  result.deadlock += std::to_string(topology_.from(*circle));
}

}  // namespace

Result<RunResult> run(const fabric::Topology& topology, const Scheme& scheme,
                      std::span<const FlowSpec> flows, const RunOptions& options) {
  const auto run = std::make_unique<Run>(topology, scheme, flows, options);
  Result<void> prepared = run->prepare();
  if (!prepared) return prepared.error();
  run->loop();
  return run->result();
}

int64_t ideal_fct_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                     uint64_t bytes, uint32_t payload, uint32_t header) {
  uint32_t slowest = UINT32_MAX;
  for (const uint32_t port : path) slowest = std::min(slowest, topology.cable(port).mbps);
  const uint64_t packets = (bytes + payload - 1) / payload;
  const uint64_t wire = bytes + packets * header;
  return unloaded_rtt_ns(topology, path, payload) + static_cast<int64_t>(wire * 8000 / slowest);
}

}  // namespace weft::sim::flow
