// SPDX-License-Identifier: BSD-3-Clause
// The packet model: an event loop over links that get free and packets that come to nodes.
#include "lib/collective/model/packet_model.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <queue>

#include "lib/base/random.hpp"
#include "lib/collective/model/program_run.hpp"

namespace weft::collective {
namespace {

constexpr double kPicoseconds = 1e12;

// A put under way.
struct Message {
  uint32_t call = 0;
  ProgramRun::Put put;
  uint64_t packets = 1, given = 0, left = 0, arrived = 0;
};

struct Packet {
  uint32_t message = 0;
  double bytes = 0;
  bool again = false;  // it was lost
};

struct Event {
  int64_t time = 0;  // ps
  uint64_t number = 0;
  enum class Kind : uint8_t { call, link_free, arrival, again } kind = Kind::call;
  uint32_t where = 0;  // call, link, or node
  Packet packet;
  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : number > other.number;
  }
};

// One direction of a cable.
struct Queues {
  std::array<std::deque<Packet>, kTrafficClasses> waiting;
  std::array<double, kTrafficClasses> served = {};  // bytes over weight
  double now = 0;                                   // of the class served last
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
        ways_(topology.media.size() + 1),
        runs_(calls.size()),
        in_order_(calls.size()),
        dead_(topology.nodes),
        dies_(options.loss.nodes.empty() ? INT64_MAX : picoseconds(options.loss.at_s)),
        noticed_(options.loss.nodes.empty() ? INT64_MAX
                                            : dies_ + picoseconds(options.loss.notice_s)) {
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
      now_ = event.time;
      if (event.kind == Event::Kind::call)
        begin(event.where);
      else if (event.kind == Event::Kind::link_free)
        link_free(event.where);
      else if (event.kind == Event::Kind::again)
        forward(event.where, event.packet);
      else
        arrive(event.where, event.packet);
    }
    return std::move(outcome_);
  }

 private:
  static int64_t picoseconds(double seconds) { return std::llround(seconds * kPicoseconds); }

  void schedule(int64_t time, Event::Kind kind, uint32_t where, const Packet& packet) {
    events_.push({time, number_++, kind, where, packet});
  }

  void begin(uint32_t c) {
    const PacketCall& call = calls_[c];
    runs_[c] =
        std::make_unique<ProgramRun>(call.shape, *call.programs, call.element, call.accumulator);
    in_order_[c].resize(size_t{call.shape.ranks} * call.shape.ranks);
    start_puts(c);
  }

  void start_puts(uint32_t c) {
    for (ProgramRun::Put& put : runs_[c]->take_startable()) {
      put.along = routes_.way(put.from, put.to, put.along);
      const uint32_t number = static_cast<uint32_t>(messages_.size());
      const double packets = std::max(1.0, std::ceil(put.bytes / options_.packet_bytes));
      messages_.push_back({c, put, static_cast<uint64_t>(packets)});
      pair(c, put).push_back(number);
      for (uint32_t i = 0; i < options_.window; ++i) give_next(number);
    }
    if (runs_[c]->done() && std::isinf(outcome_.seconds[c]))
      outcome_.seconds[c] = static_cast<double>(now_) / kPicoseconds - calls_[c].start_s;
  }

  std::deque<uint32_t>& pair(uint32_t c, const ProgramRun::Put& put) {
    return in_order_[c][size_t{put.from} * calls_[c].shape.ranks + put.to];
  }

  void give_next(uint32_t number) {
    Message& message = messages_[number];
    if (message.given == message.packets) return;
    const double given = static_cast<double>(message.given++) * options_.packet_bytes;
    const double bytes = std::min(options_.packet_bytes, message.put.bytes - given);
    forward(message.put.from, {number, bytes});
  }

  void forward(uint32_t node, const Packet& packet) {
    const ProgramRun::Put& put = messages_[packet.message].put;
    std::vector<uint32_t>* known = &ways(node, put.to, put.along);
    if (now_ >= noticed_) std::erase_if(*known, [&](uint32_t way) { return is_dead(way); });
    if (known->empty()) known = &ways(node, put.to, kAnyWay);
    if (now_ >= noticed_) std::erase_if(*known, [&](uint32_t way) { return is_dead(way); });
    const std::vector<uint32_t>& ways = *known;
    if (ways.empty()) return;  // there is no other way: the call does not end
    const uint32_t link = ways.size() == 1 ? ways[0] : ways[random_.below(ways.size())];
    const uint32_t c = calls_[messages_[packet.message].call].traffic_class;
    links_[link].waiting[c].push_back(packet);
    if (!links_[link].busy) serve(link);
  }

