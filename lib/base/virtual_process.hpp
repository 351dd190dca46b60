// SPDX-License-Identifier: BSD-3-Clause
// Runs the library, devices included, in virtual time and from a seed, for simulations. For tests
// only: keys derived from a seed are not secret.
#pragma once

#include "weft/units.hpp"

namespace weft::base {

// From now on Clock::process() returns the time of `now`. False: the real clock was used already.
bool live_in_virtual_time(Instant (*now)()) noexcept;

// From now on each SecureRandom created without a seed derives it from this seed and from the
// number of those created before, on the calling thread.
void draw_secure_numbers_from(uint64_t seed) noexcept;

}  // namespace weft::base
