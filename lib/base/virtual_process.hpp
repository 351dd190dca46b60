// SPDX-License-Identifier: BSD-3-Clause
// A process that lives in a simulation: one that runs the library itself, devices and all, in
// virtual time and from a seed. For tests only: keys that follow from a seed protect nothing.
#pragma once

#include "weft/units.hpp"

namespace weft::base {

// From now on Clock::process() tells what `now` returns. False: somebody has looked at the real
// clock already.
bool live_in_virtual_time(Instant (*now)()) noexcept;

// Each SecureRandom that is made without a seed gets one that follows from this and from how many
// were made before it, on the calling thread.
void draw_secure_numbers_from(uint64_t seed) noexcept;

}  // namespace weft::base
