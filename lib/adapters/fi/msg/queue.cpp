// SPDX-License-Identifier: BSD-3-Clause
// See queue.hpp.
#include "lib/adapters/fi/msg/queue.hpp"

#include <array>
#include <string>

#include "lib/adapters/fi/common/cq.hpp"
#include "lib/adapters/fi/msg/endpoint.hpp"
#include "lib/base/check.hpp"

namespace weft::fi {
namespace {

constexpr size_t kBatch = 16;
constexpr uint32_t kInitialCapacity = 256;
constexpr size_t kMostEntries = size_t{1} << 20;  // of an endpoint

}  // namespace

Result<std::shared_ptr<MsgQueue>> MsgQueue::create(const Device& device) {
  auto queue =
      device.completion_queue({.capacity = kInitialCapacity, .timestamps = false, .engine = 0});
  if (!queue) return queue.error();
  return std::shared_ptr<MsgQueue>(new MsgQueue(*queue));
}

Result<std::shared_ptr<MsgQueue>> MsgQueue::of(Cq& cq, const Device& device) {
  static std::mutex creating;  // endpoints may be enabled by several threads
  const std::lock_guard hold(creating);
  if (cq.own) return std::static_pointer_cast<MsgQueue>(cq.own);
  auto queue = create(device);
  if (!queue) return queue.error();
  cq.waiting.add(queue->get());
  cq.own = *queue;
  return *queue;
}

Result<void> MsgQueue::reserve(size_t entries) {
  const std::lock_guard hold(lock_);
  if (entries > kMostEntries)
    return Error{Code::invalid_argument, std::to_string(entries) +
                                             " requests of an endpoint, at most " +
                                             std::to_string(kMostEntries) + " are offered"};
  if (needed_ + entries > queue_.capacity())
    if (auto grown = queue_.resize(static_cast<uint32_t>((needed_ + entries) * 3 / 2)); !grown)
      return grown;
  needed_ += entries;
  return {};
}

void MsgQueue::attach(Ep& ep) {
  const std::lock_guard hold(lock_);
  endpoints_[ep.qp.number().value] = &ep;
}

void MsgQueue::detach(Ep& ep, size_t entries) noexcept {
  const std::lock_guard hold(lock_);
  WEFT_CHECK(needed_ >= entries);
  needed_ -= entries;
  if (!ep.qp) return;
  while (take_batch() != 0) {  // what has arrived is not lost when the peer closes first
  }
  const auto at = endpoints_.find(ep.qp.number().value);
  if (at != endpoints_.end() && at->second == &ep) endpoints_.erase(at);
}

void MsgQueue::progress() noexcept {
  const std::lock_guard hold(lock_);
  take_batch();
}

size_t MsgQueue::take_batch() noexcept {
  std::array<Completion, kBatch> batch;
  const size_t count = queue_.poll(batch);
  for (size_t i = 0; i < count; ++i)
    if (const auto at = endpoints_.find(batch[i].qp.value); at != endpoints_.end())
      at->second->complete(batch[i]);
  return count;
}

void MsgQueue::arm() noexcept {
  queue_.acknowledge();
  queue_.arm();
}

}  // namespace weft::fi
