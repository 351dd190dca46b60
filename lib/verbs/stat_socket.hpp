// SPDX-License-Identifier: BSD-3-Clause
// Open devices can be looked into from outside (weft_stat PID): a process that has one listens on
// the abstract unix socket "weft-stat/PID", for its own user and for root. Whoever connects gets
// one JSON text of all its devices, and the connection ends. A thread of its own answers, and
// sleeps otherwise; it takes each device's lock for a few objects at a time. Nothing is left behind
// by kill -9: abstract sockets have no file. WEFT_STAT=0 in the environment: no socket, no thread.
#pragma once

#include <memory>

#include "lib/verbs/provider.hpp"

namespace weft::verbs {

// `context` can be looked into until the last copy of the answer is gone; a look in progress is
// waited for then (microseconds). Without sockets or threads to spare nobody can look, and all else
// is as it was. Any thread.
std::shared_ptr<Context> offer_to_look(std::shared_ptr<Context> context);

}  // namespace weft::verbs
