// SPDX-License-Identifier: BSD-3-Clause
// From moves of chunks to steps of elements. Long chunks are cut into slices, and the whole plan
// runs for each slice, as in MSCCL, so that slices follow each other through the ranks.
//
// Memory: chunks are places in input, output or work. A sum that needs accumulators, or an average,
// is built up in work, and rounded to the output at the end of each slice. Where a plan overwrites
// the input, works in place and the call does not, or the reverse, the input is copied first.
#include "lib/collective/msccl/program.hpp"

#include <algorithm>
#include <optional>

#include "lib/base/check.hpp"
#include "lib/collective/plan/verify.hpp"

namespace weft::collective {
namespace {

// Sizes and offsets of the chunks of a call.
class Geometry {
 public:
  Geometry(const MscclPlan& plan, const Shape& shape)
      : chunks_(plan.chunks), of_block_(chunks_of_block(plan)), block_(shape.count) {
    longest_ = (block_ + of_block_ - 1) / of_block_;
  }
  uint64_t longest() const { return longest_; }
  uint64_t length(uint32_t chunk) const {
    return offset_in_block(chunk % of_block_ + 1) - offset_in_block(chunk % of_block_);
  }
  uint64_t offset(uint32_t chunk) const {
    return chunk / of_block_ * block_ + offset_in_block(chunk % of_block_);
  }
  uint64_t total() const { return chunks_ / of_block_ * block_; }
  bool even() const { return block_ % of_block_ == 0; }

 private:
  uint64_t offset_in_block(uint64_t chunk) const { return std::min(chunk * longest_, block_); }

  uint32_t chunks_, of_block_;
  uint64_t block_, longest_;
};

// Where the buffers of a plan are in the spaces of a program.
struct Places {
  struct Place {
    Space space = Space::input;
    uint64_t offset = 0;
    uint32_t first_chunk = 0;  // of the buffer, in the chunks of the call
  };
  Place input, output, scratch;
  bool copies_input = false;   // to `input`, first
  bool rounds_output = false;  // from `output`, at the end
  uint64_t work = 0;           // elements
};

class Placing {
 public:
  Placing(const MscclPlan& plan, const MscclOrder& order, const Shape& shape)
      : plan_(plan), order_(order), shape_(shape), geometry_(plan, shape) {}

  Places of(uint32_t rank) const {
    Places places;
    const uint64_t total = geometry_.total();
    const bool accumulates = reduces(shape_.collective) && (!shape_.exact || shape_.average);
    const uint32_t first = rank * chunks_of_block(plan_);
    if (gathers(shape_.collective)) places.input.first_chunk = first;
    if (scatters(shape_.collective)) places.output.first_chunk = first;
    if (plan_.in_place)
      alias(rank, accumulates, places);
    else
      apart(rank, accumulates, places);
    places.scratch = {Space::work, places.work, 0};
    places.work += order_.scratch[rank] * geometry_.longest();
    WEFT_DCHECK(places.input.space != Space::work || places.work >= total);
    return places;
  }

 private:
  // Input and output are one memory: that of the larger buffer.
  void alias(uint32_t rank, bool accumulates, Places& places) const {
    const bool larger_is_input = scatters(shape_.collective);
    Space space = larger_is_input ? Space::input : Space::output;
    const bool is_there = larger_is_input ? shape_.in_place : output_size(shape_, rank) > 0;
    if (accumulates || !is_there) {
      space = Space::work;
      places.work = geometry_.total();
    }
    places.input.space = places.output.space = space;
    places.copies_input =
        input_size(shape_, rank) > 0 && !(shape_.in_place && space != Space::work);
    places.rounds_output = output_size(shape_, rank) > 0 && space == Space::work;
  }

