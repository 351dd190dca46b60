// SPDX-License-Identifier: BSD-3-Clause
// Groups: the calls of a thread between ncclGroupStart() and ncclGroupEnd(), which become one job
// for each communicator. A call outside of a group is a group of one.
#pragma once

#include "lib/adapters/ccl/communicator.hpp"

namespace weft::ccl {

// Adds a collective, or one send or receive, to the group, or submits it.
Result<void> enqueue(const CommPtr& comm, cudaStream_t stream, Call call);
Result<void> enqueue(const CommPtr& comm, cudaStream_t stream, const Transfer& transfer);

// Adds a communicator that is being created; without a group waits for it. Errors: why it cannot be
// created; would_block (it does not block its caller).
Result<void> await_creation(const CommPtr& comm);

bool in_group() noexcept;
// Makes the whole group fail.
void spoil_group(const Error& error);

}  // namespace weft::ccl
