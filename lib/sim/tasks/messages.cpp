// SPDX-License-Identifier: BSD-3-Clause
// See messages.hpp.
#include "lib/sim/tasks/messages.hpp"

#include <algorithm>

namespace weft::sim::flow {

Messages::Messages(const TaskGraph& graph, size_t flows, uint32_t payload)
    : payload_(payload), streams_(flows) {
  WEFT_DCHECK(payload > 0);
  for (const Task& task : graph.tasks)
    if (task.flow != kNoFlow) ++streams_[task.flow].count;
  uint32_t first = 0;
  for (Stream& stream : streams_) {
    stream.first = first;
    first += std::exchange(stream.count, 0);
  }
  boundaries_.resize(first);
  for (uint32_t number = 0; number < graph.tasks.size(); ++number) {
    const Task& task = graph.tasks[number];
    if (task.flow == kNoFlow) continue;
    Stream& stream = streams_[task.flow];
    const uint32_t before = packets(task.flow);
    const auto count = static_cast<uint32_t>((task.bytes + payload - 1) / payload);
    const auto last = static_cast<uint32_t>(task.bytes - uint64_t{count - 1} * payload);
    boundaries_[stream.first + stream.count++] = {before + count, last, number};
  }
}

uint32_t Messages::packets(uint32_t flow) const noexcept {
  const Stream& stream = streams_[flow];
  return stream.count == 0 ? 0 : boundaries_[stream.first + stream.count - 1].packets;
}

uint32_t Messages::released(uint32_t flow) const noexcept {
  const Stream& stream = streams_[flow];
  return stream.released == 0 ? 0 : boundaries_[stream.first + stream.released - 1].packets;
}

uint32_t Messages::payload(uint32_t flow, uint32_t number) const noexcept {
  const Stream& stream = streams_[flow];
  const auto begin = boundaries_.begin() + stream.first;
  const auto boundary = std::upper_bound(
      begin, begin + stream.count, number,
      [](uint32_t packet, const Boundary& message) { return packet < message.packets; });
  WEFT_DCHECK(boundary != begin + stream.count);
  return number + 1 == boundary->packets ? boundary->last_payload : payload_;
}

bool Messages::next_task(uint32_t flow, uint32_t& task) const noexcept {
  const Stream& stream = streams_[flow];
  if (stream.released == stream.count) return false;
  task = boundaries_[stream.first + stream.released].task;
  return true;
}

}  // namespace weft::sim::flow
