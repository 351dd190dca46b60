// SPDX-License-Identifier: BSD-3-Clause
// Extended completion queues: one completion at a time, whose fields are read by functions.
#include "lib/adapters/verbs/queue/poll_ex.hpp"

#include <cstring>
#include <ctime>

#include "lib/adapters/verbs/queue/poll.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

// The program arms the queue, and then takes what is there: what arrives meanwhile has an event,
// which must find it in the queue. (A poll makes progress, so completions arrive during the calls.)
// So ENOENT once, and only who asks again gets later ones.
int next_poll(ibv_cq_ex* verbs) noexcept {
  Cq& cq = of(verbs);
  if (cq.left_to_poll == 0) {
    if (cq.polls_again) cq.left_to_poll = cq.kept.fetch(cq.queue);
    cq.polls_again = cq.left_to_poll == 0 || cq.left_to_poll == kBatch;
  }
  if (cq.left_to_poll == 0) return ENOENT;
  --cq.left_to_poll;
  // None, if another thread has polled them by ibv_poll_cq.
  if (cq.kept.take(&cq.current, &cq.current_time, 1) == 0) return ENOENT;
  verbs->status = status_of(cq.current);
  verbs->wr_id = cq.current.id;
  return 0;
}

int start_poll(ibv_cq_ex* verbs, ibv_poll_cq_attr* attr) noexcept {
  if (attr->comp_mask != 0)
    return refuse(EINVAL, "ibv_start_poll", "comp_mask is 0x%x, and must be 0", attr->comp_mask);
  Cq& cq = of(verbs);
  cq.extended_poll.lock();
  cq.left_to_poll = cq.kept.fetch(cq.queue);
  cq.polls_again = cq.left_to_poll == kBatch;
  if (cq.left_to_poll == 0 && cq.kept.any()) {  // of the last time
    cq.left_to_poll = cq.kept.size();
    cq.polls_again = true;
  }
  const int error = next_poll(verbs);
  if (error != 0) cq.extended_poll.unlock();
  return error;
}

void end_poll(ibv_cq_ex* verbs) noexcept { of(verbs).extended_poll.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept { return opcode_of(of(cq).current); }
uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept { return of(cq).current.vendor_error; }
uint32_t read_byte_len(ibv_cq_ex* cq) noexcept { return of(cq).current.byte_count; }
__be32 read_imm_data(ibv_cq_ex* cq) noexcept { return imm_or_key_of(of(cq).current); }
uint32_t read_qp_num(ibv_cq_ex* cq) noexcept { return of(cq).current.qp.value; }
uint32_t read_src_qp(ibv_cq_ex* cq) noexcept { return of(cq).current.source_qp.value; }
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept { return wc_flags_of(of(cq).current); }
uint32_t read_slid(ibv_cq_ex* cq) noexcept { return of(cq).context->slid; }
uint8_t read_dlid_path_bits(ibv_cq_ex*) noexcept { return 0; }

uint8_t read_sl(ibv_cq_ex* verbs) noexcept {
  const Cq& cq = of(verbs);
  return has(cq.current.flags, CompletionFlags::grh) ? sl_of(cq) : 0;
}

uint64_t read_completion_ts(ibv_cq_ex* cq) noexcept {
  return static_cast<uint64_t>((of(cq).current_time - Instant{}).ns());
}

uint64_t read_completion_wallclock_ns(ibv_cq_ex* verbs) noexcept {
  const Cq& cq = of(verbs);
  timespec wall;
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const int64_t age = (cq.context->device.now() - cq.current_time).ns();
  return static_cast<uint64_t>(wall.tv_sec * 1'000'000'000 + wall.tv_nsec - age);
}

int read_sgid(SenderReader* self, ibv_gid* gid) noexcept {
  const Cq& cq = *self->cq;
  if (cq.current.type < WorkType::recv) return -ENOENT;
  const auto address = cq.context->device.peer_address(cq.current.source_peer);
  if (!address) return -ENOENT;
  std::memcpy(gid->raw, address->bytes.data(), sizeof gid->raw);
  return 0;
}

}  // namespace

void set_extended_poll(Cq& cq, uint64_t wc_flags) noexcept {
  cq.sender = {.comp_mask = 0, .read_sgid = read_sgid, .is_unsolicited = nullptr, .cq = &cq};
  ibv_cq_ex& to = cq.cq;
  const auto wants = [&](uint64_t flag) { return (wc_flags & flag) != 0; };
  to.start_poll = start_poll;
  to.next_poll = next_poll;
  to.end_poll = end_poll;
  to.read_opcode = read_opcode;
  to.read_vendor_err = read_vendor_err;
  to.read_wc_flags = read_wc_flags;
  if (wants(IBV_WC_EX_WITH_BYTE_LEN)) to.read_byte_len = read_byte_len;
  if (wants(IBV_WC_EX_WITH_IMM)) to.read_imm_data = read_imm_data;
  if (wants(IBV_WC_EX_WITH_QP_NUM)) to.read_qp_num = read_qp_num;
  if (wants(IBV_WC_EX_WITH_SRC_QP)) to.read_src_qp = read_src_qp;
  if (wants(IBV_WC_EX_WITH_SLID)) to.read_slid = read_slid;
  if (wants(IBV_WC_EX_WITH_SL)) to.read_sl = read_sl;
  if (wants(IBV_WC_EX_WITH_DLID_PATH_BITS)) to.read_dlid_path_bits = read_dlid_path_bits;
  if (wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) to.read_completion_ts = read_completion_ts;
  if (wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
    to.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace weft::drop_in

weft::drop_in::SenderReader* weft_verbs_sender_reader(ibv_cq_ex* cq) {
  return &weft::drop_in::of(cq).sender;
}
