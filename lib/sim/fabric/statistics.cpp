// SPDX-License-Identifier: BSD-3-Clause
// See statistics.hpp.
#include "lib/sim/fabric/statistics.hpp"

namespace weft::sim::fabric {

bool empty(const Fabric& fabric) noexcept {
  for (const Port& port : fabric.ports())
    if (!port.data.empty() || !port.control.empty() || port.queue_bytes != 0 ||
        port.ingress_bytes != 0 || (!fabric.settings().sprayed && port.headroom_used != 0))
      return false;
  for (const ClassQueue& queue : fabric.classes().queues())
    if (!queue.data.empty() || queue.queue_bytes != 0 || queue.ingress_bytes != 0 ||
        queue.headroom_used != 0)
      return false;
  return fabric.buffer().empty();
}

uint64_t queued_packets(const Fabric& fabric) noexcept {
  uint64_t count = 0;
  for (const Port& port : fabric.ports()) count += port.data.size() + port.control.size();
  for (const ClassQueue& queue : fabric.classes().queues()) count += queue.data.size();
  return count;
}

int64_t paused_time(const Fabric& fabric, uint32_t number, int64_t end) noexcept {
  const DataClasses& classes = fabric.classes();
  int64_t sum = paused_time(fabric.ports()[number], end);
  for (uint32_t c = 0; c < kClasses && classes.enabled(); ++c)
    sum += paused_time(classes.queue(number, c), end);
  return sum;
}

bool blocked_by_pause(const Fabric& fabric, uint32_t number) noexcept {
  const auto blocked = [](const auto& queue) { return queue.paused && !queue.data.empty(); };
  const DataClasses& classes = fabric.classes();
  if (blocked(fabric.ports()[number])) return true;
  for (uint32_t c = 0; c < kClasses && classes.enabled(); ++c)
    if (blocked(classes.queue(number, c))) return true;
  return false;
}

}  // namespace weft::sim::fabric
