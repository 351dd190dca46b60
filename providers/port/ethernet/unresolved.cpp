// SPDX-License-Identifier: BSD-3-Clause
// See unresolved.hpp.
#include "providers/port/ethernet/unresolved.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace weft::port::ethernet {

Unresolved::Destination* Unresolved::find(const Gid& address) noexcept {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Destination& one) { return one.address == address; });
  return found != waiting_.end() ? &*found : nullptr;
}

void Unresolved::forget(size_t i) noexcept {
  std::swap(waiting_[i], waiting_.back());
  waiting_.pop_back();
}

void Unresolved::enqueue(const transport::TxFrame& frame, Neighbours& neighbours,
                         Instant now) noexcept {
  const Gid& address = frame.path->destination;
  if (neighbours.resolve(address, now) == Neighbours::Resolution::unreachable) {
    ++dropped_;
    return;
  }
  Destination* to = find(address);
  const bool room =
      to != nullptr ? to->frames.size() < kMaxFrames : waiting_.size() < kMaxDestinations;
  std::optional<FrameCopy> copy = room ? FrameCopy::of(frame) : std::nullopt;
  try {
    if (copy && to == nullptr) to = &waiting_.emplace_back(Destination{address, {}, 0});
    if (copy) to->frames.push_back(*std::move(copy));
  } catch (const std::bad_alloc&) {
    copy.reset();
  }
  dropped_ += !copy;
}

}  // namespace weft::port::ethernet
