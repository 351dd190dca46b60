// SPDX-License-Identifier: BSD-3-Clause
// Inspection of the machines of software providers: queue pairs and peers as plain values, a few
// per acquisition of the driver's lock.
#pragma once

#include "lib/driver/driver.hpp"
#include "lib/roce/engine.hpp"
#include "lib/srd/engine.hpp"
#include "lib/verbs/inspection.hpp"

namespace weft::software {

// Appends to queue_pairs, and to peers for SRD.
void inspect_machine(driver::Driver& driver, roce::Engine& machine, verbs::Inspection& found,
                     const std::atomic<bool>& closing);
void inspect_machine(driver::Driver& driver, srd::Engine& machine, verbs::Inspection& found,
                     const std::atomic<bool>& closing);

}  // namespace weft::software
