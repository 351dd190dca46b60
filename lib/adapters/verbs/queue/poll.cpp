// SPDX-License-Identifier: BSD-3-Clause
// ibv_poll_cq.
#include "lib/adapters/verbs/queue/poll.hpp"

#include <algorithm>

#include "lib/adapters/verbs/batch.hpp"
#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/objects.hpp"

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
  to.slid = cq.context->slid;
  to.sl = (to.wc_flags & IBV_WC_GRH) != 0 ? sl_of(cq) : 0;
  to.dlid_path_bits = 0;
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
  if (cq.kept.any()) [[unlikely]]
    if (const size_t kept = cq.kept.take(completions, times, wanted)) return kept;
  if (times == nullptr) return cq.queue.poll({completions, wanted});
  return cq.queue.poll({completions, wanted}, {times, wanted});
}

void set_poll_operations(verbs_context& verbs) noexcept { verbs.context.ops.poll_cq = poll_cq; }

bool has_own_operations(const ibv_context& context) noexcept {
  return context.ops.poll_cq == poll_cq;
}

}  // namespace weft::drop_in
