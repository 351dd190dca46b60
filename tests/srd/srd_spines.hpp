// SPDX-License-Identifier: BSD-3-Clause
// Two SRD stations and many ways between them: a leaf switch at each, spines between the leaves.
//
//   a -- leaf == spine 0 == leaf -- b        a leaf hashes the UDP source port to a spine
//             == spine 1 ==
//             ...
//
// A spine can be cut, lose packets, or be slow from the start. Unloaded round trip: 10 us.
#pragma once

#include <map>

#include "tests/srd/srd_star.hpp"

namespace weft::test {

struct SpineOptions {
  uint32_t spines = 8;
  int64_t spine_gbps = 25;
  uint32_t slow_spine = UINT32_MAX;  // this one takes so many times longer
  int64_t slowness = 10;
  std::vector<int64_t> delays_us = {3};  // of spine i: entry i modulo their number
};

// Sends what arrives over the spines to the other leaf.
class Leaf final : public sim::Node {
 public:
  Leaf(sim::Network& network, sim::Node& end, const SpineOptions& options)
      : network_(network), cut(options.spines), loss_ppm(options.spines), sent(options.spines) {
    for (uint32_t i = 0; i < options.spines; ++i) {
      sim::LinkOptions link;
      const int64_t factor = i == options.slow_spine ? options.slowness : 1;
      link.rate = Rate::from_gbps(options.spine_gbps);
      link.delay = Duration::from_us(options.delays_us[i % options.delays_us.size()] * factor);
      link.queue_bytes = 1u << 20;
      link.mark_bytes = 1u << 16;
      link.drops = true;
      spines_.push_back(std::make_unique<sim::Link>(network.events(), network.pool(), end, link));
    }
  }

  // As with PFC: what is sent over the spine waits until resume().
  void pause(uint32_t spine) { paused_ = spine; }
  void resume() {
    const uint32_t was = std::exchange(paused_, UINT32_MAX);
    for (sim::Packet* packet : std::exchange(waiting_, {})) (void)spines_[was]->send(packet);
  }

  void arrive(sim::Packet* packet, Instant now) override {
    const uint32_t mixed = (packet->path.source_port ^ salt) * 0x9E3779B1u;
    const uint32_t spine = static_cast<uint32_t>((mixed >> 16) % spines_.size());
    ++sent[spine];
    if (spine == paused_) return waiting_.push_back(packet);
    if (!cut[spine] && (loss_ppm[spine] == 0 || random_.below(1'000'000) >= loss_ppm[spine])) {
      (void)spines_[spine]->send(packet);
      return;
    }
    if (on_drop) on_drop(*packet, now);
    network_.pool().give(packet);
  }

  static uint64_t sequence_of(const sim::Packet& packet) {
    return reinterpret_cast<const wire::SrdBase*>(packet.bytes)->sequence;
  }
  static bool sequenced(const sim::Packet& packet) {
    return wire::is_sequenced(static_cast<wire::SrdOpcode>(packet.bytes[0]));
  }

 private:
  sim::Network& network_;
  std::vector<std::unique_ptr<sim::Link>> spines_;
  base::Random random_{7};
  uint32_t paused_ = UINT32_MAX;
  std::vector<sim::Packet*> waiting_;

 public:
  std::vector<bool> cut;
  std::vector<uint32_t> loss_ppm;
  std::vector<uint64_t> sent;  // packets by spine
  uint32_t salt = 0;           // another one: all routes change
  std::function<void(const sim::Packet&, Instant)> on_drop;
};

// The last switch before the hosts: everything for one goes down its link.
class Exit final : public sim::Node {
 public:
  Exit(sim::Network& network, const sim::LinkOptions& link) : network_(network), link_(link) {}
  void lead_to(sim::Host& host) {
    down_.push_back({&host.address(),
                     std::make_unique<sim::Link>(network_.events(), network_.pool(), host, link_)});
  }
  void arrive(sim::Packet* packet, Instant now) override {
    if (on_arrival) on_arrival(*packet, now);
    for (auto& [address, link] : down_)
      if (*address == packet->path.destination) return (void)link->send(packet);
    network_.pool().give(packet);
  }
  std::function<void(const sim::Packet&, Instant)> on_arrival;