  void apart(uint32_t rank, bool accumulates, Places& places) const {
    const bool is_lost = shape_.in_place && !accumulates;
    if ((order_.writes_input[rank] || is_lost) && input_size(shape_, rank) > 0) {
      places.input = {Space::work, 0, places.input.first_chunk};
      places.copies_input = true;
      places.work = geometry_.total();
    }
    places.output.space = Space::output;
    const bool is_there = output_size(shape_, rank) > 0;
    if (is_there ? accumulates : plan_.ranks[rank].output_chunks > 0) {
      places.output = {Space::work, places.work, places.output.first_chunk};
      places.rounds_output = is_there;
      places.work += geometry_.total();
    }
  }

  const MscclPlan& plan_;
  const MscclOrder& order_;
  const Shape& shape_;
  Geometry geometry_;
};

class Writing {
 public:
  Writing(const MscclPlan& plan, const MscclOrder& order, const Shape& shape, uint32_t rank)
      : plan_(plan),
        order_(order),
        shape_(shape),
        rank_(rank),
        geometry_(plan, shape),
        placing_(plan, order, shape),
        places_(placing_.of(rank)) {}

  // The move of each step; none if the plan has no step for it.
  const std::vector<const MscclMove*>& origins() const { return origins_; }

  Program write() {
    const uint64_t longest = geometry_.longest();
    uint32_t most = 1;
    for (const std::vector<MscclMove>& moves : order_.moves)
      for (const MscclMove& move : moves) most = std::max(most, move.count);
    const uint64_t piece = shape_.piece == 0 ? longest * most : shape_.piece;
    whole_ = geometry_.even() && longest * most <= piece;
    slice_ = whole_ ? longest : std::min(longest, piece);
    program_.work = places_.work;
    for (uint64_t from = 0; from < longest; from += slice_) write_slice(from);
    program_.first_dependency.push_back(static_cast<uint32_t>(program_.dependencies.size()));
    return std::move(program_);
  }

 private:
  using Indices = std::vector<uint32_t>;

  void write_slice(uint64_t from) {
    from_ = from;
    origin_ = nullptr;
    const std::vector<MscclMove>& moves = order_.moves[rank_];
    Indices copied;
    if (places_.copies_input) copied = move_input();
    std::vector<Indices> done(moves.size());
    for (size_t i = 0; i < moves.size(); ++i) {
      Indices after = copied;
      for (const uint32_t earlier : moves[i].after)
        after.insert(after.end(), done[earlier].begin(), done[earlier].end());
      // Parts of a step are messages of their own, and need not wait for all of another.
      Indices waits;
      for (const uint32_t earlier : moves[i].waits)
        if (whole_ || (moves[i].count == 1 && moves[earlier].count == 1))
          waits.insert(waits.end(), done[earlier].begin(), done[earlier].end());
      done[i] = write_move(moves[i], after, waits);
    }
    if (!places_.rounds_output) return;
    origin_ = nullptr;
    for (const Indices& of_move : done) copied.insert(copied.end(), of_move.begin(), of_move.end());
    round_output(copied);
  }

  // The chunks of the call that this rank's input has, from the caller's memory to the plan's.
  Indices move_input() {
    Indices added;
    const uint32_t chunks = gathers(shape_.collective) ? chunks_of_block(plan_) : plan_.chunks;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const uint64_t length = length_in_slice(chunk);
      const Range source{Space::input, geometry_.offset(chunk) + from_, length};
      const Range target = range_of({MscclBuffer::input, chunk}, places_, length);
      if (resolve(shape_, rank_, source) == resolve(shape_, rank_, target)) continue;
      add({.kind = StepKind::copy, .source = source, .target = target}, {}, added);
    }
    return added;
  }

  void round_output(const Indices& after) {
    const bool rounds = shape_.average || !shape_.exact;
    const uint32_t chunks = scatters(shape_.collective) ? chunks_of_block(plan_) : plan_.chunks;
    Indices added;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const uint64_t length = length_in_slice(chunk);
      add({.kind = rounds ? StepKind::finish : StepKind::copy,
           .source = range_of({MscclBuffer::output, chunk}, places_, length),
           .target = {Space::output, geometry_.offset(chunk) + from_, length}},
          after, added);
    }
  }

