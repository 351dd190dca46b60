// SPDX-License-Identifier: BSD-3-Clause
// The packet model: an event loop over links that become free and packets that arrive at nodes.
#include "lib/collective/model/packet_model.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <queue>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "lib/collective/model/program_run.hpp"

namespace weft::collective {
namespace {

constexpr double kPicoseconds = 1e12;

// A put in progress; the counters are packets.
struct Message {
  uint32_t call = 0;
  ProgramRun::Put put;
  uint64_t packets = 1, injected = 0, sent_packets = 0, arrived_packets = 0;
};

struct Packet {
  uint32_t message = 0;
  double bytes = 0;
  bool retransmission = false;
};

struct Event {
  int64_t time = 0;  // ps
  uint64_t number = 0;
  enum class Kind : uint8_t { call, link_free, arrival, retransmission } kind = Kind::call;
  uint32_t where = 0;  // call, link, or node
  Packet packet;
  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : number > other.number;
  }
};

// The transmit queues of one direction of a cable. Classes with weights share it by weighted fair
// queueing (virtual time).
struct Queues {
  std::array<std::deque<Packet>, kTrafficClasses> waiting;
  std::array<double, kTrafficClasses> virtual_time = {};  // bytes sent / weight
  double virtual_now = 0;                                 // virtual_time of the last class sent
  bool busy = false;
  Packet sending;
};

class PacketModel {
 public:
  PacketModel(std::span<const PacketCall> calls, const Topology& topology, Routes& routes,
              const PacketOptions& options)
      : calls_(calls),
        topology_(topology),
        routes_(routes),
        options_(options),
        random_(options.seed),
        links_(topology.links.size()),
        next_hops_(topology.media.size() + 1),
        runs_(calls.size()),
        pair_queues_(calls.size()),
        dead_(topology.nodes),
        failure_time_(options.loss.nodes.empty() ? INT64_MAX : picoseconds(options.loss.at_s)),
        detected_(options.loss.nodes.empty()
                      ? INT64_MAX
                      : failure_time_ + picoseconds(options.loss.detection_s)) {
    WEFT_DCHECK(options.window > 0 && options.packet_bytes > 0 && options.loss.detection_s >= 0);
    for (const uint32_t node : options.loss.nodes) dead_[node] = true;
    outcome_.seconds.assign(calls.size(), INFINITY);
    outcome_.link_bytes.assign(topology.links.size(), 0);
    for (uint32_t call = 0; call < calls.size(); ++call)
      schedule(picoseconds(calls[call].start_s), Event::Kind::call, call, {});
  }

