// SPDX-License-Identifier: BSD-3-Clause
// verify(): structure and order of each rank's program, then all programs together, step by step,
// over links that hold one message.
#include "lib/collective/plan/verify.hpp"

#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "lib/base/check.hpp"
#include "lib/collective/plan/verify_values.hpp"

namespace weft::collective {
namespace {

bool receives(const Step& step) {
  return step.kind == StepKind::receive || step.kind == StepKind::receive_reduce;
}
bool has_source(const Step& step) { return step.kind != StepKind::receive; }
bool has_target(const Step& step) { return step.kind != StepKind::put; }

bool overlaps(const Range& a, const Range& b) {
  return a.space == b.space && a.offset < b.end() && b.offset < a.end();
}

bool conflicts(const Step& a, const Step& b) {
  // Unordered additions commute, unless one reads what the other writes.
  if (a.unordered && b.unordered && overlaps(a.target, b.target))
    return (a.kind == StepKind::reduce && overlaps(a.source, b.target)) ||
           (b.kind == StepKind::reduce && overlaps(b.source, a.target));
  return (has_target(a) && has_target(b) && overlaps(a.target, b.target)) ||
         (has_target(a) && has_source(b) && overlaps(a.target, b.source)) ||
         (has_source(a) && has_target(b) && overlaps(a.source, b.target));
}

Error step_error(uint32_t rank, const Program& program, size_t step, const std::string& text) {
  return {Code::invalid_argument, "rank " + std::to_string(rank) + " step " + std::to_string(step) +
                                      " (" + to_string(program.steps[step]) + "): " + text};
}

constexpr const char* kStepFormat = "rank %u step %zu";  // of step_error()

// ---- structure ----

bool inside(const Shape& shape, uint32_t rank, const Program& program, const Range& range) {
  const uint64_t sizes[] = {input_size(shape, rank), output_size(shape, rank), program.work};
  const uint64_t size = sizes[static_cast<int>(range.space)];
  return range.count > 0 && range.count <= size && range.offset <= size - range.count;
}

std::string check_step(const Shape& shape, uint32_t rank, const Program& program,
                       const Step& step) {
  const bool has_peer = step.kind == StepKind::put || receives(step);
  if (has_peer && (step.peer >= shape.ranks || step.peer == rank)) return "has no such peer";
  if (has_source(step) && !inside(shape, rank, program, step.source)) return "reads out of bounds";
  if (has_target(step) && !inside(shape, rank, program, step.target)) return "writes out of bounds";
  if (has_source(step) && has_target(step) && step.source.count != step.target.count)
    return "has source and target of different sizes";
  if (step.unordered && !(shape.any_order && accumulates(step))) return "is out of order";
  const bool in_place_scatter = shape.in_place && scatters(shape.collective);
  if (has_target(step) && step.target.space == Space::input && !in_place_scatter)
    return "writes the input";
  if (!has_target(step)) return "";
  const bool target_wide = is_wide(shape, step.target);
  const bool reduction = step.kind == StepKind::receive_reduce || step.kind == StepKind::reduce;
  if (reduction && !shape.exact && !target_wide) return "reduces into elements";
  const bool source_wide = has_source(step) ? is_wide(shape, step.source) : step.wide;
  if (source_wide && !target_wide && step.kind != StepKind::finish)
    return "stores accumulators as elements";
  return "";
}

// ---- order ----

// The transitive closure of the dependencies: which steps are done before each step starts.
class HappensBefore {
 public:
  explicit HappensBefore(const Program& program)
      : words_((program.steps.size() + 63) / 64), bits_(program.steps.size() * words_) {
    for (size_t step = 0; step < program.steps.size(); ++step) {
      for (const uint32_t earlier : program.dependencies_of(step)) {
        for (size_t w = 0; w < words_; ++w) bits_[step * words_ + w] |= bits_[earlier * words_ + w];
        bits_[step * words_ + earlier / 64] |= uint64_t{1} << (earlier % 64);
      }
    }
  }
  bool operator()(size_t earlier, size_t step) const {
    WEFT_DCHECK(earlier < step && step * words_ < bits_.size());
    return (bits_[step * words_ + earlier / 64] >> (earlier % 64) & 1) != 0;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

Result<void> check_program(const Shape& shape, uint32_t rank, const Program& program) {
  if (program.first_dependency.size() != program.steps.size() + 1)
    return Error{Code::invalid_argument, "a program whose dependencies do not fit its steps"};
  for (size_t step = 0; step < program.steps.size(); ++step) {
    const std::string text = check_step(shape, rank, program, program.steps[step]);
    if (!text.empty()) return step_error(rank, program, step, text);
    for (const uint32_t earlier : program.dependencies_of(step))
      if (earlier >= step) return step_error(rank, program, step, "depends on a later step");
  }
  const HappensBefore happens_before(program);
  for (size_t step = 0; step < program.steps.size(); ++step)
    for (size_t earlier = 0; earlier < step; ++earlier)
      if (conflicts(program.steps[earlier], program.steps[step]) && !happens_before(earlier, step))
        return step_error(
            rank, program, step,
            "touches the memory of step " + std::to_string(earlier) + " without waiting for it");
  return {};
}

// ---- progress and values ----

struct Message {
  std::vector<Value> values;
  bool wide = false;
};

class Execution {
 public:
  Execution(const Shape& shape, const std::vector<Program>& programs)
      : shape_(shape), programs_(programs), links_(size_t{shape.ranks} * shape.ranks) {
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      memory_.push_back(SymbolicMemory(shape, rank, programs[rank].work));
      done_.push_back(std::vector<bool>(programs[rank].steps.size()));
      order_.push_back(std::vector<std::deque<size_t>>(2 * size_t{shape.ranks}));
      for (size_t step = 0; step < programs[rank].steps.size(); ++step)
        if (std::deque<size_t>* const queue = queue_of(rank, step)) queue->push_back(step);
    }
  }

  // Executes ready steps in program order, or in reverse program order.
  Result<void> run(bool from_last) {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
        for (size_t i = 0; i < programs_[rank].steps.size(); ++i) {
          const size_t step = from_last ? programs_[rank].steps.size() - 1 - i : i;
          if (done_[rank][step] || !is_ready(rank, step)) continue;
          const std::string text = execute(rank, programs_[rank].steps[step]);
          if (!text.empty()) return step_error(rank, programs_[rank], step, text);
          if (std::deque<size_t>* const queue = queue_of(rank, step)) {
            WEFT_DCHECK(queue->front() == step);
            queue->pop_front();
          }
          done_[rank][step] = true;
          moved = true;
        }
    }
    return check_final_state();
  }

