// SPDX-License-Identifier: BSD-3-Clause
// ibv_poll_cq.
#include "lib/adapters/verbs/queue/poll.hpp"

#include <algorithm>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {
namespace {

constexpr size_t kBatch = 16;

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

int poll_cq(ibv_cq* verbs, int capacity, ibv_wc* to) noexcept {
  const Cq& cq = of(verbs);
  std::array<Completion, kBatch> completions;
  int filled = 0;
  while (filled < capacity) {
    const size_t wanted = std::min<size_t>(kBatch, static_cast<size_t>(capacity - filled));
    const size_t count = cq.queue.poll({completions.data(), wanted});
    for (size_t i = 0; i < count; ++i) convert(cq, completions[i], to[filled++]);
    if (count < wanted) break;
  }
  return filled;
}

}  // namespace

void set_poll_operations(verbs_context& verbs) noexcept { verbs.context.ops.poll_cq = poll_cq; }

}  // namespace weft::drop_in