  Indices write_move(const MscclMove& move, const Indices& after, const Indices& waits) {
    Indices added;
    origin_ = &move;
    Step step{.kind = move.kind, .peer = move.peer};
    if (move.kind == StepKind::receive || move.kind == StepKind::receive_reduce)
      step.wide = is_wide(shape_, {place_of(placing_.of(move.peer), move.sent_from).space, 0, 0});
    const uint32_t parts = whole_ ? 1 : move.count;
    for (uint32_t part = 0; part < parts; ++part) {
      const uint64_t length =
          whole_ ? geometry_.longest() * move.count : length_in_slice(move.lengths[part]);
      if (step.kind != StepKind::receive)
        step.source = range_of(at(move.source, part), places_, length);
      if (step.kind != StepKind::put)
        step.target = range_of(at(move.target, part), places_, length);
      add(step, after, added, waits);
    }
    return added;
  }

  static MscclChunks at(const MscclChunks& chunks, uint32_t part) {
    return {chunks.buffer, chunks.index + part};
  }

  uint64_t length_in_slice(uint32_t chunk) const {
    const uint64_t length = geometry_.length(chunk);
    return length <= from_ ? 0 : std::min(slice_, length - from_);
  }

  static const Places::Place& place_of(const Places& places, MscclBuffer buffer) {
    if (buffer == MscclBuffer::scratch) return places.scratch;
    return buffer == MscclBuffer::input ? places.input : places.output;
  }

  // Alone in its space, a buffer begins with its own first chunk; in place, or in work, it lies
  // where it is in the larger one.
  Range range_of(const MscclChunks& chunks, const Places& places, uint64_t length) const {
    const Places::Place& place = place_of(places, chunks.buffer);
    if (chunks.buffer == MscclBuffer::scratch)
      return {place.space, place.offset + chunks.index * geometry_.longest() + from_, length};
    const bool shared = place.space == Space::work || plan_.in_place;
    const uint32_t chunk = chunks.index + (shared ? place.first_chunk : 0);
    return {place.space, place.offset + geometry_.offset(chunk) + from_, length};
  }

  static bool overlap(const Range& a, const Range& b) {
    return a.space == b.space && a.offset < b.end() && b.offset < a.end();
  }
  static bool conflicts(const Step& a, const Step& b) {
    return overlap(a.target, b.target) || overlap(a.target, b.source) ||
           overlap(a.source, b.target);
  }

  // It waits for those of `after` that touch the same memory, and for `waits`.
  void add(Step step, const Indices& after, Indices& added, Indices waits = {}) {
    const bool has_source = step.kind != StepKind::receive, has_target = step.kind != StepKind::put;
    if ((has_source ? step.source : step.target).count == 0) return;
    if (has_source) step.source = resolve(shape_, rank_, step.source);
    if (has_target) step.target = resolve(shape_, rank_, step.target);
    for (const uint32_t earlier : after)
      if (conflicts(program_.steps[earlier], step)) waits.push_back(earlier);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    program_.first_dependency.push_back(static_cast<uint32_t>(program_.dependencies.size()));
    program_.dependencies.insert(program_.dependencies.end(), waits.begin(), waits.end());
    added.push_back(static_cast<uint32_t>(program_.steps.size()));
    program_.steps.push_back(step);
    origins_.push_back(origin_);
  }

  const MscclPlan& plan_;
  const MscclOrder& order_;
  const Shape& shape_;
  uint32_t rank_;
  Geometry geometry_;
  Placing placing_;
  Places places_;
  bool whole_ = false;  // each step moves all its chunks at once
  uint64_t slice_ = 1, from_ = 0;
  Program program_;
  const MscclMove* origin_ = nullptr;
  std::vector<const MscclMove*> origins_;
};

}  // namespace

Result<std::unique_ptr<MscclProgram>> MscclProgram::make(MscclPlan plan) {
  Result<MscclOrder> order = order_of(plan);
  if (!order) return Error{order.error().code, plan.name + ": " + order.error().message};
  std::unique_ptr<MscclProgram> made(new MscclProgram(std::move(plan), *std::move(order)));
  if (const Result<void> proven = made->prove(); !proven)
    return Error{proven.error().code, made->plan_.name + ": " + proven.error().message};
  return made;
}

