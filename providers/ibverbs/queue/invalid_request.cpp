// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a request for a queue pair, which the device would answer with EINVAL and no
// more.
#include "providers/ibverbs/context/region.hpp"
#include "providers/ibverbs/queue/qp.hpp"

namespace weft::ibverbs {

namespace {

constexpr uint32_t kSends = opcode_bit(Opcode::send) | opcode_bit(Opcode::send_with_imm);
constexpr uint32_t kWrites = opcode_bit(Opcode::write) | opcode_bit(Opcode::write_with_imm);
constexpr uint32_t kImmediate =
    opcode_bit(Opcode::send_with_imm) | opcode_bit(Opcode::write_with_imm);
constexpr uint32_t kAtomics = opcode_bit(Opcode::compare_swap) | opcode_bit(Opcode::fetch_add);
constexpr uint32_t kAnswered = opcode_bit(Opcode::read) | kAtomics;
constexpr uint32_t kLocal = opcode_bit(Opcode::bind_window) | opcode_bit(Opcode::local_invalidate);

uint32_t opcodes_of(QpType type) noexcept {
  switch (type) {
    case QpType::ud:
      return kSends;
    case QpType::uc:
      return kSends | kWrites | kLocal;
    case QpType::xrc_target:
    case QpType::srd:
      return 0;
    default:
      return kSends | opcode_bit(Opcode::send_with_invalidate) | kWrites | kAnswered | kLocal;
  }
}

const char* invalid_datagram_reason(const SendRequest& r, uint32_t length, uint32_t mtu) noexcept {
  if (r.to == nullptr || r.remote_qpn.value == 0 || r.remote_qpn.value > Psn::kMask)
    return "a datagram needs SendRequest::to, remote_qpn and remote_qkey";
  if (length > mtu) return "a datagram has at most DeviceAttributes::active_mtu bytes";
  return nullptr;
}

const char* invalid_local_reason(const SendRequest& r, const Domain& domain) noexcept {
  if (!r.sges.empty() || has(r.flags, SendFlags::inline_data))
    return "binding and invalidating have no scatter/gather entries and no inline data";
  if (r.opcode == Opcode::local_invalidate) return nullptr;
  const Window* const window = window_of(r);
  if (window == nullptr) return "bind_window needs SendRequest::bind with a window of the device";
  const Region* const region = region_of(r);
  if (region == nullptr) return "a binding needs a region on this device, also with size 0";
  if (&window->domain() != &domain || &region->domain() != &domain)
    return "window, region and queue pair must be of one protection domain";
  if (window->type == WindowType::one && has(r.bind->access, Access::zero_based))
    return "only windows of type 2 can be zero_based";
  if (window->type == WindowType::two && r.rkey.value >> 8 != window->number)
    return "SendRequest::rkey must be a key of the window: MemoryWindow::next_key()";
  return nullptr;
}

}  // namespace

uint32_t usable_opcodes(QpType type, const DeviceAttributes& device,
                        uint32_t max_rd_atomic) noexcept {
  uint32_t usable = opcodes_of(type);
  if (!device.has_immediate) usable &= ~kImmediate;
  if (!device.has_atomics) usable &= ~kAtomics;
  if (max_rd_atomic == 0) usable &= ~kAnswered;
  return usable;
}

void Qp::set_max_rd_atomic(uint32_t max_rd_atomic) noexcept {
  usable_ = usable_opcodes(options_.type, context().attributes(), max_rd_atomic);
  if (options_.type == QpType::ud || options_.type == QpType::xrc_initiator ||
      options_.max_send_sge == 0)
    return;
  plain_[0].opcodes = usable_ & ~(kAtomics | kLocal);
  plain_[1].opcodes = usable_ & ~(kAnswered | kLocal);
}

// Why it is not among usable_.
const char* Qp::invalid_opcode_reason(Opcode opcode) const noexcept {
  const QpType type = options_.type;
  if (opcode > Opcode::local_invalidate || opcode == Opcode::write_add)
    return "this provider has no such opcode";
  if (transport::is_effect(opcode)) return "this provider has no ATOMIC WRITE and no FLUSH yet";
  if (type == QpType::xrc_target) return "an XRC target has no send queue: an XRC initiator sends";
  if ((opcodes_of(type) & opcode_bit(opcode)) == 0)
    return type == QpType::ud
               ? "UD queue pairs only SEND, with or without immediate data"
               : "UC queue pairs only SEND and WRITE, with or without immediate data";
  if ((kImmediate & opcode_bit(opcode)) != 0)
    return "the device has no immediate data (DeviceAttributes::has_immediate)";
  if (transport::is_atomic(opcode) && !context().attributes().has_atomics)
    return "the device has no atomics (DeviceAttributes::has_atomics)";
  return "READ and atomics need max_rd_atomic > 0";
}

const char* Qp::invalid_reason(const SendRequest& r) const noexcept {
  if ((usable_.load(std::memory_order_relaxed) & opcode_bit(r.opcode)) == 0)
    return invalid_opcode_reason(r.opcode);
  if (r.imm_high != 0)
    return "immediate data has 32 bits here: set imm_high to 0, or use provider srd";
  uint32_t length = 0;
  if (const char* const reason = transport::invalid_reason(r, send_limits_, length)) return reason;
  if (is_local(r.opcode)) return invalid_local_reason(r, *domain_);
  if (options_.type == QpType::ud)
    return invalid_datagram_reason(r, length, context().attributes().active_mtu);
  if (options_.type == QpType::xrc_initiator && r.remote_srq > 0xFFFFFF)
    return "SendRequest::remote_srq has more than 24 bits";
  return nullptr;
}

}  // namespace weft::ibverbs
