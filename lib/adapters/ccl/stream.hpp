// SPDX-License-Identifier: BSD-3-Clause
// Streams: an order between jobs of communicators. A stream has no thread: it knows the completion
// of its last job, for which the next one waits in the thread of its communicator.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "weft/nccl_compat.h"
#include "weft/units.hpp"

namespace weft::ccl {

// The end of a job. Any thread.
class Completion {
 public:
  void finish();
  void wait();
  // False: it has not ended yet.
  bool wait_for(Duration limit);
  bool done();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};
using CompletionPtr = std::shared_ptr<Completion>;

class Stream {
 public:
  // Makes `job` the last one and returns the one before, which may be null.
  CompletionPtr append(CompletionPtr job);
  // Notes how a job has ended, before it completes.
  void note(ncclResult_t result);
  // Null if nothing was queued.
  CompletionPtr last();
  // The first failure since the last call.
  ncclResult_t take_result();

 private:
  std::mutex mutex_;
  CompletionPtr last_;
  ncclResult_t result_ = ncclSuccess;
};
using StreamPtr = std::shared_ptr<Stream>;

// The stream of a handle; of NULL, that of this thread for the communicator with this number.
StreamPtr stream_of(cudaStream_t handle, uint64_t communicator);

}  // namespace weft::ccl

struct CUstream_st {
  weft::ccl::StreamPtr it;
};
