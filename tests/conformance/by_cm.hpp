// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that only the connection manager can connect (iWARP).
#pragma once

#include "tests/conformance/fixture.hpp"

namespace weft::test {

void connect_by_cm(const QueuePair& a, const QueuePair& b, const Walk& walk);
// Takes their events from the connection manager: connections that ended.
void drain_cm_events();

}  // namespace weft::test
