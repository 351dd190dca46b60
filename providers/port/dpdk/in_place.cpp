// SPDX-License-Identifier: BSD-3-Clause
// See in_place.hpp.
#include "providers/port/dpdk/in_place.hpp"

#include <rte_mbuf.h>

#include <array>

#include "lib/memory/guarded_copy.hpp"
#include "providers/port/dpdk/memif.hpp"

namespace weft::port::dpdk {

bool can_read_in_place(const Options& options) {
  // Buffers of a burst that faults are found again where nobody else may hold some.
  if (is_memif(options))
    return device_argument(options, "zero-copy") != "yes" && options.queues == 1;
  return is_one_of(options, {"net_tap", "net_ring", "net_null"});
}

bool linearize(rte_mbuf* frame) noexcept {
  if (frame->next == nullptr || !RTE_MBUF_HAS_EXTBUF(frame->next))
    return rte_pktmbuf_linearize(frame) == 0;
  struct Attempt {
    rte_mbuf* frame;
    bool done;
  } attempt{frame, false};
  const auto run = [](void* argument) {
    Attempt& a = *static_cast<Attempt*>(argument);
    a.done = rte_pktmbuf_linearize(a.frame) == 0;
  };
  return memory::run_guarded(run, &attempt) && attempt.done;
}

InPlace::InPlace() : shared_(new rte_mbuf_ext_shared_info{}) {
  shared_->free_cb = [](void*, void*) {};  // the memory is its owner's
  rte_mbuf_ext_refcnt_set(shared_.get(), 1);
}

InPlace::~InPlace() = default;

std::byte* InPlace::append(rte_mbuf* head, const std::byte* data, uint32_t length,
                           uint16_t tail) noexcept {
  std::array<rte_mbuf*, 2> more;
  if (rte_pktmbuf_alloc_bulk(head->pool, more.data(), more.size()) != 0) return nullptr;
  const auto [payload, last] = more;
  const auto size = static_cast<uint16_t>(length);
  (void)rte_mbuf_ext_refcnt_update(shared_.get(), 1);
  rte_pktmbuf_attach_extbuf(payload, const_cast<std::byte*>(data),
                            reinterpret_cast<rte_iova_t>(data), size, shared_.get());
  payload->data_len = size;
  payload->next = last;
  last->data_len = tail;
  head->next = payload;
  head->nb_segs = 3;
  return rte_pktmbuf_mtod(last, std::byte*);
}

unsigned InPlace::under_way() const noexcept {
  return rte_mbuf_ext_refcnt_read(shared_.get()) - 1u;
}

}  // namespace weft::port::dpdk
