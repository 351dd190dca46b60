// SPDX-License-Identifier: BSD-3-Clause
// The retransmission settings that follow from the dead peer timeout.
#include "lib/collective/run/peer_connections.hpp"
#include "tests/support/catch.hpp"
#include "weft/collective.hpp"

namespace weft::collective {
namespace {

TEST_CASE("the retries of RC last for the dead peer timeout, and at most a quarter longer") {
  for (int64_t ms = 6; ms < 100'000; ms += 1 + ms / 50) {
    const Duration dead_peer_timeout = Duration::from_ms(ms);
    const RetrySettings tries = retries_for(dead_peer_timeout);
    INFO(ms << " ms: " << int{tries.count} << " tries, timeout " << int{tries.timeout});
    CHECK(tries.time() >= dead_peer_timeout);
    CHECK(tries.time() <= dead_peer_timeout * 5 / 4);
    CHECK(tries.count <= 8);
  }
  CHECK(retries_for(Duration::from_s(100'000)).timeout == 31);
}

TEST_CASE("with default options a silent rank is detected within half a second") {
  const Duration dead_peer_timeout = CommunicatorOptions().patience;
  CHECK(kKeepaliveInterval + retries_for(dead_peer_timeout).time() < Duration::from_ms(500));
  CHECK(kKeepaliveInterval + dead_peer_timeout < Duration::from_ms(500));
  CHECK(PeerConnectionOptions().dead_peer_timeout == dead_peer_timeout);
}

}  // namespace
}  // namespace weft::collective
