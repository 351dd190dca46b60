// SPDX-License-Identifier: BSD-3-Clause
// The run loop, and the checks at the end of every run: each packet sent was delivered, dropped,
// lost or is still in the network, and a network that is deadlocked names the cycle.
#include "lib/sim/run/simulation.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/deadlock.hpp"
#include "lib/sim/fabric/statistics.hpp"
#include "lib/sim/hosts/engine/hosts.hpp"
#include "lib/sim/hosts/engine/srd_hosts.hpp"
#include "lib/sim/hosts/light/hosts.hpp"
#include "lib/sim/hosts/light_spray/hosts.hpp"
#include "lib/sim/run/capture.hpp"
#include "lib/sim/run/conservation.hpp"
#include "lib/sim/run/flow_life.hpp"
#include "lib/sim/run/flow_set.hpp"
#include "lib/sim/run/run_digest.hpp"
#include "lib/sim/tasks/task_run.hpp"

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
        spray_{fabric::SprayRoutes(topology, options.seed), {}},
        fabric_(topology, scheme.fabric, wheel_, pool_, routes_, telemetry_, spray_, random_),
        links_(topology, wheel_, fabric_, routes_, spray_.routes, options.link_changes,
               options.detection_ns) {
    if (scheme.sprayed() && scheme.engines)
      srd_engines_.emplace(topology, scheme, wheel_, fabric_, spray_, flows, options.seed);
    else if (scheme.sprayed())
      sprayers_.emplace(topology, scheme, wheel_, pool_, fabric_, spray_, flows.size(),
                        options.seed);
    else if (scheme.engines)
      engines_.emplace(topology, scheme, wheel_, pool_, fabric_, telemetry_, flows,
                       scheme.drops() || !options.link_changes.empty(), options.seed);
    else
      hosts_.emplace(topology, scheme, wheel_, pool_, fabric_, telemetry_, flows.size(),
                     scheme.drops() || !options.link_changes.empty());
  }

  Result<void> prepare();
  void loop();
  RunResult result();

 private:
  Result<void> set_outputs();
  Result<void> set_tasks();
  void dispatch(Packet& packet);
  // Calls `what` with the hosts of this run.
  template <class Do>
  auto with_hosts(Do what) const {
    if (engines_) return what(*engines_);
    if (srd_engines_) return what(*srd_engines_);
    return sprayers_ ? what(*sprayers_) : what(*hosts_);
  }
  template <class Do>
  auto with_hosts(Do what) {
    if (engines_) return what(*engines_);
    if (srd_engines_) return what(*srd_engines_);
    return sprayers_ ? what(*sprayers_) : what(*hosts_);
  }
  void start_flows(int64_t now);
  void advance_tasks(int64_t now);
  void plan_start();
  void sample_until(int64_t at);
  void add_point();
  void publish_progress();
  bool carries_messages(uint32_t flow) const { return tasks_ && tasks_->messages().carries(flow); }
  // The NIC of `port` may send again.
  void resume(uint32_t port) { engines_ ? engines_->resume(port) : hosts_->resume(port); }
  bool stalled();
  void prefetch() noexcept;
  size_t finished() const noexcept {
    return with_hosts([](const auto& hosts) { return hosts.finished(); });
  }
  void check_conservation(RunResult& result);

  const fabric::Topology& topology_;
  const Scheme& scheme_;
  const std::span<const FlowSpec> specs_;
  const RunOptions options_;
  base::Random random_;
  fabric::ChunkPool pool_;
  fabric::EventWheel wheel_;
  fabric::RouteTable routes_;
  fabric::TelemetryPool telemetry_;
  fabric::Spray spray_;
  fabric::Fabric fabric_;
  fabric::LinkChanges links_;
  // The hosts of this run: one of the four.
  std::optional<Hosts> hosts_;
  std::optional<spray::Hosts> sprayers_;
  std::optional<engines::Hosts> engines_;
  std::optional<engines::SrdHosts> srd_engines_;
  std::optional<TaskRun> tasks_;
  std::vector<uint32_t> order_;  // flows without messages, by start
  std::vector<int64_t> ideals_;  // ns by flow, on the paths of the beginning
  size_t started_ = 0;           // flows, of order_
  QueueSamples queues_;
  int64_t next_sample_ = kNever;  // ps
  Series series_;
  std::vector<uint32_t> series_flows_;
  std::optional<Capture> capture_;
  std::optional<FlowLife> life_;
  int64_t end_ = 0;  // ps
  uint64_t events_ = 0;
  struct {
    uint64_t delivered = 0;  // data packets delivered, at the last check of progress
    uint64_t checks = 0;     // checks since that number changed
  } idle_;
  bool stalled_ = false;
};

