// SPDX-License-Identifier: BSD-3-Clause
// See hand_over.hpp. Mbufs in a ring when the device closes are freed with the pools.
#include "providers/port/dpdk/hand_over.hpp"

#include <rte_mbuf.h>
#include <rte_ring.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/full_fence.hpp"

namespace weft::port::dpdk {

namespace {
constexpr unsigned kRoom = 1024;
}  // namespace

Result<std::unique_ptr<HandOver>> HandOver::create(const std::string& name, uint16_t engines) {
  std::unique_ptr<HandOver> made(new HandOver);
  for (uint16_t engine = 0; engine < engines; ++engine) {
    Box& box = *made->boxes_.emplace_back(std::make_unique<Box>());
    box.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const std::string ring = "weft" + std::to_string(engine) + "_" + name;
    box.ring = rte_ring_create(ring.substr(0, 24).c_str(), kRoom, SOCKET_ID_ANY,
                               RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
    if (box.fd < 0 || box.ring == nullptr)
      return Error{Code::no_memory,
                   "dpdk: no memory for the rings between engines: raise dpdk.memory, or "
                   "`ulimit -n`"};
  }
  return made;
}

HandOver::~HandOver() {
  for (const auto& box : boxes_) {
    rte_ring_free(box->ring);
    if (box->fd >= 0) close(box->fd);
  }
}

bool HandOver::push(uint16_t to, rte_mbuf* buffer) noexcept {
  Box& box = *boxes_[to];
  if (rte_ring_enqueue(box.ring, buffer) != 0) return false;
  base::full_fence();  // with prepare_wait_of(): one sees the other
  if (box.waiting.load(std::memory_order_relaxed)) (void)eventfd_write(box.fd, 1);
  return true;
}

uint16_t HandOver::pop(uint16_t engine, rte_mbuf** buffers, uint16_t room) noexcept {
  void** const objects = reinterpret_cast<void**>(buffers);
  return static_cast<uint16_t>(
      rte_ring_sc_dequeue_burst(boxes_[engine]->ring, objects, room, nullptr));
}

bool HandOver::prepare_wait_of(uint16_t engine) noexcept {
  Box& box = *boxes_[engine];
  box.waiting.store(true, std::memory_order_relaxed);
  base::full_fence();
  if (rte_ring_empty(box.ring) != 0) return true;
  box.waiting.store(false, std::memory_order_relaxed);
  return false;
}

void HandOver::finish_wait_of(uint16_t engine) noexcept {
  Box& box = *boxes_[engine];
  box.waiting.store(false, std::memory_order_relaxed);
  eventfd_t count;
  (void)eventfd_read(box.fd, &count);
}

}  // namespace weft::port::dpdk
