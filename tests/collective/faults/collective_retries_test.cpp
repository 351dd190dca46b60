// SPDX-License-Identifier: BSD-3-Clause
// How long a silent rank is waited for.
#include "lib/collective/run/peer_connections.hpp"
#include "tests/support/catch.hpp"
#include "weft/collective.hpp"

namespace weft::collective {
namespace {

TEST_CASE("tries of RC take the patience, and not much more") {
  for (int64_t ms = 6; ms < 100'000; ms += 1 + ms / 50) {
    const Duration patience = Duration::from_ms(ms);
    const Tries tries = tries_for(patience);
    INFO(ms << " ms: " << int{tries.count} << " tries, timeout " << int{tries.timeout});
    CHECK(tries.time() >= patience);
    CHECK(tries.time() <= patience * 5 / 4);
    CHECK(tries.count <= 8);
  }
  CHECK(tries_for(Duration::from_s(100'000)).timeout == 31);
}

TEST_CASE("with the usual options a silent rank is found within half a second") {
  const Duration patience = CommunicatorOptions().patience;
  CHECK(kPingPause + tries_for(patience).time() < Duration::from_ms(500));
  CHECK(kPingPause + patience < Duration::from_ms(500));
  CHECK(MeshOptions().patience == patience);
}

}  // namespace
}  // namespace weft::collective
