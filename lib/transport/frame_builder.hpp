// SPDX-License-Identifier: BSD-3-Clause
// Builds frames from headers and payload: places heads consecutively in an arena (so that a port
// sends a train from one piece of memory), forms trains, copies payload and computes the ICRC in
// one pass. Ports over shared memory get no ICRC, and payload as spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/check.hpp"
#include "lib/base/copy_short.hpp"
#include "lib/transport/frame.hpp"
#include "lib/transport/port.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::transport {

class FrameBuilder {
 public:
  explicit FrameBuilder(const Capabilities& capabilities);

  // Starts a new burst of at most frames.size() frames. The frames of the last burst become
  // invalid.
  void begin_burst(std::span<TxFrame> frames) noexcept;
  size_t count() const noexcept { return count_; }
  // Lowers the frames per train, when the port finds out that it cannot send longer ones.
  void limit_trains(uint32_t frames) noexcept {
    WEFT_DCHECK(frames >= 1);
    if (frames < train_frames_) train_frames_ = frames;
  }
  // Writes zero in place of the ICRC: see EngineConfig::icrc.
  void disable_icrc() noexcept { sums_ = false; }
  // Whether there is room for one more frame of any size.
  bool has_room() const noexcept { return room_; }
  // Bytes of the frames of this burst, from BTH to ICRC.
  uint64_t bytes() const noexcept { return bytes_; }
  // Bytes of the frame that was finished last.
  uint32_t last_length() const noexcept {
    WEFT_DCHECK(frame_ == nullptr && count_ != 0);
    return prefix_ + total_;
  }

  // A copy of `path` that is valid as long as the frames of this burst. Equal paths in succession
  // share a copy, so that their frames can form a train.
  const Path& keep(const Path& path) noexcept;

  // Begins a frame. The caller then writes header_length bytes of headers at the returned address
  // (BTH first, its pad count is pad_for(payload_length)), calls add_payload() for each piece, in
  // sum exactly payload_length bytes, and finish(). On a path to wire::kIntUdpPort a telemetry
  // block without hops precedes the BTH.
  std::byte* start(const Path& path, uint32_t header_length, uint32_t payload_length) noexcept;
  // Adds a piece of user memory; false on a page fault (then call cancel()). Small pieces, and all
  // pieces on ports with an ICRC, are copied now; others become spans, `stable` as in TxFrame.
  bool add_payload(const std::byte* data, uint32_t length, bool stable) noexcept;
  // The same for memory that cannot fault (inline data).
  void add_safe_payload(const std::byte* data, uint32_t length) noexcept;
  // Replaces the telemetry block before the BTH, on such a path.
  void put_telemetry(const wire::IntBlock& block) noexcept;
  void finish() noexcept;
  void cancel() noexcept;

  // Pad bytes after a payload: none on ports without an ICRC. //= roce:C-HDR-3
  uint8_t pad_for(uint32_t payload_length) const noexcept {
    return signs_ ? static_cast<uint8_t>((0u - payload_length) & 3) : 0;
  }

 private:
  bool fits() const noexcept {  // for a frame whose path is kept already
    return count_ < frames_.size() && arena_used_ <= arena_most_ &&
           spans_used_ + kMaxSpans <= kSpanPool;
  }
  void find_room() noexcept { room_ = kept_ < kKeptPaths && fits(); }
  uint32_t staged() const noexcept { return static_cast<uint32_t>(at_ - head_); }
  static constexpr uint32_t kStageBelow = 256;  // bytes; smaller pieces are cheaper to copy
  static constexpr uint32_t kSpanPool = 512;
  static constexpr uint32_t kKeptPaths = 64;
  void sign() noexcept;
  void pad() noexcept;
  void join_train(const Path& path, uint32_t total) noexcept;
  void sum_staged() noexcept;

  bool signs_;        // an ICRC ends each frame
  bool sums_ = true;  // it is computed; false: it is zero
  bool stages_;       // payload of any length is copied to the arena
  uint32_t train_frames_;
  uint32_t train_bytes_;
  uint32_t largest_head_;
  uint32_t max_payload_;  // staged bytes one frame may need
  size_t arena_most_;     // bytes that may be used before a frame of any size
  std::unique_ptr<std::byte[]> arena_;
  std::unique_ptr<Span[]> spans_;
  std::unique_ptr<Path[]> paths_;
  std::span<TxFrame> frames_;
  size_t count_ = 0;
  size_t arena_used_ = 0;
  size_t spans_used_ = 0;
  uint32_t kept_ = 0;
  bool room_ = false;
  uint64_t bytes_ = 0;