uint64_t MscclProgram::fingerprint_of(const MscclOrder& order) {
  uint64_t mixed = 0;
  const auto mix = [&](uint64_t value) {
    mixed = (mixed ^ value) * 0x9E3779B97F4A7C15 + (mixed >> 29);
  };
  for (const std::vector<MscclMove>& moves : order.moves)
    for (const MscclMove& move : moves)
      for (const uint64_t value :
           {uint64_t{static_cast<uint8_t>(move.kind)}, uint64_t{move.peer}, uint64_t{move.count},
            uint64_t{static_cast<uint8_t>(move.source.buffer)}, uint64_t{move.source.index},
            uint64_t{static_cast<uint8_t>(move.target.buffer)}, uint64_t{move.target.index}})
        mix(value);
  return mixed;
}

Program MscclProgram::program(const Shape& shape, uint32_t rank) const {
  WEFT_DCHECK(fits(shape) && rank < shape.ranks);
  return Writing(plan_, order_, shape, rank).write();
}

Result<void> MscclProgram::fits(const Shape& shape) const {
  const auto refused = [&](const std::string& text) {
    return Error{Code::not_supported, "the plan " + plan_.name + " is for " + text};
  };
  if (shape.ranks != plan_.ranks.size())
    return refused(std::to_string(plan_.ranks.size()) + " ranks, not " +
                   std::to_string(shape.ranks));
  const bool rooted =
      plan_.collective == Collective::broadcast || plan_.collective == Collective::reduce;
  if (rooted && shape.root != root_)
    return refused("root " + std::to_string(root_) + ", not " + std::to_string(shape.root));
  if (order_.equal_chunks && shape.count % chunks_of_block(plan_) != 0)
    return refused("counts that are multiples of " + std::to_string(chunks_of_block(plan_)) +
                   ", as its chunks change places, not " + std::to_string(shape.count));
  return {};
}

Result<void> MscclProgram::prove(const Shape& shape) const {
  std::vector<Program> programs;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) programs.push_back(program(shape, rank));
  const Result<void> proven = verify(shape, programs);
  const std::optional<StepAt> wrong = proven ? std::nullopt : step_of(proven.error());
  if (!wrong) return proven;
  Writing written(plan_, order_, shape, wrong->rank);
  (void)written.write();
  const MscclMove* const move = written.origins()[wrong->step];
  if (move == nullptr) return proven;
  return Error{proven.error().code,
               place_of(plan_, wrong->rank, move->block, move->step) + proven.error().message};
}

// The plan does not say its root: it is the rank for which it is right.
Result<void> MscclProgram::prove() {
  const uint32_t chunks = chunks_of_block(plan_);
  Shape shape{.collective = plan_.collective,
              .ranks = static_cast<uint32_t>(plan_.ranks.size()),
              .count = chunks};
  const bool rooted =
      plan_.collective == Collective::broadcast || plan_.collective == Collective::reduce;
  const Result<void> first = prove(shape);
  if (!first && rooted)
    while (++root_ < shape.ranks) {
      shape.root = root_;
      if (prove(shape)) break;
    }
  if (!first && (!rooted || root_ == shape.ranks)) return first;
  const bool reduction = reduces(plan_.collective);
  for (const uint64_t count : {uint64_t{2} * chunks, uint64_t{2} * chunks + 1, uint64_t{1}})
    for (const uint64_t piece : {0, 1})
      for (const bool in_place : {false, true})
        for (int wide = 0; wide < (reduction ? 3 : 1); ++wide) {
          shape.count = count;
          shape.piece = piece;
          shape.in_place = in_place && plan_.collective != Collective::all_to_all;
          shape.exact = wide != 1;
          shape.average = wide == 2;
          if (!fits(shape)) continue;
          if (const Result<void> proven = prove(shape); !proven) return proven;
        }
  return {};
}

}  // namespace weft::collective
