// SPDX-License-Identifier: BSD-3-Clause
// Connection managers without engines: agents at addresses, and a network in virtual time that
// loses, repeats and delays their datagrams, from a seed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/roce/cm/agent.hpp"

namespace weft::test {

struct CmFaults {
  uint32_t loss_ppm = 0, repeat_ppm = 0, late_ppm = 0;
};

class CmNet {
 public:
  // An agent and the inbox of its application.
  struct Node {
    Node(CmNet& net, const cm::AgentConfig& config, uint64_t seed)
        : address(config.address), random(seed), agent(config, random), net(net) {}
    Gid address;
    base::SecureRandom random;
    cm::Agent agent;
    CmNet& net;
    cm::Inbox inbox;
    // The application: called for each event.
    std::function<void(cm::Event&)> on_event;

    Result<uint32_t> connect(const Node& to, uint64_t service, uint32_t qpn) {
      return agent.connect(to.address, service, {.qpn = {qpn}, .psn = {qpn + 1}}, inbox, net.now);
    }
    Result<void> accept(uint32_t id, uint32_t qpn) {
      return agent.accept(id, {.qpn = {qpn}, .psn = {qpn + 1}}, net.now);
    }
  };

  explicit CmNet(uint64_t seed, const CmFaults& what = {}) : faults(what), random_(seed) {}

  Node& add(cm::AgentConfig config = {}) {
    const auto n = static_cast<uint8_t>(nodes_.size() + 1);
    if (config.address == Gid{}) config.address = Gid::from_ipv4(10, 0, 0, n);
    nodes_.push_back(std::make_unique<Node>(*this, config, random_.next()));
    return *nodes_.back();
  }
  // A process ends and another begins at its address.
  void restart(Node& node, cm::AgentConfig config = {}) {
    for (auto& slot : nodes_)
      if (slot.get() == &node) {
        config.address = node.address;
        config.start = now;
        slot = std::make_unique<Node>(*this, config, random_.next());
      }
  }
  Node& at(size_t i) { return *nodes_[i]; }

  // What is seen of each datagram when it leaves; false: it is lost.
  std::function<bool(const Gid& from, const Gid& to, const cm::Mad& mad)> filter;

  // Runs for `span` of virtual time.
  void run(Duration span) {
    const Instant until = now + span;
    for (;;) {
      pump();
      Instant next = in_flight_.empty() ? Instant::never() : in_flight_.begin()->first.first;
      for (const auto& node : nodes_) next = std::min(next, node->agent.next_deadline());
      if (next > until) break;
      now = std::max(now, next);
      while (!in_flight_.empty() && in_flight_.begin()->first.first <= now) arrive();
      for (const auto& node : nodes_) {
        node->agent.expire(now);
        check(*node);
      }
    }
    now = until;
  }
  void give(Node& to, const Gid& from, const cm::Mad& mad) {
    to.agent.on_datagram(mad, from, now);
    check(to);
  }

  Instant now;
  CmFaults faults;

 private:
  struct Flight {
    Gid from, to;
    cm::Mad mad;
  };

  // After each event; with many connections, after one of 1024.
  void check(Node& node) {
    if (node.agent.connections() < 64 || ++unchecked_ % 1024 == 0) node.agent.check_invariants();
  }
  void pump() {
    for (const auto& node : nodes_) {
      cm::Event event;
      while (node->on_event && node->agent.next(node->inbox, event)) node->on_event(event);
      while (const roce::ManagementDatagram* d = node->agent.next_datagram())
        leave({node->address, d->to, d->bytes});
      check(*node);
    }
  }
  void leave(const Flight& f) {
    if (filter && !filter(f.from, f.to, f.mad)) return;
    if (random_.chance_ppm(faults.loss_ppm)) return;
    const uint32_t copies = random_.chance_ppm(faults.repeat_ppm) ? 2 : 1;
    for (uint32_t i = 0; i < copies; ++i) {
      Duration delay = Duration::from_us(10);
      if (random_.chance_ppm(faults.late_ppm))
        delay = Duration::from_us(static_cast<int64_t>(random_.below(600'000)));
      in_flight_[{now + delay, ++sent_}] = f;
    }
  }
  void arrive() {
    const Flight f = in_flight_.begin()->second;
    in_flight_.erase(in_flight_.begin());
    for (const auto& node : nodes_)
      if (node->address == f.to) node->agent.on_datagram(f.mad, f.from, now);
  }

  base::Random random_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::pair<Instant, uint64_t>, Flight> in_flight_;
  uint64_t sent_ = 0, unchecked_ = 0;
};

}  // namespace weft::test
