// SPDX-License-Identifier: BSD-3-Clause
// `weft_switch serve`: a switch between devices of other processes, with faults on command.
#pragma once

#include "tools/switch/shape.hpp"

namespace weft::bench {

// `control`: a FIFO that gives commands too; "": none.
int serve(const Shape& shape, const std::string& control);

}  // namespace weft::bench
