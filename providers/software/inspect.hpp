// SPDX-License-Identifier: BSD-3-Clause
// A look from outside into the machines of the software providers: their queue pairs and peers as
// plain values, a few under each hold of the driver's lock.
#pragma once

#include "lib/driver/driver.hpp"
#include "lib/roce/engine.hpp"
#include "lib/srd/engine.hpp"
#include "lib/verbs/inspection.hpp"

namespace weft::software {

// Fill in queue_pairs, and peers where there are such.
void inspect_machine(driver::Driver& driver, roce::Engine& machine, verbs::Inspection& found,
                     const std::atomic<bool>& leaving);
void inspect_machine(driver::Driver& driver, srd::Engine& machine, verbs::Inspection& found,
                     const std::atomic<bool>& leaving);

}  // namespace weft::software