Result<void> Run::set_tasks() {
  if (options_.tasks == nullptr) return {};
  if (Result<void> good = check_job(*options_.tasks, specs_, scheme_); !good) return good;
  tasks_.emplace(*options_.tasks, specs_.size(), scheme_.payload);
  sprayers_ ? sprayers_->use_messages(tasks_->messages())
            : hosts_->use_messages(tasks_->messages());
  wheel_.plan(0, Event::task_start, 0);
  return {};
}

// Begins the tasks that may, and sends their messages.
void Run::advance_tasks(int64_t now) {
  do {
    for (const uint32_t flow : tasks_->advance(now))
      sprayers_ ? sprayers_->release(flow, specs_[flow]) : hosts_->release(flow, specs_[flow]);
  } while (tasks_->messages().has_ends());
  if (tasks_->plan_event(now)) wheel_.plan(tasks_->next(), Event::task_start, 0);
}

Result<void> Run::prepare() {
  if (Result<void> set = set_tasks(); !set) return set;
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    if (!carries_messages(i)) order_.push_back(i);
    const Result<void> good = check_flow(specs_[i], topology_, scheme_);
    if (!good) return row_error(i, good.error().message);
  }
  Result<void> prepared = scheme_.sprayed() ? Result<void>() : choose_paths(specs_, routes_);
  if (prepared) prepared = links_.prepare();
  if (!prepared) return prepared;
  Result<std::vector<uint8_t>> classes = classes_of(specs_, scheme_);
  if (!classes) return classes.error();
  if (!classes->empty()) fabric_.use_classes(std::move(*classes));
  for (uint32_t i = 0; i < specs_.size(); ++i)
    ideals_.push_back(ideal_ns(topology_, scheme_, routes_, i, specs_[i]));
  std::stable_sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
    return specs_[a].start_ns < specs_[b].start_ns;
  });
  if (options_.sample_ns > 0) {
    queues_ = QueueSamples(topology_, options_.queue_window_ns);
    next_sample_ = 0;
  }
  plan_start();
  return set_outputs();
}

Result<void> Run::set_outputs() {
  series_flows_ = series_flows(options_, specs_.size());
  Result<void> good = check_outputs(options_, specs_.size());
  if (good && options_.life_of) {
    if (scheme_.engines)  // whose packets are numbered otherwise
      return Error{Code::not_supported,
                   "the life of a flow is recorded at light hosts: set host.fidelity to flow"};
    life_.emplace(topology_, fabric_, *options_.life_of, specs_[*options_.life_of].src);
    fabric_.on_drop([this](const Packet& packet) { life_->dropped(packet); });
  }
  if (!good || options_.pcap.empty()) return good;
  Result<Capture> capture =
      Capture::open(options_.pcap, scheme_, specs_, routes_, options_.pcap_flows);
  if (!capture) return capture.error();
  capture_.emplace(std::move(*capture));
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
    WEFT_DCHECK(flow < specs_.size());
    with_hosts([&](auto& hosts) { hosts.start(flow, specs_[flow]); });
  }
  plan_start();
}

void Run::loop() {
  const int64_t until = options_.until_ns > kNever / 1000 ? kNever : options_.until_ns * 1000;
  while ((finished() < specs_.size() || (tasks_ && !tasks_->done())) && wheel_.ready()) {
    const int64_t at = wheel_.next();
    if (at >= next_sample_) sample_until(std::min(at, until));
    if (at > until) break;
    if (wheel_.turned()) prefetch();
    WEFT_DCHECK(at >= wheel_.now());
    Packet packet = wheel_.pop();
    dispatch(packet);
    if (tasks_ && tasks_->messages().has_ends()) advance_tasks(at);
    if ((++events_ & 0xFFFF) != 0) continue;
    publish_progress();
    if (stalled() || (options_.progress != nullptr && options_.progress->stop)) break;
  }
  // Sampling continues to the end of its window though the run has ended.
  WEFT_DCHECK(finished() <= specs_.size());
  end_ = until != kNever ? until : wheel_.now();
  const int64_t window = options_.queue_until_ns;
  sample_until(window < kNever / 1000 ? std::max(end_, window * 1000) : end_);
  queues_.finish();
  publish_progress();
}

// Where links fail permanently, flows without a route retransmit for ever. A run has stalled when
// no data was delivered during a million events, and 64 more of each flow.
bool Run::stalled() {
  const uint64_t delivered = with_hosts([](const auto& hosts) { return hosts.data_delivered(); });
  idle_.checks = delivered == idle_.delivered ? idle_.checks + 1 : 0;
  idle_.delivered = delivered;
  stalled_ =
      started_ == order_.size() && !links_.pending() && idle_.checks > 16 + specs_.size() / 1024;
  return stalled_;
}

