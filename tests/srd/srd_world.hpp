// SPDX-License-Identifier: BSD-3-Clause
// SRD engines in a simulated network, for tests: stations that are all connected to each other,
// each with a fault port, an engine, registered memory and one queue pair. A station can die and
// come back as another incarnation. All in virtual time, from a seed.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "lib/sim/frames/network.hpp"
#include "lib/srd/engine.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "providers/port/sim/sim_port.hpp"
#include "tests/virtual_time/memory.hpp"
#include "tests/virtual_time/tap_port.hpp"

namespace weft::test {

// Exists while an engine runs, not while the network around it does.
struct EngineRuns {
  EngineRuns() { now = true; }
  ~EngineRuns() { now = false; }
  static inline bool now = false;
};

// Wraps the port of a station, on the side of its engine; empty: nothing does.
using PortAbove = std::function<std::unique_ptr<transport::Port>(
    std::unique_ptr<transport::Port> port, uint64_t seed)>;

// What the driver is in real time. One life of a station: nothing happens after kill().
class SrdLife final : public sim::EventHandler {
 public:
  // Several hosts: a port on each, one device.
  SrdLife(sim::Network& network, std::span<sim::Host* const> hosts, const srd::Config& config,
          uint64_t seed, const middleware::FaultOptions& faults,
          const transport::Capabilities& capabilities, const PortAbove& above);

  void kick() { wake(network_.now()); }
  void kill() { alive_ = false; }
  // The process does not run until then; what arrives waits.
  void pause(Duration d) { paused_until_ = network_.now() + d; }
  void on_event(Instant now, uint64_t argument) override;

  middleware::FaultPort* fault = nullptr;  // the tap's
  TapPort* tap = nullptr;                  // what the network sees
  std::unique_ptr<transport::Port> port;   // the engine's
  base::SecureRandom random;
  std::unique_ptr<srd::Engine> engine;
  std::function<void()> after_turn;

 private:
  void wake(Instant at);
  void turn(Instant now);
  bool send(Instant now);

  sim::Network& network_;
  bool alive_ = true;
  Instant paused_until_;
  Instant wakes_at_ = Instant::never();
  uint64_t ticket_ = 0;
  std::vector<transport::Frame> received_;
  std::vector<transport::TxFrame> sending_;
  size_t begin_ = 0, end_ = 0;
};

struct SrdOptions {
  srd::Config config;
  transport::QpConfig qp;
  middleware::FaultOptions faults;
  transport::Capabilities capabilities = port::sim_capabilities();
  sim::LinkOptions link;
  PortAbove above;
  size_t memory = 1u << 20;
  uint32_t cq_capacity = 65536;
  uint32_t stations = 2;
  uint32_t rails = 1;  // addresses of each station
  uint64_t seed = 1;
};

class SrdStation final : public sim::EventHandler {
 public:
  static constexpr uint32_t kDomain = 1;
  SrdStation(sim::Network& network, uint32_t index, const SrdOptions& options);

  // The process dies and another takes its address; with `same_number` also its QPN. Its memory
  // stays, its keys do not.
  void restart(bool same_number = true);

  srd::Engine& engine() { return *life_->engine; }
  srd::QueuePair& qp() { return *qp_; }
  SrdLife& life() { return *life_; }
  sim::Host& host(uint32_t rail = 0) { return *hosts_[rail]; }
  QpNum number() const { return number_; }
  std::byte* at(size_t offset) const { return memory_.data() + offset; }
  uint64_t address_of(size_t offset) const { return reinterpret_cast<uint64_t>(at(offset)); }
  uint64_t& word(size_t offset) const { return *reinterpret_cast<uint64_t*>(at(offset)); }
  Sge sge(size_t offset, uint32_t length) const { return {at(offset), length, LKey{key_}}; }
  uint32_t key() const { return key_; }
  uint64_t count(transport::Count c) { return engine().counters()[c]; }
  // Of all its processes together.
  uint64_t total(transport::Count c) const;
  // Addresses that it may have; it has all unless options().rails is smaller.
  uint32_t rails() const { return static_cast<uint32_t>(hosts_.size()); }
  // Of the next process.
  SrdOptions& options() { return options_; }
  // Something came to an address that the present process does not have.
  void on_event(Instant now, uint64_t argument) override;

  // A frame arrives here, perhaps once more.
  void inject(const SentFrame& frame);
  PostStatus recv(uint64_t id, const Sge& sge);
  // All that is posted is flushed: the queue pair goes to ERR. ready() has it work again.
  void fail();
  void ready();
  // `request` to the queue pair of `to`; remote_address and rkey are the caller's.
  PostStatus post(SrdStation& to, SendRequest request);
  // A WRITE of its first bytes to `offset` in the memory of `to`.
  PostStatus write(SrdStation& to, uint32_t length, size_t offset = 0, uint64_t id = 0);
  std::vector<Completion> sent() { return drain(*send_cq_); }
  std::vector<Completion> received() { return drain(*recv_cq_); }

 private:
  void live(uint32_t life);
  static std::vector<Completion> drain(transport::CompletionQueue& queue);

  sim::Network& network_;
  std::vector<sim::Host*> hosts_;  // one for each address
  SrdOptions options_;
  uint32_t index_;
  uint32_t lives_ = 0;
  std::vector<std::unique_ptr<SrdLife>> all_lives_;
  SrdLife* life_ = nullptr;
  Memory memory_;
  uint32_t key_ = 0;
  std::unique_ptr<transport::CompletionQueue> send_cq_, recv_cq_;
  srd::QueuePair* qp_ = nullptr;
  QpNum number_;
};

// Stations, each connected to each; with several rails, each rail of theirs with the same one of
// the others.
struct SrdWorld {
  explicit SrdWorld(const SrdOptions& options = {});
  SrdStation& operator[](size_t i) { return *stations[i]; }
  void run_for(Duration d) { network.events().run_until(network.now() + d); }
  // Runs until `done` holds. False: not within `limit`.
  bool run_until(const std::function<bool()>& done, Duration limit = Duration::from_s(10));

  sim::Network network;
  std::vector<std::unique_ptr<SrdStation>> stations;
};

}  // namespace weft::test
