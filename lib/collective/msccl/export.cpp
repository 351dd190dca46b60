// SPDX-License-Identifier: BSD-3-Clause
// Elements to chunks, steps to tbs, dependencies to waits.
#include "lib/collective/msccl/export.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kMaxCount = 71;  // chunks of a step
constexpr size_t kMaxSteps = 256;   // of a tb
constexpr size_t kMaxBlocks = 108;  // of a gpu: depid is a byte with a sign
constexpr MscclChunks kNone{MscclBuffer::input, UINT32_MAX};

bool is_exported(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_to_all:
      return true;
    default:
      return false;
  }
}

// The greatest number of elements that divides all offsets and sizes.
uint64_t chunk_of(const Shape& shape, const std::vector<Program>& programs) {
  uint64_t unit = shape.count;
  for (const Program& program : programs)
    for (const Step& step : program.steps)
      for (const Range& range : {step.source, step.target})
        unit = std::gcd(std::gcd(unit, range.offset), range.count);
  return unit;
}

class Exporting {
 public:
  Exporting(const Shape& shape, uint64_t chunk, uint32_t rank, const Program& program)
      : chunk_(chunk), program_(program) {
    rank_.input_chunks = chunks(input_size(shape, rank));
    rank_.output_chunks = chunks(output_size(shape, rank));
    rank_.scratch_chunks = chunks(program.work + chunk - 1);
  }

  Result<MscclRank> run() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      std::vector<Place> after;
      for (const uint32_t earlier : program_.dependencies_of(i)) after.push_back(last_[earlier]);
      add_step(program_.steps[i], std::move(after));
    }
    if (rank_.blocks.size() > kMaxBlocks)
      return too_many("tbs of a gpu", rank_.blocks.size(), kMaxBlocks);
    for (const MscclBlock& block : rank_.blocks)
      if (block.steps.size() > kMaxSteps)
        return too_many("steps of a tb", block.steps.size(), kMaxSteps);
    return std::move(rank_);
  }

 private:
  struct Place {
    uint32_t block = 0, step = 0;
    auto operator<=>(const Place&) const = default;
  };

  static Error too_many(const char* what, size_t are, size_t most) {
    return {Code::not_supported, "MSCCL takes " + std::to_string(most) + " " + what +
                                     ", this schedule has " + std::to_string(are) +
                                     ": export one of fewer ranks or a smaller --count"};
  }

  uint32_t chunks(uint64_t elements) const { return static_cast<uint32_t>(elements / chunk_); }
  MscclChunks chunks_at(const Range& range, uint32_t from) const {
    constexpr MscclBuffer kBuffers[] = {MscclBuffer::input, MscclBuffer::output,
                                        MscclBuffer::scratch};
    return {kBuffers[static_cast<int>(range.space)], chunks(range.offset) + from};
  }

  uint32_t block_for(int32_t send, int32_t receive) {
    const auto [found, added] = blocks_.try_emplace({send, receive}, rank_.blocks.size());
    if (added) rank_.blocks.push_back({send, receive, 0, {}});
    return found->second;
  }

  void add_step(const Step& step, std::vector<Place> after) {
    const int32_t peer = static_cast<int32_t>(step.peer);
    switch (step.kind) {
      case StepKind::put:
        return last_.push_back(
            add(block_for(peer, -1), MscclKind::send, step.source, step.source, after));
      case StepKind::receive:
        return last_.push_back(
            add(block_for(-1, peer), MscclKind::receive, step.target, step.target, after));
      case StepKind::receive_reduce:
        // MSCCL stores a sum where it has added.
        if (!(step.source == step.target))
          after = {add(block_for(-1, -1), MscclKind::copy, step.source, step.target, after)};
        return last_.push_back(add(block_for(-1, peer), MscclKind::receive_reduce_copy, step.target,
                                   step.target, after));
      case StepKind::reduce:
        return last_.push_back(
            add(block_for(-1, -1), MscclKind::reduce, step.source, step.target, after));
      default:
        return last_.push_back(
            add(block_for(-1, -1), MscclKind::copy, step.source, step.target, after));
    }
  }

  // The step, in parts if it has too many chunks, behind a nop for each further wait.
  Place add(uint32_t block, MscclKind kind, const Range& source, const Range& target,
            const std::vector<Place>& after) {
    std::vector<MscclStep>& steps = rank_.blocks[block].steps;
    const std::map<uint32_t, uint32_t> waits = needed(block, after);
    MscclStep step;
    for (const auto& [other, last] : waits) {
      rank_.blocks[other].steps[last].awaited = true;
      if (step.after_block >= 0) {
        step.kind = MscclKind::nothing;
        step.source = step.target = kNone;
        step.count = 0;
        steps.push_back(step);
      }
      step.after_block = static_cast<int32_t>(other);
      step.after_step = static_cast<int32_t>(last);
    }
    step.kind = kind;
    const uint32_t all = chunks(source.count);
    for (uint32_t from = 0; from < all; from += kMaxCount) {
      step.count = std::min(kMaxCount, all - from);
      step.source = chunks_at(source, from);
      step.target = chunks_at(target, from);
      steps.push_back(step);
      step.after_block = step.after_step = -1;
    }
    const Place place{block, static_cast<uint32_t>(steps.size() - 1)};
    Seen seen;  // the last step of each block that is done before
    seen[block] = place.step;
    if (const auto earlier = newest_.find(block); earlier != newest_.end())
      merge(seen, seen_[earlier->second]);
    for (const auto& [other, last] : waits) merge(seen, seen_[{other, last}]);
    newest_[block] = place;
    seen_[place] = std::move(seen);
    return place;
  }

  using Seen = std::map<uint32_t, uint32_t>;  // block: step
  static void merge(Seen& seen, const Seen& more) {
    for (const auto& [block, step] : more) {
      const auto [at, added] = seen.try_emplace(block, step);
      if (!added) at->second = std::max(at->second, step);
    }
  }
  static bool covers(const Seen& seen, const Place& place) {
    const auto found = seen.find(place.block);
    return found != seen.end() && found->second >= place.step;
  }

  // The steps of other blocks to wait for: not those that the step before, or another one that is
  // waited for, has waited for.
  Seen needed(uint32_t block, const std::vector<Place>& after) {
    Seen waits;
    for (const Place& place : after)
      if (place.block != block) merge(waits, {{place.block, place.step}});
    Seen kept;
    for (const auto& [other, last] : waits) {
      bool implied = newest_.contains(block) && covers(seen_[newest_[block]], {other, last});
      for (const auto& [third, its_last] : waits)
        implied |= third != other && covers(seen_[{third, its_last}], {other, last});
      if (!implied) kept[other] = last;
    }
    return kept;
  }

  uint64_t chunk_;
  const Program& program_;
  MscclRank rank_;
  std::map<std::pair<int32_t, int32_t>, uint32_t> blocks_;
  std::vector<Place> last_;           // of each step of the program
  std::map<uint32_t, Place> newest_;  // the last step of each block
  std::map<Place, Seen> seen_;
};

}  // namespace

