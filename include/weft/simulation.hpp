// SPDX-License-Identifier: BSD-3-Clause
// Networks, workloads and switch queues of your own for the simulator. Each is a shared object,
// compiled with this header, that links nothing of weft and is named by its path:
//
//   [network]                    [[flows]]                    [set]
//   kind = "./ring.so"           kind = "./shuffle.so"        "switch.discipline" = "./codel.so"
//   hosts = 8                    bytes = 1e6
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared ring.cpp -o ring.so
//
// An object is never unloaded. Everything is called in the thread of the run, and must depend on
// nothing but its arguments: then a run repeats. examples/plugins has one of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft::simulation {

// Counts changes of this header that a shared object sees.
inline constexpr uint32_t kInterface = 1;

// The keys beside `kind` in the scenario. A key that is not asked for is an error there.
class Keys {
 public:
  // The value of a key, or `otherwise` if it is not there.
  virtual double number(const char* key, double otherwise) = 0;
  // Ends the reading of the scenario with a message that names its line.
  virtual void fail(const char* key, const char* why) = 0;

 protected:
  ~Keys() = default;
};

// A full-duplex link of two nodes. A node with one link is a host, every other one a switch.
// Numbers begin at 0, without holes.
struct Link {
  uint32_t node_a = 0;
  uint32_t node_b = 0;
  uint32_t mbps = 0;
  int64_t delay_ns = 0;
};

// Takes the links of a network.
class Links {
 public:
  // Copies `link`. Its rate and delay are checked once all links are there.
  virtual void add(const Link& link) = 0;

 protected:
  ~Links() = default;
};

// A network: WEFT_TOPOLOGY.
struct Topology {
  uint32_t interface_number = kInterface;  // keeps its place: it is read first
  void (*build)(Keys&, Links&) = nullptr;
};

// The hosts of the network.
struct Hosts {
  const uint32_t* numbers = nullptr;
  size_t count = 0;
  uint32_t mbps = 0;  // of the fastest NIC
};

// Random numbers of the scenario's seed.
class Random {
 public:
  // Within 0 and n - 1; n is 1 or more.
  virtual uint64_t below(uint64_t n) = 0;
  // Within 0 and 1, 1 excluded.
  virtual double share() = 0;

 protected:
  ~Random() = default;
};

// `bytes` from one host to another, which may begin at `start_ns`.
struct Flow {
  int64_t start_ns = 0;
  uint32_t source = 0;
  uint32_t destination = 0;
  uint64_t bytes = 0;
};

// Takes the flows of a workload, in any order.
class Flows {
 public:
  // Copies `flow`, which is checked with all others of the scenario.
  virtual void add(const Flow& flow) = 0;

 protected:
  ~Flows() = default;
};

// A workload: WEFT_WORKLOAD.
struct Workload {
  uint32_t interface_number = kInterface;  // keeps its place: it is read first
  void (*generate)(Keys&, const Hosts&, Random&, Flows&) = nullptr;
};

// What the object keeps of one queue; zero at the start of a run.
struct QueueState {
  alignas(8) std::array<std::byte, 64> own{};
};
// The state as the object's own struct.
template <class Own>
Own& own(QueueState& state) noexcept {
  static_assert(sizeof(Own) <= sizeof(QueueState::own) && alignof(Own) <= 8);
  static_assert(std::is_trivially_copyable_v<Own>);
  return *reinterpret_cast<Own*>(state.own.data());
}

// A data packet at an egress queue of a switch.
struct QueuedPacket {
  int64_t now_ns = 0;
  uint32_t bytes = 0;
  uint32_t queue_bytes = 0;  // in the queue without it
  uint32_t mbps = 0;         // of the port
  uint32_t random = 0;       // uniform, 32 bits
  bool to_host = false;      // the far end is a host
};

// What becomes of a packet: it stays as it is, gets an ECN mark, or is dropped. Sprayed packets
// are trimmed instead of dropped where switches trim.
enum class Verdict : uint8_t { pass, mark, drop };

// The queue discipline of all switches, in place of marking by thresholds (switch.kmin, kmax,
// pmax); the queues stay FIFO, the buffer and PFC what they are: WEFT_QUEUE_DISCIPLINE.
struct QueueDiscipline {
  uint32_t interface_number = kInterface;  // keeps its place: it is read first
  // A packet has come to the queue. Null: it passes.
  Verdict (*on_arrival)(QueueState&, const QueuedPacket&) = nullptr;
  // A packet is taken from the queue to be sent. `drop` counts as `mark` here. Null: it passes.
  Verdict (*on_departure)(QueueState&, const QueuedPacket&) = nullptr;
};

}  // namespace weft::simulation

#define WEFT_SIMULATION_EXPORT(TYPE, SYMBOL, OBJECT)                                   \
  extern "C" {                                                                         \
  extern const ::weft::simulation::TYPE SYMBOL __attribute__((visibility("default"))); \
  const ::weft::simulation::TYPE SYMBOL = OBJECT;                                      \
  }                                                                                    \
  static_assert(true, "takes the semicolon")

// At the end of an object's source, outside of namespaces: it has this topology, workload or queue
// discipline.
#define WEFT_TOPOLOGY(OBJECT) WEFT_SIMULATION_EXPORT(Topology, weft_topology, OBJECT)
#define WEFT_WORKLOAD(OBJECT) WEFT_SIMULATION_EXPORT(Workload, weft_workload, OBJECT)
#define WEFT_QUEUE_DISCIPLINE(OBJECT) \
  WEFT_SIMULATION_EXPORT(QueueDiscipline, weft_queue_discipline, OBJECT)
