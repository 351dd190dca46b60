// SPDX-License-Identifier: BSD-3-Clause
// A plan of MSCCL, as its XML says it: one program per rank, in thread blocks that run beside each
// other. Blocks wait for steps of other blocks of the same rank, and for messages. Buffers are
// counted in chunks; the plan says into how many a call is divided.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/collective_types.hpp"
#include "weft/result.hpp"

namespace weft::collective {

enum class MscclBuffer : uint8_t { input, output, scratch };

// S: the source, D: the target, m: a message.
enum class MscclKind : uint8_t {
  send,                      // s: S
  receive,                   // r: D = m
  receive_copy_send,         // rcs: D = m, and m goes on
  receive_reduce_copy,       // rrc: D = S + m
  receive_reduce_send,       // rrs: S + m goes on
  receive_reduce_copy_send,  // rrcs: D = S + m, which goes on
  copy,                      // cpy: D = S
  reduce,                    // re: D = D + S
  nothing,                   // nop: one more step to wait for
};
// As in XML: "s", "rrcs".
std::string_view name(MscclKind kind) noexcept;

struct MscclChunks {
  MscclBuffer buffer = MscclBuffer::input;
  uint32_t index = 0;
  bool operator==(const MscclChunks&) const = default;
};

struct MscclStep {
  MscclKind kind = MscclKind::nothing;
  MscclChunks source, target;
  uint32_t count = 1;        // chunks
  int32_t after_block = -1;  // waits for this block's step; -1: for none
  int32_t after_step = -1;
  bool awaited = false;  // another block may wait for this one
  uint32_t line = 0;     // in the file; 0: in none
  bool operator==(const MscclStep& other) const {
    return kind == other.kind && source == other.source && target == other.target &&
           count == other.count && after_block == other.after_block &&
           after_step == other.after_step && awaited == other.awaited;
  }
};

struct MscclBlock {
  int32_t send = -1, receive = -1;  // ranks; -1: none
  uint32_t channel = 0;
  std::vector<MscclStep> steps;
  bool operator==(const MscclBlock&) const = default;
};

struct MscclRank {
  uint32_t input_chunks = 0, output_chunks = 0, scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
  bool operator==(const MscclRank&) const = default;
};

struct MscclPlan {
  std::string name;
  Collective collective = Collective::all_reduce;
  uint32_t chunks = 1;  // of the larger buffer
  uint32_t channels = 1;
  bool in_place = false;                  // input and output are the same memory
  uint64_t min_bytes = 0, max_bytes = 0;  // for which it was made; 0: no limit
  std::vector<MscclRank> ranks;
  bool operator==(const MscclPlan&) const = default;
};

// Limits of a plan that is read; larger ones are refused.
inline constexpr uint32_t kMaxMscclRanks = 256, kMaxMscclChunks = 1 << 16;
inline constexpr size_t kMaxMscclMoves = 10'000;  // of a rank

}  // namespace weft::collective
