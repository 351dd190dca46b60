// SPDX-License-Identifier: BSD-3-Clause
// What others need of asynchronous events and of descriptors that calls wait for.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Forgets the events of a queue that is being destroyed. Under DeviceEntry::lock.
void drop_events_of(Context& context, const void* queue) noexcept;

// Whether a call that a signal has interrupted returns EINTR: a handler of the process was
// installed without SA_RESTART. Sets errno if so.
bool signals_end_calls() noexcept;

// Waits until `fd` is readable. False with errno: EAGAIN if the program has set O_NONBLOCK; EINTR
// after a signal whose handler was installed without SA_RESTART, as a read(2) of the kernel's
// descriptors does. Not noexcept: a thread may be cancelled here.
bool wait_readable(int fd);

}  // namespace weft::drop_in
