// SPDX-License-Identifier: BSD-3-Clause
// The programs of all ranks as flows and tasks.
#pragma once

#include <vector>

#include "lib/job/job.hpp"

namespace weft::job {

// Adds every step and bucket of the job, and notes in it where they are.
void translate(Job& job, const std::vector<collective::Program>& programs,
               std::vector<sim::flow::FlowSpec>& flows, sim::flow::TaskGraph& tasks);

}  // namespace weft::job