Result<MscclPlan> msccl_plan_of(const std::string& name, const Shape& shape,
                                const std::vector<Program>& programs) {
  const auto unknown = [&](const std::string& what) {
    return Error{Code::not_supported, "MSCCL has no " + what};
  };
  if (!is_exported(shape.collective))
    return unknown("operation " + std::string(weft::name(shape.collective)));
  if (shape.average) return unknown("average: export the sum");
  if (!shape.exact) return unknown("partial sums that are wider than elements: export fp32");
  if (shape.count == 0) return unknown("calls of no elements");
  WEFT_DCHECK(programs.size() == shape.ranks && !shape.any_order);
  const uint64_t chunk = chunk_of(shape, programs);
  const uint64_t all = std::max(input_size(shape, shape.root), output_size(shape, shape.root));
  if (all / chunk > kMaxMscclChunks)
    return Error{Code::not_supported, "the schedule divides its buffer into " +
                                          std::to_string(all / chunk) + " chunks, a plan has " +
                                          std::to_string(kMaxMscclChunks) + " at most"};
  MscclPlan plan{.name = name,
                 .collective = shape.collective,
                 .chunks = static_cast<uint32_t>(all / chunk),
                 .in_place = shape.in_place};
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    Result<MscclRank> made = Exporting(shape, chunk, rank, programs[rank]).run();
    if (!made) return made.error();
    plan.ranks.push_back(*std::move(made));
  }
  return plan;
}

}  // namespace weft::collective
