// SPDX-License-Identifier: BSD-3-Clause
// A queue discipline of your own for the simulator: a phantom queue, which drains at 95 % of the
// port's rate, marks what comes while it holds more than 3 us of it; the real queue stays empty.
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared phantom.cpp -o phantom.so
//   weft_sim run incast-16 cc=dctcp switch.discipline=./phantom.so
#include <algorithm>
#include <weft/simulation.hpp>

namespace sim = weft::simulation;

struct Phantom {
  int64_t last_ns;
  double bytes;
};

static sim::Verdict on_arrival(sim::QueueState& state, const sim::QueuedPacket& packet) {
  auto& phantom = sim::own<Phantom>(state);
  const double bytes_per_ns = 0.95 * packet.mbps / 8000;
  const auto passed = static_cast<double>(packet.now_ns - phantom.last_ns);
  phantom.bytes = std::max(0.0, phantom.bytes - passed * bytes_per_ns) + packet.bytes;
  phantom.last_ns = packet.now_ns;
  return phantom.bytes > 3000 * bytes_per_ns ? sim::Verdict::mark : sim::Verdict::pass;
}

WEFT_QUEUE_DISCIPLINE((sim::QueueDiscipline{.on_arrival = on_arrival}));
