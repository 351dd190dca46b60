// SPDX-License-Identifier: BSD-3-Clause
// The group of a thread.
#include "lib/adapters/ccl/group.hpp"

#include <algorithm>
#include <utility>

#include "lib/adapters/ccl/result.hpp"

namespace weft::ccl {
namespace {

struct OfComm {
  CommPtr comm;
  Job job;
  std::vector<Transfer> transfers;
};

struct Group {
  int depth = 0;
  std::vector<OfComm> all;
  std::vector<CommPtr> created;
  std::optional<Error> error;
};
thread_local Group current;

OfComm& part_of(const CommPtr& comm) {
  for (OfComm& part : current.all)
    if (part.comm == comm) return part;
  return current.all.emplace_back(OfComm{comm, {}, {}});
}

void add_stream(OfComm& part, cudaStream_t handle) {
  StreamPtr stream = stream_of(handle, part.comm->number());
  std::vector<StreamPtr>& streams = part.job.streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end())
    streams.push_back(std::move(stream));
}

// Transfers come last: ranks may mix them with collectives in different orders.
Result<void> submit(OfComm part) {
  if (!part.transfers.empty())
    part.job.calls.push_back([transfers = std::move(part.transfers)](Communicator& group) {
      return group.exchange(transfers);
    });
  return part.comm->submit(std::move(part.job));
}

Result<void> created(const CommPtr& comm) {
  if (comm->config().blocking) return comm->wait_until_open();
  return Error{Code::would_block, "the communicator is being created"};
}

// The first error of all; all are submitted and awaited.
Result<void> finish(Group group) {
  Result<void> first;
  if (group.error)
    first = *group.error;
  else
    for (OfComm& part : group.all)
      if (const Result<void> done = submit(std::move(part)); !done && first) first = done;
  for (const CommPtr& comm : group.created)
    if (const Result<void> done = created(comm); !done && first) first = done;
  return first;
}

Result<void> end_if_alone() {
  if (current.depth > 0) return {};
  return finish(std::exchange(current, {}));
}

}  // namespace

bool in_group() noexcept { return current.depth > 0; }

void spoil_group(const Error& error) {
  if (in_group() && !current.error) current.error = error;
}

Result<void> enqueue(const CommPtr& comm, cudaStream_t stream, Call call) {
  OfComm& part = part_of(comm);
  add_stream(part, stream);
  part.job.calls.push_back(std::move(call));
  return end_if_alone();
}

Result<void> enqueue(const CommPtr& comm, cudaStream_t stream, const Transfer& transfer) {
  OfComm& part = part_of(comm);
  add_stream(part, stream);
  part.transfers.push_back(transfer);
  return end_if_alone();
}

Result<void> await_creation(const CommPtr& comm) {
  current.created.push_back(comm);
  return end_if_alone();
}

}  // namespace weft::ccl

using weft::ccl::call;

ncclResult_t ncclGroupStart() {
  ++weft::ccl::current.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return call([]() -> weft::Result<void> {
    if (weft::ccl::current.depth == 0) return weft::ccl::misused("no ncclGroupStart() before");
    --weft::ccl::current.depth;
    return weft::ccl::end_if_alone();
  });
}
