// SPDX-License-Identifier: BSD-3-Clause
// Posting to a queue pair, and the outcome of what was posted. libfabric may refuse an operation
// for now (FI_EAGAIN), and completes in any order: the ring of sends keeps the order of verbs.
#include <cstring>

#include "lib/base/check.hpp"
#include "providers/libfabric/cq.hpp"
#include "providers/libfabric/qp.hpp"

namespace weft::libfabric {

namespace {

constexpr Duration kPatience = Duration::from_s(10);
constexpr const char* kFull = "the send queue is full: poll completions, or raise max_send_wr";
constexpr const char* kReceivesFull =
    "the receive queue is full: poll completions, or raise max_recv_wr";

bool is_answered(Opcode opcode) noexcept {
  return opcode == Opcode::read || transport::is_atomic(opcode);
}

// Where the bytes of a completion of this operation are written.
bool writes_memory(const Request& request) noexcept {
  return request.receive || is_answered(request.opcode);
}

}  // namespace

const char* Qp::invalid_reason(const SendRequest& r, uint32_t& length) const noexcept {
  const bool known = r.opcode <= Opcode::fetch_add && r.opcode != Opcode::send_with_invalidate;
  if (!known)
    return "provider libfabric has SEND, WRITE (also with immediate data), READ, COMPARE_SWAP and "
           "FETCH_ADD only";
  if (transport::is_atomic(r.opcode) && !context().attributes().has_atomics)
    return "the device has no atomics (DeviceAttributes::has_atomics)";
  if (r.imm_high != 0) return "immediate data has 32 bits here: set imm_high to 0";
  return transport::invalid_reason(r, limits_, length);
}

// False: an entry is not in a region of the domain with the right to do this.
bool Qp::name_memory(Request& into, std::span<const Sge> sges, bool written) noexcept {
  into.sges = 0;
  for (const Sge& sge : sges) {
    if (sge.length == 0) continue;
    fid_mr* const region = context().find(sge.lkey, *domain_, sge.address, sge.length, written);
    if (region == nullptr) return false;
    into.descriptors[into.sges] = fi_mr_desc(region);
    into.memory[into.sges++] = {sge.address, sge.length};
  }
  return true;
}

void Qp::fill(Request& into, const SendRequest& from, uint32_t length) noexcept {
  into.id = from.id;
  into.opcode = from.opcode;
  into.flags = from.flags;
  into.outstanding = true;
  into.finished = false;
  into.issued = into.pending = 0;
  into.status = Status::success;
  into.vendor_error = 0;
  into.imm = from.imm;
  into.length = length;
  into.remote_address = from.remote_address;
  into.rkey = from.rkey.value;
  into.compare_add = from.compare_add;
  into.swap = from.swap;
  if (has(from.flags, SendFlags::inline_data) && !is_answered(from.opcode)) {
    std::byte* to = into.inline_data.data();
    for (const Sge& sge : from.sges) {
      if (sge.length != 0) std::memcpy(to, sge.address, sge.length);
      to += sge.length;
    }
    into.sges = length == 0 ? 0 : 1;
    into.memory[0] = {into.inline_data.data(), length};
    into.descriptors[0] = nullptr;
  } else if (!name_memory(into, from.sges, writes_memory(into))) {
    into.status = Status::local_protection_error;
  }
}

PostStatus Qp::post_send(std::span<const SendRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  const std::lock_guard lock(mutex_);
  uint32_t accepted = 0;
  for (const SendRequest& r : requests) {
    const QpState now = state_;
    uint32_t length = 0;
    if (now != QpState::rts && now != QpState::err)
      return {Code::bad_state, accepted, "requests are posted in RTS: modify() moves there"};
    if (const char* const reason = invalid_reason(r, length))
      return {Code::invalid_argument, accepted, reason};
    if (posted_ - done_ == sends_.size()) return {Code::queue_full, accepted, kFull};
    ++accepted;
    if (now == QpState::err) {
      send_cq_.add({.id = r.id,
                    .qp = name_.number,
                    .status = Status::flushed,
                    .type = transport::work_type(r.opcode)});
      continue;
    }
    fill(send_at(posted_++), r, length);
  }
  while (issue_next()) continue;
  finish_sends();
  return {Code::ok, accepted, ""};
}

PostStatus Qp::post_recv(std::span<const RecvRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  const std::lock_guard lock(mutex_);
  const transport::RequestLimits limits{std::max(1u, options_.max_recv_sge), 0,
                                        limits_.max_message};
  uint32_t accepted = 0;
  for (const RecvRequest& r : requests) {
    uint32_t length = 0;
    if (state_ == QpState::reset)
      return {Code::bad_state, accepted, "receives are posted from INIT on"};
    if (const char* const reason = transport::invalid_reason(r, limits, length))
      return {Code::invalid_argument, accepted, reason};
    if (free_receives_.empty()) return {Code::queue_full, accepted, kReceivesFull};
    Request& request = receives_[free_receives_.back()];
    request.id = r.id;
    request.sequence = received_++;
    if (!name_memory(request, r.sges, true))
      return {Code::invalid_argument, accepted,
              "an entry is not in a region of this domain with local_write"};
    const uint32_t at = free_receives_.back();
    free_receives_.pop_back();
    request.outstanding = true;
    ++accepted;
    if (endpoint_ == nullptr)
      finish(request, {Status::flushed, 0, 0, 0, 0});
    else if (!waiting_receives_.empty() || !issue_receive(request))
      waiting_receives_.push_back(at);
  }
  return {Code::ok, accepted, ""};
}

// False: libfabric takes no more receives for now.
bool Qp::issue_receive(Request& request) noexcept {
  fi_msg message{};
  message.msg_iov = request.memory.data();
  message.desc = request.descriptors.data();
  message.iov_count = request.sges;
  message.addr = FI_ADDR_UNSPEC;
  message.context = &request.context;
  return fi_recvmsg(endpoint_.get(), &message, 0) == 0;
}

// A fence waits for all READs and atomics before it.
bool Qp::must_wait(const Request& request) const noexcept {
  if (!has(request.flags, SendFlags::fence)) return false;
  for (uint64_t at = done_; at != issued_; ++at) {
    const Request& earlier = sends_[at % sends_.size()];
    if (is_answered(earlier.opcode) && !earlier.finished) return true;
  }
  return false;
}

// Posts the next operation to libfabric. False: there is none, or it has to wait. Behind a request
// that has failed none is posted: it will be flushed.
bool Qp::issue_next() noexcept {
  if (issued_ == posted_ || state_ != QpState::rts || failed_) return false;
  if (issued_ != done_ && send_at(issued_ - 1).status != Status::success) return false;
  Request& request = send_at(issued_);
  if (must_wait(request)) return false;
  if (request.status == Status::success && request.issued < operations_of(request)) {
    const int code = issue(request, *endpoint_, peer_, context().confirmation());
    if (code == -FI_EAGAIN) {
      ++context().delayed;
      return false;
    }
    if (code == 0) {
      if (issued_ == done_ && request.issued == 0) moved_ = context().now();
      ++request.issued;
      ++request.pending;
    } else {
      request.status = status_of(-code);
      request.vendor_error = static_cast<uint16_t>(-code);
    }
  }
  if (request.status != Status::success || request.issued == operations_of(request)) {
    ++issued_;
    ++context().sends;
    request.finished = request.pending == 0;
  }
  return true;
}

// Some of libfabric's providers say nothing where the peer refuses a WRITE, READ or atomic (shm and
// ofi_rxd of 1.17 of a wrong key), or is gone. A SEND may wait for a receive as long as it takes.
void Qp::give_up() noexcept {
  if (done_ == issued_ || state_ != QpState::rts || failed_) return;
  Request& oldest = send_at(done_);
  const bool answered = oldest.opcode >= Opcode::write;
  if (!answered || oldest.finished || context().now() - moved_ < kPatience) return;
  oldest.status = Status::retry_exceeded;
  oldest.finished = true;
}

bool Qp::post_delayed() noexcept {
  const std::lock_guard lock(mutex_);
  give_up();
  bool any = false;
  while (!waiting_receives_.empty() && endpoint_ != nullptr &&
         issue_receive(receives_[waiting_receives_.front()])) {
    waiting_receives_.pop_front();
    any = true;
  }
  while (issue_next()) any = true;
  finish_sends();
  return any;
}

// Completions in the order of posting, to the first request without an outcome or with an error.
void Qp::finish_sends() noexcept {
  for (; done_ != issued_ && send_at(done_).finished && !failed_; ++done_) {
    Request& request = send_at(done_);
    const bool good = request.status == Status::success;
    if (!good || options_.signal_all || has(request.flags, SendFlags::signaled))
      send_cq_.add({.id = request.id,
                    .byte_count = request.length,
                    .qp = name_.number,
                    .status = request.status,
                    .type = transport::work_type(request.opcode),
                    .vendor_error = request.vendor_error});
    request.outstanding = false;
    if (good) continue;
    ++context().errors;
    failed_ = true;
  }
}

void Qp::complete(Request& request, const Outcome& outcome) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ == QpState::err || !request.outstanding) return;
  if (request.receive) return finish(request, outcome);
  WEFT_CHECK(request.pending > 0);
  --request.pending;
  moved_ = context().now();
  if (outcome.status != Status::success && request.status == Status::success) {
    request.status = outcome.status;
    request.vendor_error = outcome.error;
  }
  request.finished = request.pending == 0 && (request.issued == operations_of(request) ||
                                              request.status != Status::success);
  while (issue_next()) continue;
  finish_sends();
}

// The completion of a receive.
void Qp::finish(Request& request, const Outcome& outcome) noexcept {
  WEFT_CHECK(request.receive && request.outstanding);
  request.outstanding = false;
  free_receives_.push_back(static_cast<uint32_t>(&request - receives_.data()));
  Completion c{
      .id = request.id, .qp = name_.number, .status = outcome.status, .type = WorkType::recv};
  if (outcome.status != Status::success) {
    c.vendor_error = outcome.error;
    if (outcome.status != Status::flushed) {
      ++context().errors;
      failed_ = true;
    }
    return recv_cq_.add(c);
  }
  c.byte_count = outcome.length;
  if ((outcome.flags & FI_REMOTE_CQ_DATA) != 0) {
    const auto upper = static_cast<uint32_t>(outcome.data >> 32);
    c.type = WorkType::recv_with_imm;
    c.imm_or_key = static_cast<uint32_t>(outcome.data);
    c.flags = CompletionFlags::with_imm;
    if (upper != kPlain) {
      c.flags = c.flags | CompletionFlags::rdma_write;
      c.byte_count = upper;
    }
  }
  ++context().receives;
  recv_cq_.add(c);
}

}  // namespace weft::libfabric
