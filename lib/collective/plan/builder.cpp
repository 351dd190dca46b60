// SPDX-License-Identifier: BSD-3-Clause
// Builder: derives dependencies from the memory that steps touch, kept as intervals per space.
#include "lib/collective/plan/builder.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

bool receives(StepKind kind) {
  return kind == StepKind::receive || kind == StepKind::receive_reduce;
}

bool reads_source(StepKind kind) { return kind != StepKind::receive; }
bool writes_target(StepKind kind) { return kind != StepKind::put; }

}  // namespace

void Builder::put(uint32_t peer, Range source) {
  WEFT_DCHECK(peer < shape_.ranks && peer != rank_);
  add_pieces({.kind = StepKind::put, .dimension = dimension_, .peer = peer, .source = source});
}

void Builder::receive(uint32_t peer, Range target, Space from) {
  WEFT_DCHECK(peer < shape_.ranks && peer != rank_);
  add_pieces({.kind = StepKind::receive,
              .wide = from == Space::work && !shape_.exact,
              .peer = peer,
              .target = target});
}

void Builder::receive_reduce(uint32_t peer, Range source, Range target, Space from) {
  WEFT_DCHECK(peer < shape_.ranks && peer != rank_);
  WEFT_DCHECK(source.count == target.count);
  add_pieces({.kind = StepKind::receive_reduce,
              .wide = from == Space::work && !shape_.exact,
              .peer = peer,
              .source = source,
              .target = target});
}

void Builder::copy(Range source, Range target) {
  WEFT_DCHECK(source.count == target.count);
  if (resolved(source) == resolved(target)) return;
  add_pieces({.kind = StepKind::copy, .source = source, .target = target});
}

void Builder::reduce(Range source, Range target) {
  WEFT_DCHECK(source.count == target.count);
  add_pieces({.kind = StepKind::reduce, .source = source, .target = target});
}

void Builder::finish(Range source, Range target) {
  WEFT_DCHECK(source.count == target.count && target.space != Space::work);
  const bool changes = shape_.average || !shape_.exact;
  if (!changes) return copy(source, target);
  add_pieces({.kind = StepKind::finish, .source = source, .target = target});
}

void Builder::next_round() {
  if (round_.empty()) return;
  previous_round_.swap(round_);
  round_.clear();
}

void Builder::add_pieces(Step step) {
  step.source = resolved(step.source);
  step.target = resolved(step.target);
  const uint64_t count = std::max(step.source.count, step.target.count);
  const uint64_t piece = shape_.piece == 0 ? count : shape_.piece;
  WEFT_DCHECK(count == 0 || piece > 0);
  for (uint64_t from = 0; from < count; from += piece) {
    const uint64_t length = std::min(piece, count - from);
    Step part = step;
    part.remaining_pieces = static_cast<uint32_t>((count - from + piece - 1) / piece);
    if (reads_source(step.kind)) part.source = step.source.part(from, length);
    if (writes_target(step.kind)) part.target = step.target.part(from, length);
    add(part);
  }
}

void Builder::add(Step step) {
  const uint32_t index = static_cast<uint32_t>(program_.steps.size());
  std::vector<uint32_t> found = previous_round_;
  const bool adds = shape_.any_order && accumulates(step);
  const bool reads = reads_source(step.kind) && !(adds && step.source == step.target);
  if (reads) depend_on_uses(step.source, Access::read, found);
  if (writes_target(step.kind))
    depend_on_uses(step.target, adds ? Access::add : Access::write, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  WEFT_DCHECK(found.empty() || found.back() < index);  // dependencies point backwards
  program_.first_dependency.push_back(static_cast<uint32_t>(program_.dependencies.size()));
  program_.dependencies.insert(program_.dependencies.end(), found.begin(), found.end());
  program_.steps.push_back(step);
  if (reads) record_use(step.source, Access::read, index);
  if (writes_target(step.kind)) record_use(step.target, adds ? Access::add : Access::write, index);
  if (receives(step.kind)) round_.push_back(index);
}

Range Builder::resolved(Range range) const {
  if (work_on_output_ && range.space == Space::work) range.space = Space::output;
  return resolve(shape_, rank_, range);
}

// Appends the steps that must precede a read of the range (its writer and the additions since), an
// addition (its writer and the readers) or a write (all of them).
void Builder::depend_on_uses(const Range& range, Access access, std::vector<uint32_t>& found) {
  const auto add_all = [&](const std::vector<uint32_t>& steps) {
    found.insert(found.end(), steps.begin(), steps.end());
  };
  Uses& uses = uses_[static_cast<int>(range.space)];
  Uses::iterator use = uses.upper_bound(range.offset);
  if (use != uses.begin()) --use;
  for (; use != uses.end() && use->first < range.end(); ++use) {
    if (use->second.end <= range.offset) continue;
    if (use->second.writer >= 0) found.push_back(static_cast<uint32_t>(use->second.writer));
    if (access != Access::add) add_all(use->second.adders);
    if (access != Access::read) add_all(use->second.readers);
  }
}

void Builder::record_use(const Range& range, Access access, uint32_t step) {
  WEFT_DCHECK(range.count > 0);
  if (range.space == Space::work) program_.work = std::max(program_.work, range.end());
  Uses& uses = uses_[static_cast<int>(range.space)];
  split(uses, range.offset);
  split(uses, range.end());
  if (access == Access::write) {
    uses.erase(uses.lower_bound(range.offset), uses.lower_bound(range.end()));
    uses[range.offset] = {range.end(), step, {}, 0, {}};
    return;
  }
  uint64_t at = range.offset;
  while (at < range.end()) {
    Uses::iterator use = uses.lower_bound(at);
    if (use == uses.end() || use->first != at) {  // a gap
      const uint64_t end = use == uses.end() ? range.end() : std::min(use->first, range.end());
      use = uses.insert({at, {end, -1, {}, 0, {}}}).first;
    }
    if (access == Access::read)
      record_read(use->second, step);
    else
      record_add(use->second, step);
    WEFT_DCHECK(use->second.end > at && use->second.end <= range.end());
    at = use->second.end;
  }
}

void Builder::record_read(Use& use, uint32_t step) {
  WEFT_DCHECK(use.readers.empty() || use.readers.back() <= step);
  use.readers.push_back(step);
  use.ordered_adders = use.adders.size();
}

void Builder::record_add(Use& use, uint32_t step) {
  std::vector<Step>& steps = program_.steps;
  WEFT_DCHECK(use.ordered_adders <= use.adders.size() && accumulates(steps[step]));
  for (size_t i = use.ordered_adders; i < use.adders.size(); ++i)
    steps[use.adders[i]].unordered = steps[step].unordered = true;
  use.adders.push_back(step);
}

// After this, no interval has `at` inside it.
void Builder::split(Uses& uses, uint64_t at) {
  Uses::iterator use = uses.upper_bound(at);
  if (use == uses.begin()) return;
  --use;
  if (use->first == at || use->second.end <= at) return;
  WEFT_DCHECK(use->first < at && at < use->second.end);
  Use tail = use->second;
  use->second.end = at;
  uses.insert({at, std::move(tail)});
}

Program Builder::take_program() {
  WEFT_DCHECK(program_.first_dependency.size() == program_.steps.size());
  program_.first_dependency.push_back(static_cast<uint32_t>(program_.dependencies.size()));
  return std::move(program_);
}

}  // namespace weft::collective