  // The next links on the way to a chip; empty if all are dead.
  std::vector<uint32_t>& ways(uint32_t node, uint32_t to, uint8_t along) {
    auto& of_way = ways_[std::min<size_t>(along, topology_.media.size())];
    if (of_way.empty()) of_way.resize(size_t{topology_.nodes} * topology_.chips);
    Ways& ways = of_way[size_t{node} * topology_.chips + to];
    if (!ways.known) ways = {true, routes_.next_links(node, to, along)};
    return ways.links;
  }

  bool is_dead(uint32_t link) const {
    return now_ >= dies_ && (dead_[topology_.links[link].from] || dead_[topology_.links[link].to]);
  }

  void lose(Packet packet) {
    packet.again = true;
    ++outcome_.lost;
    schedule(now_ + picoseconds(options_.loss.notice_s), Event::Kind::again,
             messages_[packet.message].put.from, packet);
  }

  // The class whose turn it is; of those that share by weight, the one that has had least.
  uint32_t next_class(Queues& queues) {
    uint32_t best = kTrafficClasses;
    for (uint32_t c = 0; c < kTrafficClasses; ++c) {
      if (queues.waiting[c].empty()) continue;
      if (options_.weights[c] == 0 && best == kTrafficClasses) return c;
      if (options_.weights[c] == 0) continue;
      queues.served[c] = std::max(queues.served[c], queues.now);  // idle: owed nothing
      if (best == kTrafficClasses || queues.served[c] < queues.served[best]) best = c;
    }
    return best;
  }

  void serve(uint32_t link) {
    Queues& queues = links_[link];
    const uint32_t c = next_class(queues);
    if (c == kTrafficClasses) return;
    queues.sending = queues.waiting[c].front();
    queues.waiting[c].pop_front();
    queues.busy = true;
    if (options_.weights[c] > 0) {
      queues.now = queues.served[c];
      queues.served[c] += queues.sending.bytes / options_.weights[c];
    }
    ++outcome_.packets;
    outcome_.link_bytes[link] += queues.sending.bytes;
    const double seconds = queues.sending.bytes / topology_.links[link].bytes_per_s;
    schedule(now_ + picoseconds(seconds), Event::Kind::link_free, link, {});
  }

  void link_free(uint32_t link) {
    const Packet packet = links_[link].sending;
    links_[link].busy = false;
    const bool first = topology_.links[link].from == messages_[packet.message].put.from;
    if (is_dead(link))
      lose(packet);
    else
      schedule(now_ + picoseconds(topology_.links[link].latency_s), Event::Kind::arrival,
               topology_.links[link].to, packet);
    if (first && !packet.again) sent(packet.message);
    if (!links_[link].busy) serve(link);
  }

  // A packet has left its chip.
  void sent(uint32_t number) {
    give_next(number);
    if (++messages_[number].left < messages_[number].packets) return;
    const Message& message = messages_[number];
    runs_[message.call]->left(message.put);
    start_puts(message.call);
  }

  void arrive(uint32_t node, const Packet& packet) {
    Message& message = messages_[packet.message];
    if (now_ >= dies_ && dead_[node]) return lose(packet);
    if (node != message.put.to) return forward(node, packet);
    if (++message.arrived < message.packets) return;
    const uint32_t c = message.call;
    std::deque<uint32_t>& waiting = pair(c, message.put);
    while (!waiting.empty() &&
           messages_[waiting.front()].arrived == messages_[waiting.front()].packets) {
      const ProgramRun::Put put = messages_[waiting.front()].put;
      waiting.pop_front();
      runs_[c]->arrived(put.from, put.to);
    }
    start_puts(c);
  }

  std::span<const PacketCall> calls_;
  const Topology& topology_;
  Routes& routes_;
  PacketOptions options_;
  base::Random random_;
  std::vector<Queues> links_;
  struct Ways {
    bool known = false;
    std::vector<uint32_t> links;
  };
  std::vector<std::vector<Ways>> ways_;  // by dimension; by node and target
  std::vector<std::unique_ptr<ProgramRun>> runs_;
  std::vector<std::vector<std::deque<uint32_t>>> in_order_;  // by call and pair: messages to come
  std::vector<Message> messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<bool> dead_;  // nodes, from `dies_` on
  int64_t dies_, noticed_;
  uint64_t number_ = 0;
  int64_t now_ = 0;
  PacketOutcome outcome_;
};

}  // namespace

PacketOutcome simulate_packets(std::span<const PacketCall> calls, const Topology& topology,
                               Routes& routes, const PacketOptions& options) {
  return PacketModel(calls, topology, routes, options).run();
}

}  // namespace weft::collective
