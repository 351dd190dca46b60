// SPDX-License-Identifier: BSD-3-Clause
// Frames that nothing happens to pass as they are, in runs; the others go through a copy in their
// lane. A copy that the inner port does not accept stays due and is sent first the next time.
#include "providers/port/middleware/fault_port.hpp"

#include <algorithm>
#include <ctime>

#include "providers/port/middleware/held_frame.hpp"

namespace weft::middleware {
namespace {

using transport::Frame;
using transport::TxFrame;

}  // namespace

Instant monotonic_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Instant{} + Duration::from_s(now.tv_sec) + Duration::from_ns(now.tv_nsec);
}

Result<std::unique_ptr<transport::Port>> FaultPort::wrap(
    std::unique_ptr<transport::Port> inner,
    const std::vector<std::pair<std::string, std::string>>& options) {
  std::vector<std::pair<std::string, std::string>> of_frames;
  std::string file;
  for (const auto& [name, value] : options)
    if (name == "timeline")
      file = value;
    else
      of_frames.emplace_back(name, value);
  Result<FaultOptions> parsed = parse_fault_options(of_frames);
  if (!parsed) return parsed.error();
  Result<FaultTimeline> timeline = FaultTimeline{};
  if (!file.empty()) timeline = read_fault_timeline(file, *parsed);
  if (!timeline) return timeline.error();
  auto port = std::make_unique<FaultPort>(std::move(inner), *parsed);
  port->timeline_ = std::move(*timeline);
  return std::unique_ptr<transport::Port>(std::move(port));
}

FaultPort::FaultPort(std::unique_ptr<transport::Port> inner, const FaultOptions& options,
                     FaultClock clock)
    : WrappingPort(std::move(inner)),
      capabilities_(inner_->capabilities()),
      options_(options),
      clock_(std::move(clock)),
      sent_(FaultDirection::transmit, options.seed),
      received_(FaultDirection::receive, options.seed) {
  constexpr uint32_t kLargestMtu = 4096;
  capabilities_.max_mtu = std::min(capabilities_.max_mtu, kLargestMtu);
  capabilities_.active_mtu = std::min(capabilities_.active_mtu, kLargestMtu);
  capabilities_.train_frames = 1;
  capabilities_.train_bytes = 0;
  if (capabilities_.integrity_bits == 0) capabilities_.integrity_bits = 32;
  capabilities_.gather = capabilities_.signs = false;
  capabilities_.by_reference = false;
  capabilities_.reference_threshold = 0;
  lent_.reserve(kMaxBurst);
  lent_held_.reserve(kMaxBurst);
}

// Sends what is due. False: the inner port is full.
bool FaultPort::flush(Instant now) noexcept {
  while (HeldFrame* const held = sent_.due(now)) {
    const TxFrame frame = to_send(*held);
    if (inner_->transmit({&frame, 1}) == 0) return false;
    sent_.pop();
    sent_.give(held);
  }
  return true;
}

void FaultPort::hold_sent(const FaultLane::Fate& fate, const TxFrame& frame, Instant now) noexcept {
  for (int i = 0; i < fate.copies; ++i) {
    HeldFrame* const held = sent_.take();
    if (held == nullptr) return;
    if (assemble(*held, frame)) {
      sent_.hold(options_, fate, held, now);
    } else {
      sent_.give(held);
    }
  }
}

void FaultPort::hold_received(const FaultLane::Fate& fate, const Frame& frame,
                              Instant now) noexcept {
  for (int i = 0; i < fate.copies; ++i) {
    HeldFrame* const held = received_.take();
    if (held == nullptr) return;
    if (assemble(*held, frame)) {
      received_.hold(options_, fate, held, now);
    } else {
      received_.give(held);
    }
  }
}

size_t FaultPort::transmit(std::span<const TxFrame> frames) noexcept {
  const Instant now = clock_();
  if (!flush(now)) return 0;
  size_t begin = 0;  // of the run that passes as it is
  for (size_t i = 0; i < frames.size(); ++i) {
    const TxFrame& frame = frames[i];
    const FaultLane::Fate fate =
        sent_.decide(options_, opcode_of(frame.head, frame.head_length, *frame.path), now);
    if (fate.plain()) continue;
    const size_t run = i - begin;
    if (run != 0) {
      const size_t taken = inner_->transmit(frames.subspan(begin, run));
      if (taken != run) return begin + taken;
    }
    begin = i + 1;
    if (fate.pass) {
      TxFrame marked = frame;
      if (fate.mark) marked.ecn = 3;
      if (inner_->transmit({&marked, 1}) == 0) return i;
    }
    hold_sent(fate, frame, now);
    if (!flush(now)) return begin;
  }
  if (begin == frames.size()) return begin;
  return begin + inner_->transmit(frames.subspan(begin));
}

size_t FaultPort::receive(std::span<Frame> frames) noexcept {
  const Instant now = clock_();
  flush(now);
  frames = frames.first(std::min(frames.size(), kMaxBurst));
  lent_.clear();
  lent_held_.clear();
  const size_t arrived = inner_->receive(frames);
  lent_.assign(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(arrived));
  size_t n = 0;
  for (const Frame& frame : lent_) {
    const FaultLane::Fate fate =
        received_.decide(options_, opcode_of(frame.bytes, frame.length, *frame.path), now);
    hold_received(fate, frame, now);
    if (!fate.pass) continue;
    frames[n] = frame;
    if (fate.mark) frames[n].ecn = 3;
    ++n;
  }
  for (; n < frames.size(); ++n) {
    HeldFrame* const held = received_.due(now);
    if (held == nullptr) break;
    received_.pop();
    lent_held_.push_back(held);
    frames[n] = to_receive(*held);
  }
  if (n == 0 && arrived != 0) {  // no frame is left for the caller to release
    inner_->release(lent_);
    lent_.clear();
  }
  return n;
}

void FaultPort::release(std::span<const Frame> frames) noexcept {
  (void)frames;  // all of the last receive()
  if (!lent_.empty()) inner_->release(lent_);
  lent_.clear();
  for (HeldFrame* const held : lent_held_) received_.give(held);
  lent_held_.clear();
}

bool FaultPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  if (!sent_.empty() || !received_.empty()) return false;
  return inner_->prepare_wait(descriptors, want_transmit);
}

void FaultPort::append_counters(std::vector<Counter>& counters) const {
  inner_->append_counters(counters);
  for (size_t i = 0; i < kFaultEnd; ++i)
    counters.push_back({kFaultNames[i], (*this)[static_cast<Fault>(i)]});
}

}  // namespace weft::middleware
