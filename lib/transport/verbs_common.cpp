// SPDX-License-Identifier: BSD-3-Clause
// See verbs_common.hpp.
#include "lib/transport/verbs_common.hpp"

#include <string>

#include "lib/base/queue_sizes.hpp"

namespace weft::transport {

namespace {

template <class T>
void take(std::optional<T>& to, const std::optional<T>& from) {
  if (from) to = from;
}

}  // namespace

Result<void> check(const QpConfig& c, const Limits& limits) {
  WEFT_DCHECK(limits.max_message <= UINT32_MAX && limits.max_inline <= limits.max_message);
  if (is_xrc(c.type) && c.shared != nullptr)
    return Error{Code::invalid_argument,
                 "an XRC queue pair has no shared receive queue of its own: its peer's requests "
                 "name one of the XRC domain"};
  if ((c.type == QpType::xrc_target) != (c.xrc_domain != 0))
    return Error{Code::invalid_argument,
                 "QueuePairOptions::xrc_domain is for queue pairs of type xrc_target, which need "
                 "it: Device::xrc_domain()"};
  if (c.type == QpType::xrc_initiator && c.send_cq == nullptr)
    return Error{Code::invalid_argument, "an XRC initiator needs QueuePairOptions::send_cq"};
  if (!is_xrc(c.type) && (c.send_cq == nullptr || c.recv_cq == nullptr))
    return Error{Code::invalid_argument,
                 "a queue pair needs QueuePairOptions::send_cq and recv_cq"};
  if (!c.congestion.empty() && c.type != QpType::rc && !is_xrc(c.type))
    return Error{Code::not_supported,
                 "QueuePairOptions::congestion is for RC and XRC queue pairs of roce; leave it "
                 "empty"};
  return base::check_queue_sizes(c, limits);
}

void merge(QueuePairAttributes& attributes, const QueuePairAttributes& change) {
  take(attributes.pkey_index, change.pkey_index);
  take(attributes.port, change.port);
  take(attributes.access, change.access);
  take(attributes.qkey, change.qkey);
  take(attributes.path, change.path);
  take(attributes.path_mtu, change.path_mtu);
  take(attributes.dest_qpn, change.dest_qpn);
  take(attributes.rq_psn, change.rq_psn);
  take(attributes.sq_psn, change.sq_psn);
  take(attributes.max_dest_rd_atomic, change.max_dest_rd_atomic);
  take(attributes.max_rd_atomic, change.max_rd_atomic);
  take(attributes.min_rnr_timer, change.min_rnr_timer);
  take(attributes.timeout, change.timeout);
  take(attributes.retry_count, change.retry_count);
  take(attributes.rnr_retry, change.rnr_retry);
  take(attributes.telemetry, change.telemetry);
  take(attributes.selective_repeat, change.selective_repeat);
  take(attributes.rate_limit, change.rate_limit);
}

WorkType work_type(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::write:
    case Opcode::write_with_imm:
      return WorkType::write;
    case Opcode::read:
      return WorkType::read;
    case Opcode::compare_swap:
      return WorkType::compare_swap;
    case Opcode::fetch_add:
      return WorkType::fetch_add;
    case Opcode::write_add:
      return WorkType::write_add;
    case Opcode::atomic_write:
      return WorkType::atomic_write;
    case Opcode::flush:
      return WorkType::flush;
    case Opcode::bind_window:
      return WorkType::bind_window;
    case Opcode::local_invalidate:
      return WorkType::local_invalidate;
    default:
      return WorkType::send;
  }
}

const char* invalid_answered_reason(const SendRequest& r, uint32_t& length) noexcept {
  WEFT_DCHECK(!is_message(r.opcode));
  const bool is_inline = has(r.flags, SendFlags::inline_data);
  if (is_inline && (r.opcode == Opcode::read || is_atomic(r.opcode)))
    return "READ and atomics have no inline data";
  if (is_atomic(r.opcode) && length != 8) return "an atomic needs entries of 8 bytes in sum";
  if (is_effect(r.opcode) && length != 0)
    return "ATOMIC WRITE and FLUSH have no entries: set SendRequest::swap, SendRequest::flush";
  if (r.opcode == Opcode::atomic_write) length = 8;
  if (r.opcode == Opcode::flush && !r.flush.visible && !r.flush.persistent)
    return "a FLUSH makes something visible or persistent: set Flush::visible or persistent";
  return nullptr;
}

const char* invalid_reason(const RecvRequest& r, const RequestLimits& limits,
                           uint32_t& length) noexcept {
  if (r.sges.size() > limits.max_sge)
    return "more scatter/gather entries than QueuePairOptions::max_recv_sge";
  WEFT_DCHECK(limits.max_message <= UINT32_MAX);
  const uint64_t sum = sum_of(r.sges);
  if (sum > limits.max_message) return "longer than 2^31 bytes";
  length = static_cast<uint32_t>(sum);
  return nullptr;
}

}  // namespace weft::transport
