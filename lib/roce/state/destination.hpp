// SPDX-License-Identifier: BSD-3-Clause
// What all queue pairs to one address share: the window, so that go-back-N cannot collapse in the
// receiver's socket buffer however many queue pairs there are (docs/design.md). Queue pairs
// that find it full wait in line.
#pragma once

#include "lib/roce/state/queue_pair.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/window.hpp"

namespace weft::roce {

struct Destination {
  Gid address;
  uint32_t users = 0;            // queue pairs that point here
  uint32_t packet_overhead = 0;  // what a packet takes of the window besides its payload
  Window window;
  base::Line<QueuePair, &QueuePair::waiting> line;
};

}  // namespace weft::roce