 private:
  // Puts to one peer, and receives from one peer, run in program order; nullptr for local steps.
  std::deque<size_t>* queue_of(uint32_t rank, size_t step) {
    const Step& s = programs_[rank].steps[step];
    if (s.kind == StepKind::put) return &order_[rank][s.peer];
    return receives(s) ? &order_[rank][shape_.ranks + s.peer] : nullptr;
  }
  std::optional<Message>& link(uint32_t from, uint32_t to) {
    return links_[size_t{from} * shape_.ranks + to];
  }

  bool is_ready(uint32_t rank, size_t step) {
    const Step& s = programs_[rank].steps[step];
    for (const uint32_t earlier : programs_[rank].dependencies_of(step))
      if (!done_[rank][earlier]) return false;
    const std::deque<size_t>* const queue = queue_of(rank, step);
    if (queue != nullptr && queue->front() != step) return false;
    if (s.kind == StepKind::put) return !link(rank, s.peer);
    return !receives(s) || link(s.peer, rank).has_value();
  }

  std::string execute(uint32_t rank, const Step& step) {
    if (step.kind == StepKind::put) {
      WEFT_DCHECK(!link(rank, step.peer).has_value());  // is_ready()
      Message message{{}, is_wide(shape_, step.source)};
      std::string text = memory_[rank].read(step.source, message.values);
      link(rank, step.peer) = std::move(message);
      return text;
    }
    if (!receives(step)) return memory_[rank].execute(step, {});
    WEFT_DCHECK(link(step.peer, rank).has_value());  // is_ready()
    const Message message = std::move(*link(step.peer, rank));
    link(step.peer, rank).reset();
    if (message.values.size() != step.target.count)
      return "expects " + std::to_string(step.target.count) + " elements, the peer puts " +
             std::to_string(message.values.size());
    if (message.wide != step.wide) return "and the peer's put differ in the type of elements";
    return memory_[rank].execute(step, message.values);
  }

  Result<void> check_final_state() {
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      for (size_t step = 0; step < done_[rank].size(); ++step)
        if (!done_[rank][step]) return step_error(rank, programs_[rank], step, "never gets to run");
      for (uint32_t peer = 0; peer < shape_.ranks; ++peer)
        if (link(peer, rank))
          return Error{Code::invalid_argument, "rank " + std::to_string(rank) +
                                                   " never receives what rank " +
                                                   std::to_string(peer) + " puts"};
      std::string text = memory_[rank].check_output();
      if (text.empty() && shape_.collective == Collective::all_reduce)
        text = memory_[rank].check_bits(memory_[0]);
      if (!text.empty())
        return Error{Code::invalid_argument, "rank " + std::to_string(rank) + ": " + text};
    }
    return {};
  }

  const Shape& shape_;
  const std::vector<Program>& programs_;
  std::vector<std::optional<Message>> links_;
  std::vector<SymbolicMemory> memory_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<std::deque<size_t>>> order_;
};

bool is_small_enough(const Shape& shape, const std::vector<Program>& programs) {
  uint64_t elements = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank)
    for (const uint64_t more :
         {input_size(shape, rank), output_size(shape, rank), programs[rank].work}) {
      if (more > kMaxVerifiedElements - elements) return false;
      elements += more;
    }
  return true;
}

}  // namespace

std::optional<StepAt> step_of(const Error& error) {
  StepAt at;
  const int found = std::sscanf(error.message.c_str(), kStepFormat, &at.rank, &at.step);
  return found == 2 ? std::optional(at) : std::nullopt;
}

Result<void> verify(const Shape& shape, const std::vector<Program>& programs) {
  if (programs.size() != shape.ranks || shape.ranks > kMaxVerifiedRanks)
    return Error{Code::invalid_argument, "a schedule has a program for each of at most " +
                                             std::to_string(kMaxVerifiedRanks) + " ranks"};
  if (!is_small_enough(shape, programs))
    return Error{Code::invalid_argument, "not proven: that is for at most " +
                                             std::to_string(kMaxVerifiedElements) +
                                             " elements in all buffers of all ranks"};
  for (uint32_t rank = 0; rank < shape.ranks; ++rank)
    if (Result<void> checked = check_program(shape, rank, programs[rank]); !checked) return checked;
  if (Result<void> done = Execution(shape, programs).run(false); !done || !shape.any_order)
    return done;
  return Execution(shape, programs).run(true);
}

}  // namespace weft::collective