 private:
  sim::Network& network_;
  const sim::LinkOptions link_;
  std::vector<std::pair<const Gid*, std::unique_ptr<sim::Link>>> down_;
};

struct SrdSpines {
  SrdSpines(const SrdOptions& options, const SpineOptions& spines) {
    sim::LinkOptions link;
    link.rate = Rate{int64_t{kStarMbps} * 1'000'000};
    link.delay = Duration::from_us(1);
    link.queue_bytes = 4u << 20;
    for (uint32_t i = 0; i < 2; ++i) {
      stations.push_back(std::make_unique<SrdStation>(network, i, options));
      exits.push_back(std::make_unique<Exit>(network, link));
      exits.back()->lead_to(stations[i]->host());
    }
    for (uint32_t i = 0; i < 2; ++i) {
      leaves.push_back(std::make_unique<Leaf>(network, *exits[1 - i], spines));
      network.uplink(stations[i]->host(), *leaves[i], link);
    }
  }
  SrdStation& a() { return *stations[0]; }
  SrdStation& b() { return *stations[1]; }
  void run_for(Duration d) { network.events().run_until(network.now() + d); }
  void cut(uint32_t spine, bool on) {
    for (auto& leaf : leaves) leaf->cut[spine] = on;
  }

  sim::Network network;
  std::vector<std::unique_ptr<SrdStation>> stations;
  std::vector<std::unique_ptr<Exit>> exits;
  std::vector<std::unique_ptr<Leaf>> leaves;
};

// `from` WRITEs to `to` all the time: `depth` messages of `bytes` are outstanding, and when each
// was posted and completed is known.
class Stream {
 public:
  Stream(sim::Network& network, SrdStation& from, SrdStation& to, uint32_t bytes, uint32_t depth)
      : network_(network), from_(from), to_(to), bytes_(bytes) {
    from_.life().after_turn = [this] { step(); };
    for (uint32_t i = 0; i < depth; ++i) post();
  }
  Stream(SrdSpines& net, uint32_t bytes, uint32_t depth)
      : Stream(net.network, net.a(), net.b(), bytes, depth) {}
  ~Stream() { from_.life().after_turn = nullptr; }
  void stop() { stopped_ = true; }

  uint64_t bytes() const { return done_ * bytes_; }
  bool idle() const { return posted_ == done_; }
  // From posting to completion, sorted, in us.
  std::vector<double> latencies;
  double percentile(double p) {
    std::sort(latencies.begin(), latencies.end());
    return latencies.at(static_cast<size_t>(p * static_cast<double>(latencies.size() - 1)));
  }

 private:
  void step() {
    for (const Completion& c : from_.sent()) {
      REQUIRE(c.status == Status::success);
      ++done_;
      latencies.push_back(static_cast<double>((network_.now() - began_[c.id]).ps) / 1e6);
      began_.erase(c.id);
      if (!stopped_) post();
    }
  }
  void post() {
    const Sge sge = from_.sge(0, bytes_);
    SendRequest r;
    r.id = posted_++;
    r.opcode = Opcode::write;
    r.sges = {&sge, 1};
    r.remote_address = to_.address_of(0);
    r.rkey = RKey{to_.key()};
    began_[r.id] = network_.now();
    REQUIRE(from_.post(to_, r));
  }

  sim::Network& network_;
  SrdStation& from_;
  SrdStation& to_;
  const uint32_t bytes_;
  uint64_t posted_ = 0, done_ = 0;
  bool stopped_ = false;
  std::map<uint64_t, Instant> began_;
};

}  // namespace weft::test
