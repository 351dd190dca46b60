// SPDX-License-Identifier: BSD-3-Clause
// Builder: dependencies from the memory that steps touch, kept as intervals per space.
#include "lib/collective/builder.hpp"

#include <algorithm>

namespace weft::collective {
namespace {

bool receives(StepKind kind) {
  return kind == StepKind::receive || kind == StepKind::receive_reduce;
}

bool reads_source(StepKind kind) { return kind != StepKind::receive; }
bool writes_target(StepKind kind) { return kind != StepKind::put; }

}  // namespace

void Builder::put(uint32_t peer, Range source) {
  add_pieces({.kind = StepKind::put, .along = along_, .peer = peer, .source = source});
}

void Builder::receive(uint32_t peer, Range target, Space from) {
  add_pieces({.kind = StepKind::receive,
              .wide = from == Space::work && !shape_.exact,
              .peer = peer,
              .target = target});
}

void Builder::receive_reduce(uint32_t peer, Range source, Range target, Space from) {
  add_pieces({.kind = StepKind::receive_reduce,
              .wide = from == Space::work && !shape_.exact,
              .peer = peer,
              .source = source,
              .target = target});
}

void Builder::copy(Range source, Range target) {
  if (place(source) == place(target)) return;
  add_pieces({.kind = StepKind::copy, .source = source, .target = target});
}

void Builder::reduce(Range source, Range target) {
  add_pieces({.kind = StepKind::reduce, .source = source, .target = target});
}

void Builder::finish(Range source, Range target) {
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
  step.source = place(step.source);
  step.target = place(step.target);
  const uint64_t count = std::max(step.source.count, step.target.count);
  const uint64_t piece = shape_.piece == 0 ? count : shape_.piece;
  for (uint64_t from = 0; from < count; from += piece) {
    const uint64_t length = std::min(piece, count - from);
    Step part = step;
    part.left = static_cast<uint32_t>((count - from + piece - 1) / piece);
    if (reads_source(step.kind)) part.source = step.source.part(from, length);
    if (writes_target(step.kind)) part.target = step.target.part(from, length);
    add(part);
  }
}

void Builder::add(Step step) {
  const uint32_t index = static_cast<uint32_t>(program_.steps.size());
  std::vector<uint32_t> found = previous_round_;
  if (reads_source(step.kind)) depend_on_reads(step.source, false, found);
  if (step.kind == StepKind::reduce) depend_on_reads(step.target, false, found);
  if (writes_target(step.kind)) depend_on_reads(step.target, true, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  program_.first_dependency.push_back(static_cast<uint32_t>(program_.dependencies.size()));
  program_.dependencies.insert(program_.dependencies.end(), found.begin(), found.end());
  if (reads_source(step.kind)) note_use(step.source, false, index);
  if (writes_target(step.kind)) note_use(step.target, true, index);
  if (receives(step.kind)) round_.push_back(index);
  program_.steps.push_back(step);
}

Range Builder::place(Range range) const {
  if (work_on_output_ && range.space == Space::work) range.space = Space::output;
  return resolve(shape_, rank_, range);
}

// The steps before a read of the range (its writer), or before a write (the readers too).
void Builder::depend_on_reads(const Range& range, bool write, std::vector<uint32_t>& found) {
  Uses& uses = uses_[static_cast<int>(range.space)];
  Uses::iterator use = uses.upper_bound(range.offset);
  if (use != uses.begin()) --use;
  for (; use != uses.end() && use->first < range.end(); ++use) {
    if (use->second.end <= range.offset) continue;
    if (use->second.writer >= 0) found.push_back(static_cast<uint32_t>(use->second.writer));
    if (write) found.insert(found.end(), use->second.readers.begin(), use->second.readers.end());
  }
}

void Builder::note_use(const Range& range, bool write, uint32_t step) {
  if (range.space == Space::work) program_.work = std::max(program_.work, range.end());
  Uses& uses = uses_[static_cast<int>(range.space)];
  split(uses, range.offset);
  split(uses, range.end());
  if (write) {
    uses.erase(uses.lower_bound(range.offset), uses.lower_bound(range.end()));
    uses[range.offset] = {range.end(), step, {}};
    return;
  }
  uint64_t at = range.offset;
  while (at < range.end()) {
    Uses::iterator use = uses.lower_bound(at);
    if (use == uses.end() || use->first != at) {  // a gap
      const uint64_t end = use == uses.end() ? range.end() : std::min(use->first, range.end());
      use = uses.insert({at, {end, -1, {}}}).first;
    }
    use->second.readers.push_back(step);
    at = use->second.end;
  }
}

// After this, no interval has `at` inside it.
void Builder::split(Uses& uses, uint64_t at) {
  Uses::iterator use = uses.upper_bound(at);
  if (use == uses.begin()) return;
  --use;
  if (use->first == at || use->second.end <= at) return;
  Use tail = use->second;
  use->second.end = at;
  uses.insert({at, std::move(tail)});
}

Program Builder::take() {
  program_.first_dependency.push_back(static_cast<uint32_t>(program_.dependencies.size()));
  return std::move(program_);
}

}  // namespace weft::collective
