// SPDX-License-Identifier: BSD-3-Clause
// Writes the traces of all ranks into one file.
#pragma once

#include <string>

#include "tools/coll/options.hpp"

namespace weft::bench {

// Collective; rank 0 writes. Errors: those of the operations; io_error.
Result<void> write_merged_trace(Communicator& group, const std::string& path);
// After a failure: writes this rank's trace to PATH.RANK.
Result<void> write_own_trace(const Communicator& group, const std::string& path);
// Writes the dump and the Prometheus file of this rank, if requested. Errors: io_error.
Result<void> write_own_records(const Communicator& group, const CollOptions& options);

}  // namespace weft::bench
