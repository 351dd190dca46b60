// SPDX-License-Identifier: BSD-3-Clause
// The verbs functions that both protocols share: creation attributes of queue pairs, validation of
// posted requests, work types of completions.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/transport/completion_queue.hpp"
#include "lib/transport/machine.hpp"
#include "lib/transport/work_queue.hpp"
#include "weft/qp.hpp"

namespace weft::transport {

struct SharedReceives;

struct QpConfig {
  QpType type = QpType::rc;
  uint32_t domain = 0;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  uint32_t max_send_wr = 128;
  uint32_t max_recv_wr = 128;
  uint32_t max_send_sge = 4;
  uint32_t max_recv_sge = 4;
  uint32_t max_inline = 64;
  bool signal_all = false;
  std::string_view congestion{};     // RC, XRC of RoCE: name of a controller; empty: the device's
  SharedReceives* shared = nullptr;  // RoCE: the shared receive queue
  uint32_t xrc_domain = 0;           // of an XRC target
};
// Errors: invalid_argument (names the option that is missing or exceeds a limit), not_supported.
Result<void> check(const QpConfig& config, const Limits& limits);

// Copies every attribute that is set in `change`, except the state.
void merge(QueuePairAttributes& attributes, const QueuePairAttributes& change);

// The Completion::type of a request.
WorkType work_type(Opcode opcode) noexcept;

constexpr bool is_atomic(Opcode opcode) noexcept {
  return opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
}

// ATOMIC WRITE and FLUSH: answered by a response without data.
constexpr bool is_effect(Opcode opcode) noexcept {
  return opcode == Opcode::atomic_write || opcode == Opcode::flush;
}

// Bytes of a request from which it fills trains without later posts (Machine::has_bulk).
inline constexpr uint32_t kBulk = 4096;

inline uint64_t sum_of(std::span<const Sge> sges) noexcept {
  uint64_t sum = 0;
  for (const Sge& sge : sges) sum += sge.length;
  return sum;
}

// Limits of one request of a queue pair.
struct RequestLimits {
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;
  uint64_t max_message = 0;
};
// The reason why a request is invalid, or nullptr. `length` gets the sum of its entries in bytes.
const char* invalid_answered_reason(const SendRequest& request, uint32_t& length) noexcept;
inline const char* invalid_reason(const SendRequest& r, const RequestLimits& limits,
                                  uint32_t& length) noexcept {
  if (r.sges.size() > limits.max_sge)
    return "more scatter/gather entries than QueuePairOptions::max_send_sge";
  WEFT_DCHECK(limits.max_message <= UINT32_MAX);
  const uint64_t sum = sum_of(r.sges);
  if (sum > limits.max_message) return "longer than 2^31 bytes";  //= roce:C-OPS-77 roce:C-OPS-79
  length = static_cast<uint32_t>(sum);
  if (has(r.flags, SendFlags::inline_data) && sum > limits.max_inline)
    return "inline data longer than QueuePairOptions::max_inline";
  return is_message(r.opcode) ? nullptr : invalid_answered_reason(r, length);
}
const char* invalid_reason(const RecvRequest& request, const RequestLimits& limits,
                           uint32_t& length) noexcept;

}  // namespace weft::transport
