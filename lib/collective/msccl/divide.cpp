// SPDX-License-Identifier: BSD-3-Clause
// Steps of a plan as moves, each of which is checked by itself, with all that they wait for.
#include "lib/collective/msccl/divide.hpp"

#include <optional>
#include <utility>

namespace weft::collective {

std::string_view name(MscclKind kind) noexcept {
  static constexpr std::string_view kNames[] = {"s",    "r",   "rcs", "rrc", "rrs",
                                                "rrcs", "cpy", "re",  "nop"};
  return kNames[static_cast<int>(kind)];
}

bool has_rank_blocks(Collective collective) noexcept {
  return collective == Collective::all_gather || collective == Collective::reduce_scatter ||
         collective == Collective::all_to_all;
}

uint32_t chunks_of_block(const MscclPlan& plan) noexcept {
  return has_rank_blocks(plan.collective) ? plan.chunks / static_cast<uint32_t>(plan.ranks.size())
                                          : plan.chunks;
}

std::string place_of(const MscclPlan& plan, uint32_t rank, uint32_t block, uint32_t step) {
  const MscclStep& at = plan.ranks[rank].blocks[block].steps[step];
  return "gpu " + std::to_string(rank) + " tb " + std::to_string(block) + " step " +
         std::to_string(step) + " (" + std::string(name(at.kind)) +
         (at.line > 0 ? ", line " + std::to_string(at.line) : "") + "): ";
}

namespace {

bool receives(MscclKind kind) {
  return kind >= MscclKind::receive && kind <= MscclKind::receive_reduce_copy_send;
}
bool reduces_received(MscclKind kind) {
  return kind >= MscclKind::receive_reduce_copy && kind <= MscclKind::receive_reduce_copy_send;
}
bool sends(MscclKind kind) {
  return kind == MscclKind::send || kind == MscclKind::receive_copy_send ||
         kind == MscclKind::receive_reduce_send || kind == MscclKind::receive_reduce_copy_send;
}
bool has_source(MscclKind kind) {
  return kind == MscclKind::send || reduces_received(kind) || kind == MscclKind::copy ||
         kind == MscclKind::reduce;
}
bool has_target(MscclKind kind) {
  return kind != MscclKind::send && kind != MscclKind::receive_reduce_send &&
         kind != MscclKind::nothing;
}

// ---- the steps of a rank as moves ----

class Dividing {
 public:
  Dividing(const MscclPlan& plan, uint32_t rank, MscclOrder& order)
      : plan_(plan), rank_(rank), order_(order), last_(plan.ranks[rank].blocks.size()) {}

  Result<void> run() {
    const MscclRank& of = plan_.ranks[rank_];
    order_.scratch[rank_] = of.scratch_chunks;
    for (uint32_t block = 0; block < of.blocks.size(); ++block)
      if (Result<void> added = add_block(block); !added) return added;
    return add_waits();
  }

 private:
  const MscclBlock& block_at(uint32_t block) const { return plan_.ranks[rank_].blocks[block]; }
  std::vector<MscclMove>& moves() { return order_.moves[rank_]; }

  Error wrong(uint32_t block, uint32_t step, const std::string& text) const {
    return {Code::invalid_argument, place_of(plan_, rank_, block, step) + text};
  }

  uint64_t chunks_in(MscclBuffer buffer) const {
    const MscclRank& of = plan_.ranks[rank_];
    if (buffer == MscclBuffer::scratch) return of.scratch_chunks;
    return buffer == MscclBuffer::input ? of.input_chunks : of.output_chunks;
  }

  std::string outside(const MscclChunks& chunks, uint32_t count, const char* what) const {
    static constexpr const char* kNames[] = {"input", "output", "scratch"};
    const uint64_t there = chunks_in(chunks.buffer);
    if (uint64_t{chunks.index} + count <= there) return "";
    return std::string(what) + " chunks " + std::to_string(chunks.index) + " to " +
           std::to_string(uint64_t{chunks.index} + count - 1) + " of the " +
           kNames[static_cast<int>(chunks.buffer)] + ", which has " + std::to_string(there);
  }

  std::string check(const MscclBlock& block, const MscclStep& step) const {
    if (step.count == 0 && step.kind != MscclKind::nothing) return "moves no chunk";
    if (receives(step.kind) && block.receive < 0) return "receives, but its tb has no recv";
    if (sends(step.kind) && block.send < 0) return "sends, but its tb has no send";
    if (reduces_received(step.kind) && step.kind != MscclKind::receive_reduce_send &&
        !(step.source == step.target))
      return "adds to one place and stores at another: src and dst must be equal";
    std::string text;
    if (has_source(step.kind)) text = outside(step.source, step.count, "reads");
    if (text.empty() && has_target(step.kind)) text = outside(step.target, step.count, "writes");
    return text;
  }

