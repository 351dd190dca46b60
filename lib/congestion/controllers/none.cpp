// SPDX-License-Identifier: BSD-3-Clause
// No congestion control: line rate for ever. With +win it is a sender of one BDP.
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

constexpr Parameter kParameters[] = {{"min_rate_mbps", "Mb/s", 1000, kNoSource, {}, "not used"}};

constexpr Kind kNone = {.name = "none",
                        .what = "line rate, no reaction",
                        .control_acks = true,
                        .parameters = kParameters};

}  // namespace

WEFT_CONTROLLERS(none, &kNone);

}  // namespace weft::congestion
