// SPDX-License-Identifier: BSD-3-Clause
// The traces of all ranks as one file.
#pragma once

#include <string>

#include "tools/coll/options.hpp"

namespace weft::bench {

// All ranks call it; rank 0 writes. Errors: those of the operations; io_error.
Result<void> write_merged_trace(Communicator& group, const std::string& path);
// After a failure: this rank's alone, to PATH.RANK.
Result<void> write_own_trace(const Communicator& group, const std::string& path);
// What the options ask for beside traces, at the end. Errors: io_error.
Result<void> write_own_records(const Communicator& group, const CollOptions& options);

}  // namespace weft::bench