  // The frame under construction.
  TxFrame* frame_ = nullptr;
  std::byte* head_ = nullptr;
  std::byte* at_ = nullptr;     // end of the staged bytes
  uint32_t prefix_ = 0;         // bytes before the BTH
  uint32_t header_length_ = 0;  // prefix_ included
  uint32_t total_ = 0;          // prefix_ excluded
  uint32_t crc_ = 0;
  std::byte* summed_ = nullptr;  // crc_ covers staged bytes before this; nullptr: none yet
  uint8_t pad_ = 0;

  // The train under construction.
  struct Train {
    const Path* path = nullptr;
    uint32_t length = 0;  // bytes of its first frame
    uint32_t sum = 0;     // bytes of all its frames
    uint16_t next = 0;    // id of its next frame; 0 = closed
  };
  Train train_;
};

inline void FrameBuilder::begin_burst(std::span<TxFrame> frames) noexcept {
  WEFT_DCHECK(frame_ == nullptr);
  frames_ = frames;
  count_ = 0;
  arena_used_ = 0;
  spans_used_ = 0;
  kept_ = 0;
  train_.next = 0;
  bytes_ = 0;
  find_room();
}

// Inline, as finish() is: they run once per packet sent. Bytes are stored through local pointers: a
// std::byte may alias any member, which the compiler would have to read again after each store.
inline std::byte* FrameBuilder::start(const Path& path, uint32_t header_length,
                                      uint32_t payload_length) noexcept {
  WEFT_DCHECK(frame_ == nullptr && fits());
  TxFrame& frame = frames_[count_];
  std::byte* const head = &arena_[arena_used_];
  frame_ = &frame;
  head_ = head;
  const uint32_t prefix =
      path.destination_port == wire::kIntUdpPort ? uint32_t{sizeof(wire::IntBlock)} : 0;
  prefix_ = prefix;
  // A head without payload may be longer: the bitmap of an SRD acknowledgement.
  WEFT_DCHECK(prefix + header_length <= largest_head_ + max_payload_);
  if (prefix != 0) put_telemetry({});
  const bool signs = signs_ && !path.in_memory;
  const uint8_t pad = pad_for(payload_length);
  const uint32_t total = header_length + payload_length + pad + (signs ? wire::kIcrcLength : 0);
  header_length_ = prefix + header_length;
  pad_ = pad;
  total_ = total;
  at_ = head + prefix + header_length;
  summed_ = nullptr;
  frame.path = &path;
  frame.head = head;
  // A frame with ICRC or pad stays in one piece: they follow the payload.
  frame.header_length = signs || pad != 0 ? 0 : static_cast<uint8_t>(prefix + header_length);
  frame.payload_length = 0;
  frame.span_count = 0;
  frame.spans = &spans_[spans_used_];
  frame.tail_length = 0;
  frame.stable = frame.signs = false;
  frame.ecn = path.traffic_class & 3;
  if (train_frames_ > 1) {
    join_train(path, prefix + total);
  } else {
    frame.ip_id = 0;
  }
  return head + prefix;
}

inline void FrameBuilder::add_safe_payload(const std::byte* data, uint32_t length) noexcept {
  std::byte* const at = at_;
  WEFT_DCHECK(frame_ != nullptr && staged() + length <= largest_head_ + max_payload_);
  base::copy_mostly_short(at, data, length);
  at_ = at + length;
}

inline void FrameBuilder::finish() noexcept {
  WEFT_DCHECK(frame_ != nullptr && staged() >= header_length_);
  if (signs_) frame_->path->in_memory ? pad() : sign();
  const uint32_t length = static_cast<uint32_t>(at_ - head_);
  frame_->head_length = length;
  // The caller has added exactly the payload that it announced to start().
  WEFT_DCHECK(frame_->length() == prefix_ + total_);
  WEFT_DCHECK(frame_->ip_id < train_frames_);
  // Not by adding: gcc would take it together with the count in one register, and wait for the two
  // stores of begin_burst().
  arena_used_ = static_cast<size_t>(at_ - arena_.get());
  bytes_ += prefix_ + total_;
  ++count_;
  frame_ = nullptr;
  find_room();
}

}  // namespace weft::transport
