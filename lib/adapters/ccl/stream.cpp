// SPDX-License-Identifier: BSD-3-Clause
// Completions, streams, and the functions of streams.
#include "lib/adapters/ccl/stream.hpp"

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "lib/adapters/ccl/result.hpp"

namespace weft::ccl {
namespace {

// The NULL streams of a thread, by the number of the communicator.
thread_local std::map<uint64_t, StreamPtr> null_streams;

std::vector<StreamPtr> streams_of(cudaStream_t handle) {
  if (handle != nullptr) return {handle->it};
  std::vector<StreamPtr> all;
  for (const auto& [communicator, stream] : null_streams) all.push_back(stream);
  return all;
}

ncclResult_t first_failure(const std::vector<StreamPtr>& streams) {
  ncclResult_t first = ncclSuccess;
  for (const StreamPtr& stream : streams)
    if (const ncclResult_t result = stream->take_result(); first == ncclSuccess) first = result;
  return first;
}

}  // namespace

void Completion::finish() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

bool Completion::wait_for(Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::microseconds(limit.us()), [this] { return done_; });
}

bool Completion::done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

CompletionPtr Stream::append(CompletionPtr job) {
  const std::lock_guard lock(mutex_);
  return std::exchange(last_, std::move(job));
}

void Stream::note(ncclResult_t result) {
  const std::lock_guard lock(mutex_);
  if (result_ == ncclSuccess) result_ = result;
}

CompletionPtr Stream::last() {
  const std::lock_guard lock(mutex_);
  return last_;
}

ncclResult_t Stream::take_result() {
  const std::lock_guard lock(mutex_);
  return std::exchange(result_, ncclSuccess);
}

StreamPtr stream_of(cudaStream_t handle, uint64_t communicator) {
  if (handle != nullptr) return handle->it;
  StreamPtr& stream = null_streams[communicator];
  if (!stream) stream = std::make_shared<Stream>();
  return stream;
}

}  // namespace weft::ccl

using weft::ccl::call;

ncclResult_t weft_stream_create(cudaStream_t* stream) {
  return call([&]() -> weft::Result<void> {
    if (stream == nullptr) return weft::ccl::wrong("stream is NULL");
    *stream = new CUstream_st{std::make_shared<weft::ccl::Stream>()};
    return {};
  });
}

ncclResult_t weft_stream_destroy(cudaStream_t stream) {
  delete stream;
  return ncclSuccess;
}

ncclResult_t weft_stream_synchronize(cudaStream_t stream) {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t done = call([&]() -> weft::Result<void> {
    const std::vector<weft::ccl::StreamPtr> streams = weft::ccl::streams_of(stream);
    for (const weft::ccl::StreamPtr& each : streams)
      if (const weft::ccl::CompletionPtr last = each->last()) last->wait();
    result = weft::ccl::first_failure(streams);
    if (stream == nullptr) weft::ccl::null_streams.clear();
    return {};
  });
  return done != ncclSuccess ? done : result;
}

ncclResult_t weft_stream_query(cudaStream_t stream) {
  for (const weft::ccl::StreamPtr& each : weft::ccl::streams_of(stream))
    if (const weft::ccl::CompletionPtr last = each->last(); last && !last->done())
      return ncclInProgress;
  return weft_stream_synchronize(stream);
}
