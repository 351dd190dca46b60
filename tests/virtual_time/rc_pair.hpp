// SPDX-License-Identifier: BSD-3-Clause
// What the tests of single RC operations share: start PSNs around the wrap, and the check that a
// run on a quiet network was quiet.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/virtual_time/pair.hpp"

namespace weft::test {

// Start PSNs: far from the wrap, and right before it.
inline Psn start_psn() { return Psn{GENERATE(0x000100u, 0xFFFFF0u, 0xFFFFFAu, 0xFFFFFFu)}; }

inline PairOptions options_with(Psn psn, uint32_t mtu = 1024, size_t memory = 1u << 20) {
  PairOptions o;
  o.connect.mtu = mtu;
  o.connect.psn_a = psn;
  o.connect.psn_b = Psn{0xFFFFFE};
  o.station_a.memory = o.station_b.memory = memory;
  return o;
}

// Nothing but traffic was counted: no drop, no NAK, no retry.
inline void check_quiet(const Station& station) {
  for (size_t i = 0; i < transport::kCountEnd; ++i) {
    const std::string_view name = transport::kCountNames[i];
    const bool traffic = name.starts_with("tx_packets") || name.starts_with("tx_bytes") ||
                         name == "tx_acks" || name == "tx_read_responses" || name == "rx_packets" ||
                         name == "rx_bytes" || name == "rx_acks" || name == "rx_duplicate_acks" ||
                         name == "rx_by_reference";
    INFO(name);
    if (!traffic) CHECK(station.count(static_cast<transport::Count>(i)) == 0);
  }
}
}  // namespace weft::test
