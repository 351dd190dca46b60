// SPDX-License-Identifier: BSD-3-Clause
// `weft_switch serve`: a switch between devices of other processes, with faults on command.
#pragma once

#include "bench/switch/shape.hpp"

namespace weft::bench {

int serve(const Shape& shape);

}  // namespace weft::bench
