// SPDX-License-Identifier: BSD-3-Clause
// Queue disciplines of shared objects (weft/simulation.hpp): a verdict on each data packet that
// comes to an egress queue of a switch or leaves it.
#pragma once

#include <string>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/sim/fabric/packet.hpp"
#include "lib/sim/fabric/port.hpp"
#include "weft/result.hpp"
#include "weft/simulation.hpp"

namespace weft::sim::fabric {

// Loads the discipline of a shared object; the number 0 stands for marking by thresholds.
Result<size_t> load_discipline(const std::string& path);
// Null for the number 0.
const simulation::QueueDiscipline* discipline_of(size_t number);
// "thresholds", or its path.
std::string discipline_name(size_t number);

// The discipline with the state of each queue.
class Discipline {
 public:
  using Verdict = simulation::Verdict;
  Discipline(const simulation::QueueDiscipline* kind, size_t ports) : kind_(kind) {
    if (kind != nullptr) states_.resize(ports);
  }

  bool enabled() const noexcept { return kind_ != nullptr; }
  // The verdict on a packet that has come, which may mark it. False: it is dropped.
  bool admits(Packet& packet, const Port& port, int64_t now_ps, base::Random& random,
              uint64_t& marked) {
    if (packet.tag.event != Event::data) return true;
    const Verdict verdict = call(kind_->on_arrival, packet, port, now_ps, random);
    if (verdict == Verdict::mark) {
      marked += !packet.tag.marked;
      packet.tag.marked = true;
    }
    return verdict != Verdict::drop;
  }
  // Of a packet that is taken from the queue.
  bool marks(const Packet& packet, const Port& port, int64_t now_ps, base::Random& random) {
    return call(kind_->on_departure, packet, port, now_ps, random) != Verdict::pass;
  }

 private:
  using Function = Verdict (*)(simulation::QueueState&, const simulation::QueuedPacket&);
  Verdict call(Function function, const Packet& packet, const Port& port, int64_t now_ps,
               base::Random& random) {
    if (function == nullptr) return Verdict::pass;
    return function(states_[packet.target], {.now_ns = now_ps / 1000,
                                             .bytes = packet.bytes,
                                             .queue_bytes = port.queue_bytes,
                                             .mbps = port.mbps,
                                             .random = static_cast<uint32_t>(random.next() >> 32),
                                             .to_host = port.to_host});
  }

  const simulation::QueueDiscipline* const kind_;
  std::vector<simulation::QueueState> states_;  // by port
};

}  // namespace weft::sim::fabric
