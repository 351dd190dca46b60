// SPDX-License-Identifier: BSD-3-Clause
// providers/ibverbs/gid: which of a port's addresses is taken when the device string names none.
#include <algorithm>
#include <vector>

#include "providers/ibverbs/gid.hpp"
#include "tests/support/catch.hpp"

using weft::Gid;
using weft::parse_gid;
using weft::ibverbs::choose_gid;
using weft::ibverbs::GidEntry;

namespace {

const Gid kLinkLocal = *parse_gid("fe80::8817:47ff:fe96:1331");
const Gid kRouted = *parse_gid("2001:db8::7");
const Gid kIpv4 = Gid::from_ipv4(10, 77, 0, 2);

TEST_CASE("RoCE v2 comes before v1, IPv4 before routed IPv6, that before link-local") {
  std::vector<GidEntry> best_first = {{5, kIpv4, true},      {4, kRouted, true},
                                      {3, kLinkLocal, true}, {2, kIpv4, false},
                                      {1, kRouted, false},   {0, kLinkLocal, false}};
  for (size_t taken = 0; taken < best_first.size(); ++taken) {
    std::vector<GidEntry> left(best_first.begin() + static_cast<ptrdiff_t>(taken),
                               best_first.end());
    for (int order = 0; order < 2; ++order) {
      REQUIRE(choose_gid(left) != nullptr);
      CHECK(choose_gid(left)->index == best_first[taken].index);
      std::reverse(left.begin(), left.end());
    }
  }
}

TEST_CASE("the first of equal addresses is chosen") {
  const GidEntry two[] = {{3, kIpv4, true}, {7, Gid::from_ipv4(10, 78, 0, 2), true}};
  CHECK(choose_gid(two)->index == 3);
  CHECK(choose_gid({}) == nullptr);
}

TEST_CASE("link-local is fe80::/10 and nothing else") {
  const GidEntry entries[] = {{0, *parse_gid("febf::1"), true}, {1, *parse_gid("fec0::1"), true}};
  CHECK(choose_gid(entries)->index == 1);
}

}  // namespace
