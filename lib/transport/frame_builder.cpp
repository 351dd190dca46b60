// SPDX-License-Identifier: BSD-3-Clause
// See frame_builder.hpp. The ICRC is computed over the bytes as copied, here or by the port, so
// that it is right for the bytes sent even if the user's memory changes meanwhile.
#include "lib/transport/frame_builder.hpp"

#include <algorithm>
#include <cstring>

#include "lib/transport/sum_copy.hpp"

namespace weft::transport {

namespace {
constexpr uint32_t kHeaders = 112;         // BTH or SRD base header, and all that can follow it
constexpr uint32_t kLargestInline = 1024;  // Limits::max_inline: staged on every port

// Whether all payload is copied here, because the ICRC must cover the bytes that are sent.
bool stages(const Capabilities& c) noexcept {
  return !c.gather || (c.integrity_bits != 0 && !c.signs);
}

// Staged bytes of most frames: a burst of larger ones ends early (has_room).
uint32_t usual_payload(const Capabilities& c) noexcept {
  return (stages(c) ? std::min(c.max_mtu, 4096u) : 256u) + 16;
}
}  // namespace

FrameBuilder::FrameBuilder(const Capabilities& capabilities)
    : signs_(capabilities.integrity_bits != 0),
      stages_(stages(capabilities)),
      train_frames_(std::max(1u, capabilities.train_frames)),
      train_bytes_(capabilities.train_bytes),
      largest_head_(kHeaders + (capabilities.telemetry ? uint32_t{sizeof(wire::IntBlock)} : 0)),
      max_payload_((stages_ ? capabilities.max_mtu : kLargestInline) + 16),
      arena_most_(size_t{capabilities.burst} * (largest_head_ + usual_payload(capabilities))),
      arena_(new std::byte[arena_most_ + largest_head_ + max_payload_]),
      spans_(new Span[kSpanPool]),
      paths_(new Path[kKeptPaths]) {
  WEFT_DCHECK(capabilities.burst != 0 && capabilities.max_mtu != 0);
  WEFT_DCHECK(train_frames_ == 1 || train_bytes_ != 0);
}

const Path& FrameBuilder::keep(const Path& path) noexcept {
  if (kept_ == 0 || paths_[kept_ - 1] != path) {
    WEFT_DCHECK(kept_ < kKeptPaths);
    paths_[kept_++] = path;
    find_room();
  }
  return paths_[kept_ - 1];
}

void FrameBuilder::put_telemetry(const wire::IntBlock& block) noexcept {
  WEFT_DCHECK(frame_ != nullptr && (prefix_ == 0 || prefix_ == sizeof block));
  if (prefix_ != 0) std::memcpy(head_, &block, sizeof block);
}

// A frame continues the train when it takes the same path and is as long as the first, or shorter:
// then it is the last (GSO cuts equal segments and leaves the rest to the last).
void FrameBuilder::join_train(const Path& path, uint32_t total) noexcept {
  WEFT_DCHECK(frame_ != nullptr && train_.next <= train_frames_);
  if (train_.next != 0 && train_.path == &path && total <= train_.length &&
      train_.next < train_frames_ && train_.sum + total <= train_bytes_) {
    frame_->ip_id = train_.next++;
    train_.sum += total;
    if (total < train_.length) train_.next = 0;
    WEFT_DCHECK(train_.sum <= train_bytes_ && frame_->ip_id != 0);
    return;
  }
  frame_->ip_id = 0;
  train_.path = &path;
  train_.length = train_.sum = total;
  train_.next = 1;
}

// Continues the CRC to the end of the staged bytes. It does not cover telemetry (lib/wire/INT.md).
void FrameBuilder::sum_staged() noexcept {
  if (!sums_) return;
  if (summed_ == nullptr) {
    const Path& path = *frame_->path;
    const wire::OuterHeader outer{&path.source, &path.destination, path.source_port,
                                  path.destination_port, frame_->ip_id};
    const std::byte* const bth = head_ + prefix_;
    crc_ = wire::icrc_begin(outer, bth, total_);
    summed_ = head_ + prefix_ + wire::kBthLength;
  }
  WEFT_DCHECK(summed_ >= head_ + prefix_ && summed_ <= at_);
  crc_ = wire::crc_continue(crc_, summed_, static_cast<size_t>(at_ - summed_));
  summed_ = at_;
}

namespace {
// The port or the peer reads a span later, and can only drop the frame if a page is unmapped.
// Probing each page now lets the queue pair fail the request.
bool readable(const std::byte* data, uint32_t length) noexcept {
  WEFT_DCHECK(length != 0);
  constexpr uint32_t kPage = 4096;
  std::byte probe;
  for (uint32_t at = 0; at < length; at += kPage)
    if (!memory::copy_out(&probe, data + at, 1)) return false;
  return memory::copy_out(&probe, data + length - 1, 1);
}
}  // namespace

bool FrameBuilder::add_payload(const std::byte* data, uint32_t length, bool stable) noexcept {
  WEFT_DCHECK(frame_ != nullptr && staged() >= header_length_);
  const bool stages = stages_ && !frame_->path->in_memory;
  WEFT_DCHECK(!stages || staged() + length <= largest_head_ + max_payload_);
  if (stages && sums_ && signs_ && length >= kStageBelow) {
    sum_staged();
    if (!sum_copy(crc_, at_, data, length)) return false;
    at_ += length;
    summed_ = at_;
    return true;
  }
  const bool first_span = frame_->span_count == 0;
  const bool fits = at_ + length <= head_ + largest_head_ + kStageBelow;
  if (stages || (length < kStageBelow && first_span && fits)) {
    if (!memory::copy_out(at_, data, length)) return false;
    at_ += length;
    return true;
  }
  if (!readable(data, length)) return false;
  WEFT_DCHECK(frame_->span_count < kMaxSpans && spans_used_ < kSpanPool);
  spans_[spans_used_++] = {data, length};
  ++frame_->span_count;
  frame_->payload_length += length;
  frame_->stable = stable && first_span && at_ == head_ + header_length_;
  return true;
}

// With spans the port writes the ICRC.
void FrameBuilder::sign() noexcept {
  WEFT_DCHECK(pad_ < 4);
  if (frame_->span_count != 0) {
    sum_staged();
    frame_->signs = sums_;
    frame_->crc = crc_;
    std::memset(frame_->tail, 0, sizeof frame_->tail);
    frame_->tail_length = static_cast<uint8_t>(pad_ + wire::kIcrcLength);
    return;
  }
  std::memset(at_, 0, pad_);
  at_ += pad_;
  sum_staged();
  const uint32_t icrc = sums_ ? wire::icrc_finish(crc_) : 0;
  std::memcpy(at_, &icrc, sizeof icrc);
  at_ += sizeof icrc;
}

// Without an ICRC: Path::in_memory.
void FrameBuilder::pad() noexcept {
  WEFT_DCHECK(pad_ < 4);
  if (frame_->span_count != 0) {
    std::memset(frame_->tail, 0, sizeof frame_->tail);
    frame_->tail_length = pad_;
    return;
  }
  std::memset(at_, 0, pad_);
  at_ += pad_;
}

void FrameBuilder::cancel() noexcept {
  WEFT_DCHECK(frame_ != nullptr);
  // The train is closed: its next frame would have a wrong identification.
  train_.next = 0;
  frame_ = nullptr;
}

}  // namespace weft::transport