  PacketOutcome run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      WEFT_DCHECK(event.time >= now_);  // time never runs backwards
      now_ = event.time;
      if (event.kind == Event::Kind::call)
        start_call(event.where);
      else if (event.kind == Event::Kind::link_free)
        on_link_free(event.where);
      else if (event.kind == Event::Kind::retransmission)
        forward(event.where, event.packet);
      else
        on_arrival(event.where, event.packet);
    }
    return std::move(outcome_);
  }

 private:
  static int64_t picoseconds(double seconds) { return std::llround(seconds * kPicoseconds); }

  void schedule(int64_t time, Event::Kind kind, uint32_t where, const Packet& packet) {
    WEFT_DCHECK(time >= now_);
    events_.push({time, next_event_number_++, kind, where, packet});
  }

  void start_call(uint32_t c) {
    const PacketCall& call = calls_[c];
    WEFT_DCHECK(call.programs != nullptr && call.traffic_class < kTrafficClasses);
    runs_[c] =
        std::make_unique<ProgramRun>(call.shape, *call.programs, call.element, call.accumulator);
    pair_queues_[c].resize(size_t{call.shape.ranks} * call.shape.ranks);
    start_puts(c);
  }

  void start_puts(uint32_t c) {
    for (ProgramRun::Put& put : runs_[c]->take_ready_puts()) {
      put.dimension = routes_.usable_dimension(put.from, put.to, put.dimension);
      const uint32_t message_index = static_cast<uint32_t>(messages_.size());
      const double packets = std::max(1.0, std::ceil(put.bytes / options_.packet_bytes));
      messages_.push_back({c, put, static_cast<uint64_t>(packets)});
      pair_queue(c, put).push_back(message_index);
      for (uint32_t i = 0; i < options_.window; ++i) inject_next(message_index);
    }
    if (runs_[c]->done() && std::isinf(outcome_.seconds[c]))
      outcome_.seconds[c] = static_cast<double>(now_) / kPicoseconds - calls_[c].start_s;
  }

  std::deque<uint32_t>& pair_queue(uint32_t c, const ProgramRun::Put& put) {
    return pair_queues_[c][size_t{put.from} * calls_[c].shape.ranks + put.to];
  }

  void inject_next(uint32_t message_index) {
    Message& message = messages_[message_index];
    WEFT_DCHECK(message.injected <= message.packets);
    if (message.injected == message.packets) return;
    const double injected = static_cast<double>(message.injected++) * options_.packet_bytes;
    const double bytes = std::min(options_.packet_bytes, message.put.bytes - injected);
    WEFT_DCHECK(bytes >= 0 && bytes <= options_.packet_bytes);
    forward(message.put.from, {message_index, bytes});
  }

  void forward(uint32_t node, const Packet& packet) {
    const ProgramRun::Put& put = messages_[packet.message].put;
    std::vector<uint32_t>* hops = &next_hops(node, put.to, put.dimension);
    if (now_ >= detected_) std::erase_if(*hops, [&](uint32_t link) { return is_dead(link); });
    if (hops->empty()) hops = &next_hops(node, put.to, kAnyDimension);
    if (now_ >= detected_) std::erase_if(*hops, [&](uint32_t link) { return is_dead(link); });
    const std::vector<uint32_t>& usable = *hops;
    if (usable.empty()) return;  // no path is left: the call never completes
    const uint32_t link = usable.size() == 1 ? usable[0] : usable[random_.below(usable.size())];
    const uint32_t c = calls_[messages_[packet.message].call].traffic_class;
    links_[link].waiting[c].push_back(packet);
    if (!links_[link].busy) serve(link);
  }

  // The links from a node on a shortest path to a chip; empty if all have failed.
  std::vector<uint32_t>& next_hops(uint32_t node, uint32_t to, uint8_t dimension) {
    auto& by_dimension = next_hops_[std::min<size_t>(dimension, topology_.media.size())];
    if (by_dimension.empty()) by_dimension.resize(size_t{topology_.nodes} * topology_.chips);
    NextHops& next_hops = by_dimension[size_t{node} * topology_.chips + to];
    if (!next_hops.known) next_hops = {true, routes_.next_links(node, to, dimension)};
    return next_hops.links;
  }

  bool is_dead(uint32_t link) const {
    return now_ >= failure_time_ &&
           (dead_[topology_.links[link].from] || dead_[topology_.links[link].to]);
  }

  void drop(Packet packet) {
    packet.retransmission = true;
    ++outcome_.lost;
    schedule(now_ + picoseconds(options_.loss.detection_s), Event::Kind::retransmission,
             messages_[packet.message].put.from, packet);
  }

  // The class to send next: strict classes first, then the one with the least virtual time.
  uint32_t next_class(Queues& queues) {
    uint32_t best = kTrafficClasses;
    for (uint32_t c = 0; c < kTrafficClasses; ++c) {
      if (queues.waiting[c].empty()) continue;
      if (options_.weights[c] == 0 && best == kTrafficClasses) return c;
      if (options_.weights[c] == 0) continue;
      queues.virtual_time[c] =
          std::max(queues.virtual_time[c], queues.virtual_now);  // idle classes earn no credit
      if (best == kTrafficClasses || queues.virtual_time[c] < queues.virtual_time[best]) best = c;
    }
    return best;
  }

  void serve(uint32_t link) {
    Queues& queues = links_[link];
    const uint32_t c = next_class(queues);
    WEFT_DCHECK(!queues.busy);
    if (c == kTrafficClasses) return;
    queues.sending = queues.waiting[c].front();
    queues.waiting[c].pop_front();
    queues.busy = true;
    if (options_.weights[c] > 0) {
      queues.virtual_now = queues.virtual_time[c];
      queues.virtual_time[c] += queues.sending.bytes / options_.weights[c];
    }
    ++outcome_.packets;
    outcome_.link_bytes[link] += queues.sending.bytes;
    const double seconds = queues.sending.bytes / topology_.links[link].bytes_per_s;
    schedule(now_ + picoseconds(seconds), Event::Kind::link_free, link, {});
  }

  void on_link_free(uint32_t link) {
    const Packet packet = links_[link].sending;
    WEFT_DCHECK(links_[link].busy);
    links_[link].busy = false;
    const bool first = topology_.links[link].from == messages_[packet.message].put.from;
    if (is_dead(link))
      drop(packet);
    else
      schedule(now_ + picoseconds(topology_.links[link].latency_s), Event::Kind::arrival,
               topology_.links[link].to, packet);
    if (first && !packet.retransmission) on_packet_sent(packet.message);
    if (!links_[link].busy) serve(link);
  }

  // A packet of this message has left its source chip.
  void on_packet_sent(uint32_t message_index) {
    WEFT_DCHECK(messages_[message_index].sent_packets < messages_[message_index].injected);
    inject_next(message_index);
    if (++messages_[message_index].sent_packets < messages_[message_index].packets) return;
    const Message& message = messages_[message_index];
    runs_[message.call]->on_sent(message.put);
    start_puts(message.call);
  }

  void on_arrival(uint32_t node, const Packet& packet) {
    Message& message = messages_[packet.message];
    if (now_ >= failure_time_ && dead_[node]) return drop(packet);
    if (node != message.put.to) return forward(node, packet);
    WEFT_DCHECK(message.arrived_packets < message.injected);
    if (++message.arrived_packets < message.packets) return;
    const uint32_t c = message.call;
    std::deque<uint32_t>& waiting = pair_queue(c, message.put);
    while (!waiting.empty() &&
           messages_[waiting.front()].arrived_packets == messages_[waiting.front()].packets) {
      const ProgramRun::Put put = messages_[waiting.front()].put;
      waiting.pop_front();
      runs_[c]->on_arrived(put.from, put.to);
    }
    start_puts(c);
  }

  std::span<const PacketCall> calls_;
  const Topology& topology_;
  Routes& routes_;
  PacketOptions options_;
  base::Random random_;
  std::vector<Queues> links_;
  struct NextHops {
    bool known = false;
    std::vector<uint32_t> links;
  };
  std::vector<std::vector<NextHops>> next_hops_;  // per dimension, per node and target chip
  std::vector<std::unique_ptr<ProgramRun>> runs_;
  std::vector<std::vector<std::deque<uint32_t>>>
      pair_queues_;  // per call, source and destination: messages in order
  std::vector<Message> messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<bool> dead_;  // nodes that fail at failure_time_
  int64_t failure_time_, detected_;
  uint64_t next_event_number_ = 0;
  int64_t now_ = 0;
  PacketOutcome outcome_;
};

}  // namespace

PacketOutcome simulate_packets(std::span<const PacketCall> calls, const Topology& topology,
                               Routes& routes, const PacketOptions& options) {
  return PacketModel(calls, topology, routes, options).run();
}

}  // namespace weft::collective
