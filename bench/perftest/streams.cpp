// SPDX-License-Identifier: BSD-3-Clause
// Sender and Receiver (streams.hpp). A signaled request also completes the unsignaled ones before
// it; its id holds the lane and their number. On SRD all requests are signaled.
#include "bench/perftest/streams.hpp"

#include <unistd.h>

#include <algorithm>

#include "weft/log.hpp"

namespace weft::bench {
namespace {

constexpr uint32_t kDefaultModeration = 100;
constexpr uint64_t kModeratedSize = 8192;            // larger messages are signaled each
constexpr uint64_t kMostStamps = uint64_t{1} << 21;  // time stamps kept for the peak

uint64_t completion_id(size_t lane, uint64_t count) { return lane << 32 | count; }

uint32_t moderation_of(const Options& o, uint64_t size) {
  uint32_t wanted = o.cq_moderation;
  if (o.service == QpType::srd) wanted = 1;  // SRD completes in any order
  if (wanted == 0) wanted = size > kModeratedSize ? 1 : kDefaultModeration;
  return std::min(wanted, o.tx_depth);
}

}  // namespace

Error completion_error(Status status, bool sending) {
  std::string text = sending ? "a request failed: " : "a receive failed: ";
  text.append(name(status)).append(": ").append(reason(status));
  if (status == Status::rnr_retry_exceeded) text += "; here: a larger -r on both sides";
  // Flushed is what follows another failure.
  if (status != Status::flushed)
    text += "; weft_postmortem " + std::to_string(getpid()) + " shows the last packets";
  return {Code::io_error, std::move(text)};
}

SendRequest make_request(const Session& session, const Lane& lane, uint64_t size, uint64_t slot,
                         Sge& sge) {
  const Options& o = session.options;
  const uint64_t offset = slot * session.stride(size);
  SendRequest r;
  r.flags = SendFlags::none;
  r.rkey = session.peer_rkey;
  r.remote_srq = session.peer_srq;
  std::byte* local = lane.source + offset;
  switch (o.operation) {
    case Operation::send:
      r.opcode = Opcode::send;
      break;
    case Operation::write:
      r.opcode = o.takes_receives() ? Opcode::write_with_imm : Opcode::write;
      r.remote_address = lane.peer_target + offset;
      break;
    case Operation::read:
      r.opcode = Opcode::read;
      r.remote_address = lane.peer_source + offset;
      local = lane.target + offset;
      break;
    case Operation::atomic:
      r.opcode = o.atomic == AtomicType::fetch_add ? Opcode::fetch_add : Opcode::compare_swap;
      r.remote_address = lane.peer_source;
      r.compare_add = o.atomic == AtomicType::fetch_add ? 1 : 0;
      local = lane.target + offset;
      break;
  }
  if (o.service == QpType::ud) {
    r.to = &lane.to;
    r.remote_qpn = lane.peer_qpn;
    r.remote_qkey = ConnectOptions{}.qkey;
  }
  if (!o.one_sided() && size <= session.inline_limit) r.flags = SendFlags::inline_data;
  sge = session.sge(local, size);
  r.sges = {&sge, 1};
  return r;
}

Sender::Sender(Session& session, uint64_t size)
    : session_(session),
      depth_(session.options.tx_depth),
      list_(session.options.post_list),
      moderation_(moderation_of(session.options, size)) {
  const uint64_t slots = std::min<uint64_t>(session.options.buffers, session.slots(size));
  const uint64_t wanted = std::max<uint64_t>({slots, moderation_, list_});
  const uint64_t length = (wanted + moderation_ - 1) / moderation_ * moderation_;
  streams_.resize(session.lanes.size());
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    stream.qp = &session.lanes[i].qp;
    stream.sges.resize(length);
    stream.ring.resize(length);
    for (uint64_t k = 0; k < length; ++k) {
      stream.ring[k] = make_request(session, session.lanes[i], size, k % slots, stream.sges[k]);
      stream.ring[k].id = completion_id(i, moderation_);
      if ((k + 1) % moderation_ == 0)
        stream.ring[k].flags = stream.ring[k].flags | SendFlags::signaled;
    }
    stream.last = stream.ring[0];
    stream.last.flags = stream.last.flags | SendFlags::signaled;
  }
}

void Sender::start(uint64_t per_lane, bool record) {
  completed_ = 0;
  goal_ = per_lane == kEndless ? kEndless : per_lane * streams_.size();
  record_ = record && goal_ <= kMostStamps;
  posted_at_.clear();
  completed_at_.clear();
  if (record_) {
    posted_at_.reserve(goal_);
    completed_at_.reserve(goal_);
  }
  first_post_ = 0;
  for (Stream& stream : streams_) {
    stream.next = 0;
    stream.posted = stream.completed = 0;
    stream.quota = per_lane;
  }
}

void Sender::finish() noexcept {
  goal_ = 0;
  for (Stream& stream : streams_) {
    stream.quota = stream.posted + 1;
    goal_ += stream.quota;
  }
}

bool Sender::post(Stream& stream, std::span<const SendRequest> requests) noexcept {
  const Ticks now = record_ || first_post_ == 0 ? ticks() : 0;
  if (first_post_ == 0) first_post_ = now;
  const PostStatus status = stream.qp->post_send(requests);
  stream.posted += status.accepted;
  if (record_)
    for (uint32_t i = 0; i < status.accepted; ++i) posted_at_.push_back(now);
  if (!status && status.code != Code::queue_full) {
    failure_ = true;
    post_error_ = status.reason;
  }
  return static_cast<bool>(status);
}

