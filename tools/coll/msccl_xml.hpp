// SPDX-License-Identifier: BSD-3-Clause
// Plans of MSCCL as XML files, and as algorithms.
#pragma once

#include <string>

#include "lib/collective/msccl/plan.hpp"

namespace weft::bench {

// Errors: io_error, invalid_argument (names file and line), not_supported (what of MSCCL is not
// known here, or weft was built without expat).
Result<collective::MscclPlan> read_msccl(const std::string& path);
// The same of the text of a file; errors name it as `path`.
Result<collective::MscclPlan> parse_msccl(const std::string& text, const std::string& path);
std::string msccl_xml(const collective::MscclPlan& plan);

// Proves the plan of a file and adds it to the algorithms, under the name of the file without
// folder and .xml, or under its path if there is such an algorithm. Returns the name.
Result<std::string> load_plan(const std::string& path);
// Loads all .xml files of the folder that WEFT_COLL_PLAN_DIR names, if it is set.
Result<void> load_plan_folder();
// Whether an --algorithm is a file.
bool is_plan_file(const std::string& algorithm);

}  // namespace weft::bench