  void add(uint32_t block, uint32_t step, MscclMove move) {
    if (!last_[block].empty()) move.after.push_back(last_[block].back().second);
    move.block = block;
    move.step = step;
    move.count = block_at(block).steps[step].count;
    const bool writes = move.kind != StepKind::put && move.target.buffer == MscclBuffer::input;
    if (writes) order_.writes_input[rank_] = true;
    last_[block].emplace_back(step, static_cast<uint32_t>(moves().size()));
    moves().push_back(std::move(move));
  }

  Result<void> add_block(uint32_t block) {
    const std::vector<MscclStep>& steps = block_at(block).steps;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      const MscclStep& step = steps[i];
      if (const std::string text = check(block_at(block), step); !text.empty())
        return wrong(block, i, text);
      const uint32_t from = static_cast<uint32_t>(block_at(block).receive);
      const uint32_t to = static_cast<uint32_t>(block_at(block).send);
      MscclChunks kept = step.target;
      if (step.kind == MscclKind::receive_reduce_send) kept = own_scratch(step.count);
      if (reduces_received(step.kind))
        add(block, i, {StepKind::receive_reduce, 0, 0, from, step.source, kept});
      else if (receives(step.kind))
        add(block, i, {StepKind::receive, 0, 0, from, {}, kept});
      else if (step.kind == MscclKind::copy)
        add(block, i, {StepKind::copy, 0, 0, 0, step.source, step.target});
      else if (step.kind == MscclKind::reduce)
        add(block, i, {StepKind::reduce, 0, 0, 0, step.source, step.target});
      if (sends(step.kind))
        add(block, i,
            {StepKind::put, 0, 0, to, step.kind == MscclKind::send ? step.source : kept, {}});
    }
    return {};
  }

  // For what rrs does not store: a place of its own for each.
  MscclChunks own_scratch(uint32_t count) {
    const uint32_t index = order_.scratch[rank_];
    order_.scratch[rank_] += count;
    return {MscclBuffer::scratch, index};
  }

  // The last move of a block up to a step; none if there were nops only.
  std::optional<uint32_t> move_up_to(uint32_t block, uint32_t step) const {
    std::optional<uint32_t> found;
    for (const auto& [of_step, move] : last_[block])
      if (of_step <= step) found = move;
    return found;
  }

  // A step waits for what it names, and for what the nops before it name.
  Result<void> add_waits() {
    for (uint32_t block = 0; block < last_.size(); ++block) {
      std::vector<uint32_t> waits;
      size_t next = 0;  // in last_[block]
      const std::vector<MscclStep>& steps = block_at(block).steps;
      for (uint32_t i = 0; i < steps.size(); ++i) {
        if (steps[i].after_block >= 0) {
          if (const std::string text = check_wait(steps[i]); !text.empty())
            return wrong(block, i, text);
          if (const auto move = move_up_to(static_cast<uint32_t>(steps[i].after_block),
                                           static_cast<uint32_t>(steps[i].after_step)))
            waits.push_back(*move);
        }
        if (next == last_[block].size() || last_[block][next].first != i) continue;
        MscclMove& move = moves()[last_[block][next].second];
        move.after.insert(move.after.end(), waits.begin(), waits.end());
        move.waits = std::exchange(waits, {});
        while (next < last_[block].size() && last_[block][next].first == i) ++next;
      }
    }
    return {};
  }

  std::string check_wait(const MscclStep& step) const {
    const std::vector<MscclBlock>& blocks = plan_.ranks[rank_].blocks;
    if (static_cast<size_t>(step.after_block) >= blocks.size())
      return "waits for tb " + std::to_string(step.after_block) + ", which this gpu has not";
    const std::vector<MscclStep>& steps = blocks[static_cast<size_t>(step.after_block)].steps;
    if (step.after_step < 0 || static_cast<size_t>(step.after_step) >= steps.size())
      return "waits for step " + std::to_string(step.after_step) + " of tb " +
             std::to_string(step.after_block) + ", which that has not";
    if (!steps[static_cast<size_t>(step.after_step)].awaited)
      return "waits for step " + std::to_string(step.after_step) + " of tb " +
             std::to_string(step.after_block) + ", whose hasdep is 0";
    return "";
  }

  const MscclPlan& plan_;
  uint32_t rank_;
  MscclOrder& order_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> last_;  // by block: step, move
};

}  // namespace

Result<void> divide(const MscclPlan& plan, uint32_t rank, MscclOrder& order) {
  return Dividing(plan, rank, order).run();
}

}  // namespace weft::collective
