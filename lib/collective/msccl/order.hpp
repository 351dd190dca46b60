// SPDX-License-Identifier: BSD-3-Clause
// A plan of MSCCL in an order in which it can be executed: its steps as sends, receives and local
// steps of each rank, such that the sends from one rank to another and the receives there have the
// same order, whatever their channels.
#pragma once

#include "lib/collective/msccl/plan.hpp"
#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

// A part of a step.
struct MscclMove {
  StepKind kind = StepKind::copy;
  uint32_t block = 0, step = 0;  // of the plan
  uint32_t peer = 0;
  MscclChunks source, target;
  uint32_t count = 1;
  MscclBuffer sent_from = MscclBuffer::input;  // receives: the buffer of the peer's send
  // The chunk of the call that each chunk has the length of.
  std::vector<uint32_t> lengths;
  // Moves of this rank before it, in the plan's order, that touch the same chunks: what it has to
  // wait for. Moves that touch the same chunks and are in no order are not among them.
  std::vector<uint32_t> after;
  // Moves of other blocks that the plan names, whatever they touch: they set the pace.
  std::vector<uint32_t> waits;
};

struct MscclOrder {
  std::vector<std::vector<MscclMove>> moves;  // by rank
  std::vector<uint32_t> scratch;              // chunks by rank
  std::vector<bool> writes_input;             // by rank
  bool equal_chunks = false;  // chunks go to places of others: only if all are equally long
};

// Errors: invalid_argument, which names rank, block, step and line: the plan is malformed, or does
// not end.
Result<MscclOrder> order_of(const MscclPlan& plan);

// Chunks of a rank's block, for operations that have a block for each rank; else of the buffer.
uint32_t chunks_of_block(const MscclPlan& plan) noexcept;
bool has_rank_blocks(Collective collective) noexcept;
// "gpu 3 tb 1 step 7 (rrc, line 99): "
std::string place_of(const MscclPlan& plan, uint32_t rank, uint32_t block, uint32_t step);

}  // namespace weft::collective
