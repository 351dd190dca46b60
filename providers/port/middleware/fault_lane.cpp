// SPDX-License-Identifier: BSD-3-Clause
// Every decision comes from the lane's own generator, in the order of the frames, so a run is
// repeated by its seed. A fault that is off draws nothing: switching one on does not change the
// others' seeds.
#include "providers/port/middleware/fault_lane.hpp"

#include <algorithm>
#include <cstring>

#include "lib/wire/opcode.hpp"

namespace weft::middleware {

namespace {
bool includes(FaultDirection set, FaultDirection one) {
  return (static_cast<uint8_t>(set) & static_cast<uint8_t>(one)) != 0;
}
}  // namespace

FaultLane::FaultLane(FaultDirection self, uint64_t seed)
    : self_(self),
      random_(seed * 4 + static_cast<uint8_t>(self)),
      frames_(new HeldFrame[kFrames]),
      free_(new HeldFrame*[kFrames]),
      heap_(new Entry[kFrames]) {
  for (size_t i = kFrames; i-- > 0;) free_[free_count_++] = &frames_[i];
}

bool FaultLane::lost(const FaultOptions& o, uint8_t opcode, Instant now) noexcept {
  if (includes(o.blackhole, self_)) {
    const int64_t period = (o.flap_up + o.flap_down).ps;
    if (o.flap_down.ps == 0 || now.ps % period >= o.flap_up.ps)
      return count(Fault::blackhole), true;
  }
  if (!includes(o.direction, self_)) return false;
  if (burst_left_ != 0) return --burst_left_, count(Fault::burst), true;
  if (o.burst != 0 && random_.chance_ppm(o.burst)) {
    burst_left_ = static_cast<uint32_t>(random_.below(2 * uint64_t{o.burst_frames}));
    return count(Fault::burst), true;
  }
  if (o.loss != 0 && random_.chance_ppm(o.loss)) return count(Fault::loss), true;
  if (o.ack_loss != 0 && wire::opcode_info(opcode).response() && random_.chance_ppm(o.ack_loss))
    return count(Fault::ack_loss), true;
  return false;
}

FaultLane::Fate FaultLane::decide(const FaultOptions& o, uint8_t opcode, Instant now) noexcept {
  Fate fate;
  fate.drop = lost(o, opcode, now);
  fate.pass = !fate.drop;
  if (fate.drop || !includes(o.direction, self_)) return fate;
  const auto roll = [this](uint32_t ppm) { return ppm != 0 && random_.chance_ppm(ppm); };
  corrupt_ = roll(o.corrupt);
  truncate_ = roll(o.truncate);
  pad_ = roll(o.pad);
  merge_ = roll(o.merge);
  reorder_ = roll(o.reorder);
  late_ = false;
  const bool twice = roll(o.dup);
  fate.mark = roll(o.ecn);
  const bool damaged = corrupt_ || truncate_ || pad_ || merge_ || waiting_ != nullptr;
  const bool delayed = o.delay.ps != 0 || o.jitter.ps != 0 || o.rate_mbps != 0 || last_due_ > now ||
                       due(now) != nullptr;
  fate.pass = !damaged && !reorder_ && !delayed;
  fate.copies = fate.pass ? 0 : 1;
  if (fate.mark) count(Fault::ecn);
  if (twice && !damaged && !reorder_) {
    count(Fault::dup);
    late_ = fate.pass && random_.below(2) != 0;
    ++fate.copies;
  }
  return fate;
}

HeldFrame* FaultLane::take() noexcept {
  if (free_count_ == 0) return count(Fault::overflow), nullptr;
  return free_[--free_count_];
}

void FaultLane::push(HeldFrame* frame, Instant at) noexcept {
  heap_[heap_size_++] = {at, sequence_++, frame};
  std::push_heap(&heap_[0], &heap_[0] + heap_size_, later);
}

void FaultLane::pop() noexcept {
  std::pop_heap(&heap_[0], &heap_[0] + heap_size_, later);
  --heap_size_;
}

void FaultLane::corrupt(HeldFrame& frame) noexcept {
  if (frame.length == 0) return;
  const uint32_t trailer = std::min<uint32_t>(frame.length, wire::kIcrcLength);
  const uint32_t header =
      std::min<uint32_t>(frame.length - trailer,
                         wire::opcode_info(static_cast<uint8_t>(frame.bytes[0])).header_length);
  const uint32_t begins[] = {0, header, frame.length - trailer};
  const uint32_t sizes[] = {header, frame.length - trailer - header, trailer};
  constexpr Fault kKinds[] = {Fault::corrupt_header, Fault::corrupt_payload, Fault::corrupt_icrc};
  size_t part = random_.below(3);
  while (sizes[part] == 0) part = (part + 1) % 3;
  count(kKinds[part]);
  const uint64_t bit = random_.below(uint64_t{sizes[part]} * 8);
  frame.bytes[begins[part] + bit / 8] ^= std::byte{1} << (bit % 8);
}

void FaultLane::change_length(HeldFrame& frame) noexcept {
  if (truncate_ && frame.length != 0) {
    count(Fault::truncate);
    frame.length = static_cast<uint32_t>(random_.below(frame.length));
  }
  if (!pad_) return;
  count(Fault::pad);
  const uint32_t room = HeldFrame::kCapacity - frame.length;
  const auto extra = static_cast<uint32_t>(1 + random_.below(64));
  for (uint32_t i = 0; i < std::min(extra, room); ++i)
    frame.bytes[frame.length++] = static_cast<std::byte>(random_.next());
}

// Appends `frame` to the frame that waits to be merged, into `whole`. False: none waits.
bool FaultLane::merged(HeldFrame* frame, HeldFrame*& whole) noexcept {
  if (waiting_ == nullptr) return false;
  whole = waiting_;
  waiting_ = nullptr;
  const uint32_t room = HeldFrame::kCapacity - whole->length;
  const uint32_t piece = std::min(room, frame->length);
  std::memcpy(whole->bytes + whole->length, frame->bytes, piece);
  whole->length += piece;
  count(Fault::merge);
  give(frame);
  return true;
}

void FaultLane::hold(const FaultOptions& o, const Fate& fate, HeldFrame* frame,
                     Instant now) noexcept {
  if (fate.mark) frame->ecn = 3;
  HeldFrame* whole = frame;
  if (!merged(frame, whole) && merge_) {
    waiting_ = frame;
    return;
  }
  frame = whole;
  if (corrupt_) corrupt(*frame);
  if (truncate_ || pad_) change_length(*frame);
  Instant at = now + o.delay;
  if (o.jitter.ps != 0)
    at = at + Duration::from_ps(
                  static_cast<int64_t>(random_.below(static_cast<uint64_t>(o.jitter.ps) + 1)));
  if (o.delay.ps != 0 || o.jitter.ps != 0) count(Fault::delay);
  if (o.rate_mbps != 0) {
    constexpr int64_t kPsPerBit = 1'000'000;  // at 1 Mb/s
    const int64_t bits = int64_t{frame->length} * 8;
    idle_from_ = std::max(idle_from_, now) + Duration::from_ps(bits * kPsPerBit / o.rate_mbps);
    at = std::max(at, idle_from_);
    count(Fault::rate);
  }
  at = last_due_ = std::max(at, last_due_);
  if (reorder_) count(Fault::reorder);
  push(frame, reorder_ || late_ ? at + o.reorder_time : at);
}

}  // namespace weft::middleware
