// SPDX-License-Identifier: BSD-3-Clause
// A network of your own for the simulator: a ring of switches with a host each.
//
//   [network]
//   kind = "./ring.so"
//   hosts = 8
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared ring.cpp -o ring.so
#include <weft/simulation.hpp>

namespace sim = weft::simulation;

static void build(sim::Keys& keys, sim::Links& links) {
  const double wanted = keys.number("hosts", 8);
  const auto mbps = static_cast<uint32_t>(keys.number("gbps", 100) * 1000);
  if (wanted < 3 || wanted > 1000) return keys.fail("hosts", "must be 3 to 1000");
  const auto hosts = static_cast<uint32_t>(wanted);
  for (uint32_t host = 0; host < hosts; ++host) links.add({host, hosts + host, mbps, 1000});
  for (uint32_t host = 0; host < hosts; ++host)
    links.add({hosts + host, hosts + (host + 1) % hosts, mbps, 1000});
}

WEFT_TOPOLOGY((sim::Topology{.build = build}));
