// SPDX-License-Identifier: BSD-3-Clause
// Engines in a simulated network, for tests: stations (a host, its port, its engine, registered
// memory) that are all connected to each other, and endpoints (a queue pair with its completion
// queues) on them. All in virtual time, from a seed.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "lib/roce/engine.hpp"
#include "lib/sim/frames/engine_host.hpp"
#include "lib/sim/frames/network.hpp"
#include "providers/port/sim/sim_port.hpp"
#include "tests/virtual_time/memory.hpp"
#include "tests/virtual_time/tap_port.hpp"

namespace weft::test {

class World;

struct StationOptions {
  Gid address{};  // all zero: the simulation's own form
  transport::Capabilities capabilities = port::sim_capabilities();
  roce::EngineConfig engine;
  sim::EngineHostOptions turns;
  size_t memory = 1u << 20;  // registered with all rights, in domain 1
  bool hides_ip_id = false;
  // Puts a port between the tap and the simulated port.
  std::function<std::unique_ptr<transport::Port>(std::unique_ptr<transport::Port>)> wrap;
};

class Station {
 public:
  static constexpr uint32_t kDomain = 1;
  Station(World& world, uint32_t index, sim::Host& host, const StationOptions& options);

  sim::Host& host() noexcept { return host_; }
  TapPort& tap() noexcept { return *tap_; }
  roce::Engine& engine() noexcept { return engine_; }
  const roce::Engine& engine() const noexcept { return engine_; }
  sim::EngineHost& driver() noexcept { return driver_; }
  Gid address() const noexcept { return tap_->address(); }
  std::byte* at(size_t offset) const noexcept { return memory_.data() + offset; }
  uint64_t address_of(size_t offset) const noexcept {
    return reinterpret_cast<uint64_t>(at(offset));
  }
  size_t memory_size() const noexcept { return memory_.size(); }
  uint32_t key() const noexcept { return key_; }
  Sge sge(size_t offset, uint32_t length) const noexcept {
    return {at(offset), length, LKey{key_}};
  }
  uint64_t count(transport::Count c) const noexcept { return engine_.counters()[c]; }

 private:
  sim::Host& host_;
  std::unique_ptr<TapPort> tap_;
  base::SecureRandom random_;
  roce::Engine engine_;
  sim::EngineHost driver_;
  Memory memory_;
  uint32_t key_;
};

// What both ends agree on, and what each has of its own.
struct ConnectOptions {
  uint32_t mtu = 1024;
  Psn psn_a{0x123456}, psn_b{0xABCDEF};  // first PSN that a, that b sends
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  uint8_t min_rnr_timer = 1;  // 10 us
  uint8_t timeout = 8;        // about 1 ms
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  Access access = Access::all;
  uint32_t qkey = 0x11223344;     // UD, both ends
  bool telemetry = false;         // RC, XRC: both ends agreed to it
  bool selective_repeat = false;  // RC: the same
};

class Endpoint {
 public:
  Endpoint(Station& station, transport::QpConfig config = {}, uint32_t cq_capacity = 4096);

  Station& station() noexcept { return station_; }
  roce::QueuePair& qp() noexcept { return *qp_; }
  PostStatus send(const SendRequest& request);
  PostStatus recv(uint64_t id, std::initializer_list<Sge> sges);
  PostStatus recv(const RecvRequest& request);
  // Everything that has completed since the last call.
  std::vector<Completion> sent() { return drain(*send_cq_); }
  std::vector<Completion> received() { return drain(*recv_cq_); }
  // The completion of the queue if it is the only one, else one with an impossible status.
  Completion only_sent() { return only(sent()); }
  Completion only_received() { return only(received()); }

  transport::CompletionQueue& send_cq() noexcept { return *send_cq_; }
  transport::CompletionQueue& recv_cq() noexcept { return *recv_cq_; }

 private:
  static std::vector<Completion> drain(transport::CompletionQueue& queue);
  static Completion only(const std::vector<Completion>& all) {
    return all.size() == 1 ? all[0] : Completion{.id = ~uint64_t{0}, .status = Status::fatal};
  }

  Station& station_;
  std::unique_ptr<transport::CompletionQueue> send_cq_, recv_cq_;
  roce::QueuePair* qp_;
};

class World {
 public:
  explicit World(uint64_t seed = 1) : seed_(seed) {}

  // All stations before the first connect().
  Station& add_station(const StationOptions& options = {});
  sim::Link& cable(Station& a, Station& b, const sim::LinkOptions& options = {});
  // Walks both to RTS. Both must be in RESET.
  void connect(Endpoint& a, Endpoint& b, const ConnectOptions& options = {});
  // RESET to RTR, and from there to RTS, of one end: with the attributes that its service takes.
  void to_rtr(Endpoint& e, const Gid& peer, QpNum peer_qpn, Psn expected,
              const ConnectOptions& options);
  void to_rts(Endpoint& e, Psn first, const ConnectOptions& options);

  sim::Network& network() noexcept { return network_; }
  Instant now() const noexcept { return network_.now(); }
  uint64_t seed() const noexcept { return seed_; }
  // Runs until nothing will ever happen. False if that took more than `limit` events.
  bool run(uint64_t limit = 50'000'000);
  void run_for(Duration d) { network_.events().run_until(now() + d); }

  // Puts a frame (BTH to ICRC) before a station as if it came from the network.
  void inject(Station& to, const transport::Path& path, const std::vector<std::byte>& bytes,
              uint16_t ip_id = 0);

 private:
  uint64_t seed_;
  sim::Network network_;
  std::vector<std::unique_ptr<Station>> stations_;
};

}  // namespace weft::test
