// SPDX-License-Identifier: BSD-3-Clause
// What a queue pair has that agreed with its peer to selective repeat (lib/wire/SACK.md), allocated
// at RTR: the requester's scoreboard and the responder's holes. While nothing is missing, neither
// is in use: Requester::scoreboard and Responder::holes, which point here, are null.
#pragma once

#include "lib/roce/recovery/holes.hpp"
#include "lib/roce/recovery/scoreboard.hpp"

namespace weft::roce {

struct SelectiveRepeat {
  explicit SelectiveRepeat(uint32_t window) : scoreboard(window) {}
  Scoreboard scoreboard;
  Holes holes;
};

}  // namespace weft::roce
