// SPDX-License-Identifier: BSD-3-Clause
// ibv_poll_cq.
#include "lib/adapters/verbs/queue/poll.hpp"

#include <algorithm>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/objects.hpp"
#include "lib/adapters/verbs/queue/batch.hpp"

namespace weft::drop_in {
namespace {

void convert(const Cq& cq, const Completion& from, ibv_wc& to) noexcept {
  to.wr_id = from.id;
  to.status = status_of(from);
  to.opcode = opcode_of(from);
  to.vendor_err = from.vendor_error;
  to.byte_len = from.byte_count;
  to.invalidated_rkey = imm_or_key_of(from);
  to.qp_num = from.qp.value;
  to.src_qp = from.source_qp.value;
  to.wc_flags = wc_flags_of(from);
  to.pkey_index = 0;
  to.slid = 0;
  to.sl = (to.wc_flags & IBV_WC_GRH) != 0 ? sl_of(cq) : 0;
  to.dlid_path_bits = 0;
}

size_t take_kept(Cq& cq, Completion* completions, Instant* times, size_t wanted) noexcept {
  const std::lock_guard guard(cq.kept_lock);
  const size_t count = std::min(wanted, cq.kept.size());
  for (size_t i = 0; i < count; ++i) {
    completions[i] = cq.kept.front().first;
    if (times != nullptr) times[i] = cq.kept.front().second;
    cq.kept.pop_front();
  }
  if (cq.kept.empty()) cq.has_kept = false;
  return count;
}

int poll_cq(ibv_cq* verbs, int capacity, ibv_wc* to) noexcept {
  Cq& cq = of(verbs);
  Batch<Completion> completions;
  int filled = 0;
  while (filled < capacity) {
    const size_t wanted = std::min<size_t>(kBatch, static_cast<size_t>(capacity - filled));
    const size_t count = take(cq, &completions[0].value, nullptr, wanted);
    for (size_t i = 0; i < count; ++i) convert(cq, completions[i].value, to[filled++]);
    if (count < wanted) break;
  }
  return filled;
}

}  // namespace

size_t take(Cq& cq, Completion* completions, Instant* times, size_t wanted) noexcept {
  if (cq.has_kept.load(std::memory_order_relaxed)) [[unlikely]]
    if (const size_t kept = take_kept(cq, completions, times, wanted)) return kept;
  if (times == nullptr) return cq.queue.poll({completions, wanted});
  return cq.queue.poll({completions, wanted}, {times, wanted});
}

void drop_completions_of(uint32_t qp_num, Cq& cq) {
  const std::lock_guard guard(cq.kept_lock);
  std::erase_if(cq.kept, [&](const auto& kept) { return kept.first.qp.value == qp_num; });
  // At most those that the queue holds now: others may be added meanwhile.
  std::array<Completion, kBatch> completions;
  std::array<Instant, kBatch> times;
  for (uint32_t left = cq.queue.capacity(); left != 0;) {
    const size_t wanted = std::min<size_t>(kBatch, left);
    const size_t count = cq.queue.poll({completions.data(), wanted}, {times.data(), wanted});
    for (size_t i = 0; i < count; ++i)
      if (completions[i].qp.value != qp_num) cq.kept.emplace_back(completions[i], times[i]);
    if (count < wanted) break;
    left -= static_cast<uint32_t>(count);
  }
  cq.has_kept = !cq.kept.empty();
}

void set_poll_operations(verbs_context& verbs) noexcept { verbs.context.ops.poll_cq = poll_cq; }

}  // namespace weft::drop_in