// Loads what the events of the next nanosecond will touch: the egress port of each packet, and the
// account of its ingress.
void Run::prefetch() noexcept {
  const std::vector<fabric::Port>& ports = fabric_.ports();
  const bool accounts = !scheme_.sprayed();
  wheel_.look_ahead([&, accounts](const Packet& packet) {
    if (engines_ && packet.tag.at_host) return engines_->prefetch(packet);
    if (srd_engines_ && packet.tag.at_host) return srd_engines_->prefetch(packet);
    if (packet.target >= ports.size()) return;
    const auto* const port = reinterpret_cast<const char*>(&ports[packet.target]);
    __builtin_prefetch(port, 1);
    __builtin_prefetch(port + 64, 1);
    if (accounts) __builtin_prefetch(&ports[packet.ingress].ingress_bytes, 1);
  });
}

void Run::dispatch(Packet& packet) {
  if (life_) life_->see(packet);
  switch (packet.tag.event) {
    case Event::data:
    case Event::ack:
    case Event::nak:
    case Event::trimmed:
    case Event::credit_grant:
    case Event::probe:
      if (!packet.tag.at_host) return fabric_.forward(packet);
      if (capture_) capture_->arrived(packet);
      return with_hosts([&](auto& hosts) { hosts.deliver(packet); });
    case Event::port_free:
      return fabric_.port_free(packet.target);
    case Event::nic_wake:
      return with_hosts([&](auto& hosts) { hosts.wake(packet); });
    case Event::flow_timer:
      WEFT_DCHECK(sprayers_ || hosts_);
      return sprayers_ ? sprayers_->timer(packet) : hosts_->timer(packet);
    case Event::host_timer:
      WEFT_DCHECK(sprayers_.has_value());
      return sprayers_->host_timer(packet);
    case Event::flow_start:
      return start_flows(packet.at);
    case Event::task_start:
      return advance_tasks(packet.at);
    case Event::link_change:
      for (const uint32_t port : links_.apply_due()) resume(port);
      return;
    case Event::pause:
    case Event::resume:
      if (fabric_.pfc_arrived(packet)) resume(packet.target);
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
  for (uint32_t i = 0; i < series_flows_.size(); ++i) {
    const uint32_t flow = series_flows_[i];
    point.gbps[i] =
        static_cast<float>(with_hosts([=](const auto& hosts) { return hosts.rate(flow); }) / 1e9);
  }
  series_.add(point);
}

void Run::publish_progress() {
  if (options_.progress == nullptr) return;
  const uint64_t delivered = with_hosts([](const auto& hosts) { return hosts.data_delivered(); });
  options_.progress->delivered.store(delivered, std::memory_order_relaxed);
  options_.progress->now_ns.store(wheel_.now() / 1000, std::memory_order_relaxed);
}

RunResult Run::result() {
  RunResult result;
  result.flows.resize(specs_.size());
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const int64_t end = with_hosts([i](const auto& hosts) { return hosts.finished_at()[i]; });
    result.flows[i].ideal_ns = ideals_[i];
    result.flows[i].started_ns = specs_[i].start_ns;
    if (end != kNever) result.flows[i].fct_ns = end / 1000 - specs_[i].start_ns;
  }
  if (tasks_) take_task_times(*options_.tasks, tasks_->times(), result);
  result.end_ns = end_ / 1000;
  result.events = events_;
  with_hosts([&result](const auto& hosts) {
    result.data_delivered = hosts.data_delivered();
    result.retransmitted = hosts.retransmitted();
  });
  result.counters = fabric_.counters();
  result.ports = port_use(topology_, fabric_, end_);
  for (const PortUse& use : result.ports) {
    result.paused_ns += use.paused_ns;
    result.busiest_link = std::max(result.busiest_link, use.utilisation);
  }
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const uint32_t last = topology_.ports_of(specs_[i].dst)[0] ^ 1;
    result.flows[i].bottleneck =
        scheme_.sprayed() ? last : busiest_port(routes_.forward_path(i), result.ports);
  }
  result.queues = queues_;
  result.series = series_;
  if (life_) result.life = life_->report();
  result.stalled = stalled_;
  check_conservation(result);
  result.deadlock = fabric::find_deadlock(topology_, fabric_, wheel_, stalled_);
  result.deadlocked = !result.deadlock.empty();
  result.digest = run_digest(result, scheme_.sprayed());
  return result;
}

void Run::check_conservation(RunResult& result) {
  const InNetwork in = count_in_network(fabric_, wheel_);
  const fabric::Counters& c = result.counters;
  result.in_flight = in.packets;
  WEFT_CHECK(c.sent == c.delivered + c.dropped + c.lost + in.packets);
  WEFT_CHECK(c.pfc_sent == c.pauses + c.resumes + c.pfc_lost + in.pfc_frames);
  if (sprayers_) WEFT_CHECK(spray_.acks.lent() == in.acks);
  if (engines_) WEFT_CHECK(engines_->frames_lent() == in.packets);
  if (srd_engines_) WEFT_CHECK(srd_engines_->frames_lent() == in.packets);
  if (in.packets == 0) WEFT_CHECK(fabric::empty(fabric_) && telemetry_.lent() == 0);
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

}  // namespace weft::sim::flow
