// SPDX-License-Identifier: BSD-3-Clause
// Inspection of open devices by another process (weft_stat PID): a process with an open device
// listens on the abstract unix socket "weft-stat/PID", for its own user and for root. A client gets
// one JSON text of all its devices, then the connection is closed. A thread serves it and sleeps
// otherwise; it takes each device's lock for a few objects at a time. Abstract sockets have no
// file, so nothing is left after kill -9. WEFT_STAT=0 in the environment disables socket and
// thread.
#pragma once

#include <memory>

#include "lib/verbs/provider.hpp"

namespace weft::verbs {

// Makes `context` inspectable until the last copy of the returned pointer is destroyed, which waits
// for an inspection in progress (microseconds). If no socket or thread can be created, the device
// works but cannot be inspected. Any thread.
std::shared_ptr<Context> make_inspectable(std::shared_ptr<Context> context);

}  // namespace weft::verbs
