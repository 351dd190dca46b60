// SPDX-License-Identifier: BSD-3-Clause
// See srd_request.hpp.
#include "providers/ibverbs/efa/srd_request.hpp"

#include <array>

#include "providers/ibverbs/queue/extended.hpp"

namespace weft::ibverbs {

namespace {

constexpr size_t kMostInlineEntries = 8;  // more than any EFA has

bool is_send(Opcode opcode) noexcept {
  return opcode == Opcode::send || opcode == Opcode::send_with_imm;
}

const char* invalid_opcode_reason(Opcode opcode, const SrdLimits& device) noexcept {
  switch (opcode) {
    case Opcode::send:
    case Opcode::send_with_imm:
      return nullptr;
    case Opcode::write:
    case Opcode::write_with_imm:
      return device.has(kEfaWrite) ? nullptr
                                   : "the device has no WRITE (DeviceAttributes::has_write)";
    case Opcode::read:
      return device.has(kEfaRead) ? nullptr : "the device has no READ (DeviceAttributes::has_read)";
    case Opcode::compare_swap:
    case Opcode::fetch_add:
      return "the device has no atomics (DeviceAttributes::has_atomics)";
    case Opcode::write_add:
      return "the device has no WRITE_ADD (DeviceAttributes::has_write_add)";
    case Opcode::atomic_write:
    case Opcode::flush:
      return "SRD has no ATOMIC WRITE and no FLUSH";
    case Opcode::send_with_invalidate:
      return "SRD has no SEND with invalidate";
    case Opcode::bind_window:
    case Opcode::local_invalidate:
      return "SRD has no memory windows";
  }
  return "this provider has no such opcode";
}

const char* invalid_flags_reason(const SendRequest& r) noexcept {
  if (has(r.flags, SendFlags::fence)) return "SRD has no fence: wait for completions";
  if (has(r.flags, SendFlags::ordered))
    return "the device has no ordered requests (DeviceAttributes::has_ordered)";
  if (r.imm_high != 0)
    return "immediate data has 32 bits here: set imm_high to 0, or use provider srd";
  if (has(r.flags, SendFlags::inline_data) && !is_send(r.opcode))
    return "inline data is for SENDs on this device";
  return nullptr;
}

void set_inline(ibv_qp_ex& qp, std::span<const Sge> sges) noexcept {
  std::array<ibv_data_buf, kMostInlineEntries> pieces;
  for (size_t i = 0; i < sges.size(); ++i) pieces[i] = {sges[i].address, sges[i].length};
  ibv_wr_set_inline_data_list(&qp, sges.size(), pieces.data());
}

}  // namespace

const char* srd_invalid_reason(const SendRequest& r, const SrdLimits& device,
                               const transport::RequestLimits& qp, uint32_t& length) noexcept {
  if (const char* const reason = invalid_opcode_reason(r.opcode, device)) return reason;
  if (const char* const reason = invalid_flags_reason(r)) return reason;
  const bool send = is_send(r.opcode);
  const uint64_t longest = send ? device.max_send : device.max_rdma;
  uint64_t sum = 0;
  for (const Sge& sge : r.sges) sum += sge.length;
  if (sum > longest)
    return send ? "longer than DeviceAttributes::max_send: a SEND is one packet on this device"
                : "longer than DeviceAttributes::max_message";
  length = static_cast<uint32_t>(sum);
  if (has(r.flags, SendFlags::inline_data)) {
    if (sum > qp.max_inline)
      return "inline data longer than QueuePairOptions::max_inline or DeviceAttributes::max_inline";
    return r.sges.size() > kMostInlineEntries ? "more entries of inline data than 8" : nullptr;
  }
  if (r.sges.size() > qp.max_sge)
    return "more scatter/gather entries than QueuePairOptions::max_send_sge or the device's "
           "(DeviceAttributes::max_sge)";
  if (!send && r.sges.size() > device.max_rdma_sge)
    return "READ and WRITE have fewer scatter/gather entries on this device than SEND: one";
  return nullptr;
}

void issue(ibv_qp_ex& qp, const SendRequest& r, const SrdDestination& to, uint64_t id) noexcept {
  qp.wr_id = id;
  const bool is_inline = has(r.flags, SendFlags::inline_data);
  // It takes none that is not signaled, and no other flags: a thread that waits for solicited
  // completions is woken by all.
  qp.wr_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0);
  issue_operation(qp, r);
  if (is_inline)
    set_inline(qp, r.sges);
  else
    ibv_wr_set_sge_list(&qp, r.sges.size(), entries(r.sges));
  ibv_wr_set_ud_addr(&qp, to.handle, to.qpn, to.qkey);
}

std::optional<uint32_t> SrdSlots::take(const Entry& entry) noexcept {
  if (free_.empty()) return std::nullopt;
  const uint32_t slot = free_.back();
  free_.pop_back();
  entries_[slot] = entry;
  entries_[slot].used = true;
  return slot;
}

void SrdSlots::release_slot(uint32_t slot) noexcept {
  entries_[slot].used = false;
  free_.push_back(slot);  // it had room for all of them at the beginning
}

std::optional<SrdSlots::Entry> SrdSlots::finish(uint32_t slot) noexcept {
  if (slot >= entries_.size() || !entries_[slot].used) return std::nullopt;
  release_slot(slot);
  return entries_[slot];
}

void SrdSlots::clear() noexcept {
  for (uint32_t slot = 0; slot < entries_.size(); ++slot)
    if (entries_[slot].used) release_slot(slot);
}

}  // namespace weft::ibverbs