bool Sender::fill(Stream& stream) noexcept {
  bool moved = false;
  while (stream.posted < stream.quota) {
    const uint64_t room = depth_ - (stream.posted - stream.completed);
    const uint64_t before_last = stream.quota - 1 - stream.posted;
    if (before_last == 0) {
      if (room == 0) break;
      stream.last.id = completion_id(static_cast<size_t>(&stream - streams_.data()),
                                     stream.next % moderation_ + 1);
      return post(stream, {&stream.last, 1}) || moved;
    }
    const uint64_t count =
        std::min({uint64_t{list_}, uint64_t{stream.ring.size() - stream.next}, before_last});
    if (room < count) break;
    const uint64_t posted = stream.posted;
    const bool all = post(stream, {stream.ring.data() + stream.next, count});
    stream.next += stream.posted - posted;
    if (stream.next == stream.ring.size()) stream.next = 0;
    moved = true;
    if (!all) break;
  }
  return moved;
}

bool Sender::reap() noexcept {
  Completion completions[64];
  const size_t n = session_.send_cq.poll(completions);
  if (n == 0) return false;
  last_completion_ = ticks();
  for (size_t i = 0; i < n; ++i) {
    const Completion& c = completions[i];
    if (c.status != Status::success) {
      if (!failure_) status_ = c.status;
      failure_ = true;
      continue;
    }
    const uint64_t count = c.id & 0xFFFFFFFF;
    streams_[c.id >> 32].completed += count;
    completed_ += count;
    if (record_)
      for (uint64_t k = 0; k < count; ++k) completed_at_.push_back(last_completion_);
  }
  return true;
}

bool Sender::turn() noexcept {
  bool moved = false;
  for (Stream& stream : streams_) moved |= fill(stream);
  return reap() || moved;
}

std::optional<Error> Sender::failure() const {
  if (!failure_) return std::nullopt;
  if (post_error_ != nullptr) return Error{Code::io_error, std::string("post: ") + post_error_};
  return completion_error(status_, true);
}

BandwidthSummary Sender::summary() const {
  BandwidthSummary s;
  s.iterations = completed_;
  const double us = static_cast<double>(last_completion_ - first_post_) / ticks_per_us();
  if (completed_ == 0 || us <= 0) return s;
  s.message_rate = static_cast<double>(completed_) / us * 1e6;
  if (record_) s.peak = peak_rate(posted_at_, completed_at_) * ticks_per_us() * 1e6;
  return s;
}

Receiver::Receiver(Session& session)
    : session_(session), batch_(std::clamp<size_t>(session.options.rx_depth / 4, 1, 64)) {
  const uint64_t room = session.stride(session.options.max_size());
  const uint64_t slots = std::min<uint64_t>(session.options.buffers, session.area / room);
  streams_.resize(session.lanes.size());
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    stream.lane = &session.lanes[i];
    stream.sges.resize(session.options.rx_depth);
    stream.ring.resize(session.options.rx_depth);
    for (size_t k = 0; k < stream.ring.size(); ++k) {
      const std::byte* at = session.lanes[i].target + k % slots * room;
      const uint64_t size = std::min<uint64_t>(room - session.header, UINT32_MAX / 2);
      stream.sges[k] = session.receive_sge(at, size);
      stream.ring[k] = {.id = i, .sges = {&stream.sges[k], 1}};
    }
  }
}

Result<void> Receiver::prime() {
  for (Stream& stream : streams_) {
    const PostStatus status = session_.post_receives(*stream.lane, stream.ring);
    if (!status) return Error{status.code, std::string("cannot post receives: ") + status.reason};
  }
  return {};
}

void Receiver::start(uint64_t size, bool stamps) noexcept {
  size_ = size;
  stamps_ = stamps;
  received_ = first_batch_ = 0;
}

bool Receiver::turn() noexcept {
  Completion completions[64];
  const size_t n = session_.recv_cq.poll(completions);
  if (n == 0) return false;
  if (stamps_) last_ = ticks();
  if (received_ == 0) {
    first_ = last_;
    first_batch_ = n;
  }
  for (size_t i = 0; i < n; ++i) {
    const Completion& c = completions[i];
    if (c.status != Status::success || c.byte_count != size_ + session_.header) {
      status_ = c.status == Status::success ? Status::local_length_error : c.status;
      failure_ = true;
      return true;
    }
    Stream& stream = streams_[c.id];
    if (++stream.to_repost < batch_) continue;
    const size_t count = std::min(stream.to_repost, stream.ring.size() - stream.next);
    const PostStatus status =
        session_.post_receives(*stream.lane, {stream.ring.data() + stream.next, count});
    stream.to_repost -= status.accepted;
    stream.next = (stream.next + status.accepted) % stream.ring.size();
  }
  received_ += n;
  return true;
}

std::optional<Error> Receiver::failure() const {
  if (!failure_) return std::nullopt;
  return completion_error(status_, false);
}

BandwidthSummary Receiver::summary() const {
  BandwidthSummary s;
  s.iterations = received_;
  const double us = static_cast<double>(last_ - first_) / ticks_per_us();
  if (us > 0) s.message_rate = static_cast<double>(received_ - first_batch_) / us * 1e6;
  return s;
}

}  // namespace weft::bench
