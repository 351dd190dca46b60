// SPDX-License-Identifier: BSD-3-Clause
// See receive_buffers.hpp.
#include "lib/adapters/fi/rdm/receive_buffers.hpp"

#include <algorithm>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"

namespace weft::fi {
namespace {

constexpr size_t kMostUnread = 65'536;  // completions of receives that the program has not read

}  // namespace

void ReceiveBuffers::open(QueuePair qp, size_t count, size_t size, LKey memory,
                          const Cq* completions) {
  bytes_.resize(count * size);
  held_.reserve(count);
  qp_ = std::move(qp);
  memory_ = memory;
  completions_ = completions;
  size_ = size;
  for (uint32_t i = 0; i < count; ++i) post(i);
}

void ReceiveBuffers::post(uint32_t index) noexcept {
  const Sge piece{bytes_.data() + index * size_, static_cast<uint32_t>(size_), memory_};
  const PostStatus posted =
      qp_.post_recv(RecvRequest{.id = RdmId{RdmTask::buffer, index}.packed(), .sges = {&piece, 1}});
  if (!posted) FI_WARN(&provider(), FI_LOG_EP_DATA, "a receive is lost: %s\n", posted.reason);
}

std::span<const std::byte> ReceiveBuffers::bytes(uint32_t index, size_t length) const noexcept {
  if (length > size_) return {};
  return {bytes_.data() + index * size_, length};
}

bool ReceiveBuffers::is_backlogged() const noexcept {
  return completions_ != nullptr &&
         completions_->unread() >= std::max(completions_->size, kMostUnread);
}

void ReceiveBuffers::give(uint32_t index) noexcept {
  if (is_backlogged())
    held_.push_back(index);
  else
    post(index);
}

void ReceiveBuffers::release() noexcept {
  for (; !held_.empty() && !is_backlogged(); held_.pop_back()) post(held_.back());
}

}  // namespace weft::fi
