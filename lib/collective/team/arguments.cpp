// SPDX-License-Identifier: BSD-3-Clause
// Validation of arguments, choice of the algorithm, and tasks.
#include "lib/collective/team/arguments.hpp"

#include <algorithm>

#include "lib/collective/plan/choose.hpp"

namespace weft::collective {
namespace {

struct Extent {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Extent(const void* memory, size_t size)
      : begin(reinterpret_cast<uintptr_t>(memory)), bytes(size) {}
  bool overlaps(const Extent& other) const {
    return begin < other.begin ? other.begin - begin < bytes : begin - other.begin < other.bytes;
  }
};

// Operations whose input and output have a common layout.
bool may_be_in_place(Collective collective) {
  return !has_blocks(collective) || gathers(collective) || scatters(collective);
}

// Whether the buffers overlap as in-place buffers do; an error for other overlaps.
Result<bool> in_place(const Arguments& arguments, const Shape& shape, uint32_t rank) {
  const size_t width = size_of(arguments.type);
  const Extent in(arguments.input, input_size(shape, rank) * width);
  const Extent out(arguments.output, output_size(shape, rank) * width);
  if (in.bytes == 0 || out.bytes == 0 || !in.overlaps(out)) return false;
  if (!may_be_in_place(arguments.collective))
    return invalid(arguments.collective, "input and output overlap, which it does not support");
  bool placed = in.begin == out.begin;
  if (gathers(arguments.collective))
    placed = in.begin == out.begin + rank_block(shape, rank).offset * width;
  if (scatters(arguments.collective))
    placed = out.begin == in.begin + rank_block(shape, rank).offset * width;
  if (placed) return true;
  return invalid(arguments.collective,
                 "input and output overlap; for an in-place call the smaller buffer must be the "
                 "part of the larger one that its elements have there");
}

// No sum of counts may overflow.
bool fits_memory(const Arguments& arguments, uint32_t ranks) {
  const size_t most = kMostBytes / size_of(arguments.type);
  if (arguments.count > most / ranks || arguments.blocks.stride > most / arguments.blocks.parts)
    return false;
  size_t left = most;
  for (const uint64_t count : arguments.blocks.counts) {
    if (count > left) return false;
    left -= count;
  }
  return true;
}

Result<void> check(const Arguments& arguments, const Shape& shape, uint32_t rank) {
  if (!fits_memory(arguments, shape.ranks))
    return invalid(arguments.collective, "the count is too large");
  if (arguments.root >= shape.ranks)
    return invalid(arguments.collective, "root " + std::to_string(arguments.root) + " of " +
                                             std::to_string(shape.ranks) + " ranks");
  if (arguments.input == nullptr && input_size(shape, rank) > 0)
    return invalid(arguments.collective, "the input is null");
  if (arguments.output == nullptr && output_size(shape, rank) > 0)
    return invalid(arguments.collective, "the output is null");
  return {};
}

// The size by which an algorithm is chosen, the same on all ranks: bytes of the larger buffer; for
// gathers, of a rank's block, or of the average block.
uint64_t bytes_of(const Arguments& arguments, uint32_t ranks) {
  uint64_t elements = arguments.count;
  switch (arguments.collective) {
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      elements *= ranks;
      break;
    case Collective::all_gather_v:
    case Collective::reduce_scatter_v:
      for (const uint64_t count : arguments.blocks.counts) elements += count;
      if (gathers(arguments.collective)) elements /= ranks;
      break;
    default:
      break;
  }
  return elements * size_of(arguments.type);
}

CostQuery cost_query_of(const Team& team, const Arguments& arguments,
                        const Arithmetic& arithmetic) {
  const bool reduction = reduces(arguments.collective);
  return {.collective = arguments.collective,
          .count = arguments.count,
          .element = static_cast<double>(arithmetic.element),
          .accumulator = static_cast<double>(arithmetic.accumulator),
          .exact = arithmetic.exact || !reduction,
          .rank_order = reduction && team.options().numerics == Numerics::any};
}

Choice choose_algorithm(Team& team, const Arguments& arguments, const Arithmetic& arithmetic) {
  const Numerics numerics = team.options().numerics;
  const uint32_t ranks = team.ranks();
  const bool by_rack = arguments.collective == Collective::dispatch ||
                       (arguments.collective == Collective::combine && numerics != Numerics::any);
  if (by_rack && team.selector() != nullptr && team.selector()->topology().racks > 1)
    return {*find_algorithm("racks", arguments.collective, ranks), 0};
  if (team.selector() == nullptr || has_blocks(arguments.collective))
    return {&choose(arguments.collective, ranks, bytes_of(arguments, ranks), arithmetic.exact,
                    numerics),
            0};
  return team.selector()->choose(cost_query_of(team, arguments, arithmetic));
}

Result<Choice> algorithm_for(Team& team, const Arguments& arguments, const Arithmetic& arithmetic,
                             std::string_view wanted) {
  if (wanted.empty()) return choose_algorithm(team, arguments, arithmetic);
  Result<const Algorithm*> found = find_algorithm(wanted, arguments.collective, team.ranks());
  if (!found) return found.error();
  if (team.options().numerics == Numerics::any && !adds_in_rank_order(**found))
    return Error{Code::not_supported, std::string(wanted) +
                                          " does not reduce in the order of ranks, which "
                                          "Numerics::any requires: use direct"};
  if (team.selector() == nullptr || has_blocks(arguments.collective) ||
      (*found)->traits.over_forest || (*found)->source != nullptr)
    return Choice{*found, 0};
  return Choice{*found, team.selector()->corrected_seconds(
                            **found, cost_query_of(team, arguments, arithmetic))};
}

Result<uint8_t> class_for(const Team& team, const CallOptions& options) {
  const uint32_t wanted = options.traffic_class.value_or(team.options().traffic_class);
  if (team.runner().lanes().has_class(wanted)) return static_cast<uint8_t>(wanted);
  return Error{Code::invalid_argument, "this communicator has no traffic class " +
                                           std::to_string(wanted) +
                                           ": name it in CommunicatorOptions::more_classes"};
}

// Distinguishes calls whose counts differ but have the same sum. 0 where counts are known to pairs
// of ranks only.
uint64_t fingerprint(const Arguments& arguments) {
  if (!gathers(arguments.collective) && !scatters(arguments.collective)) return 0;
  uint64_t mixed = 0;
  for (const uint64_t count : arguments.blocks.counts)
    mixed = (mixed ^ count) * 0x9E3779B97F4A7C15 + (mixed >> 29);
  return mixed;
}

uint64_t total(const Arguments& arguments) {
  uint64_t elements = arguments.count;
  if (gathers(arguments.collective) || scatters(arguments.collective))
    for (const uint64_t count : arguments.blocks.counts) elements += count;
  return elements;
}

// Plans that can be reused are cached; counts between pairs of ranks are new in each call.
std::shared_ptr<const Plan> plan_for(Team& team, const Algorithm& algorithm, const Shape& shape) {
  const uint32_t rank = team.rank();
  if (may_be_in_place(shape.collective)) return team.planning().plans.find(algorithm, shape, rank);
  return make_plan(shape, program_of(algorithm, shape, rank));
}

Duration limit_of(const Team& team, const CallOptions& options) {
  return options.limit.ps > 0 ? options.limit : team.options().limit;
}

Result<TaskPtr> task_from(Team& team, const Recipe& recipe) {
  TaskPtr task = std::make_shared<Task>(recipe);
  task->call.sequence = team.next_sequence();
  if (Result<void> ready = register_memory(team, *task); !ready) return ready.error();
  return task;
}

// Reuses the task of the call before if no operation handle holds it and it has succeeded.
Result<TaskPtr> task_from(Team& team, RecipeBook::Page& page) {
  if (!page.recipe.small) return task_from(team, page.recipe);
  TaskPtr& task = page.task;
  if (task && task.use_count() == 1 && task->done && !task->error) {
    task->done = false;
    task->took = {};
    task->call.sequence = team.next_sequence();
    return task;
  }
  Result<TaskPtr> made = task_from(team, page.recipe);
  if (made) task = *made;
  return made;
}

RecipeBook::Key key_of(const Team& team, const Arguments& arguments, const CallOptions& options) {
  return {.call = {.count = arguments.count,
                   .root = arguments.root,
                   .collective = arguments.collective,
                   .type = arguments.type,
                   .op = arguments.op},
          .traffic_class = options.traffic_class.value_or(team.options().traffic_class),
          .input = arguments.input,
          .output = arguments.output,
          .limit = limit_of(team, options),
          .wanted = options.algorithm};
}

}  // namespace

Result<void> check_apart(Collective collective, const void* input, size_t input_bytes,
                         const void* output, size_t output_bytes) {
  if (input == nullptr && input_bytes > 0) return invalid(collective, "the input is null");
  if (output == nullptr && output_bytes > 0) return invalid(collective, "the output is null");
  if (input_bytes == 0 || output_bytes == 0) return {};
  if (!Extent(input, input_bytes).overlaps(Extent(output, output_bytes))) return {};
  return invalid(collective, "input and output overlap, which it does not support");
}

Error invalid(Collective collective, const std::string& text) {
  return {Code::invalid_argument, std::string(name(collective)) + ": " + text};
}

Result<TaskPtr> new_task(Team& team, const Arguments& arguments, const CallOptions& options,
                         uint64_t sequence) {
  const TaskPtr task = std::make_shared<Task>();
  task->arithmetic = arithmetic_of(arguments.type, arguments.op);
  if (!reduces(arguments.collective)) task->arithmetic.accumulator = task->arithmetic.element;
  if (!fits_memory(arguments, team.ranks()))
    return invalid(arguments.collective, "the count is too large");
  const size_t widest = std::max(task->arithmetic.element, task->arithmetic.accumulator);
  if (widest > team.options().slot_bytes)
    return invalid(arguments.collective, "an element of " + std::string(name(arguments.type)) +
                                             " does not fit a slot: slot_bytes must be " +
                                             std::to_string(widest) + " or more");
  Result<uint8_t> traffic_class = class_for(team, options);
  if (!traffic_class) return traffic_class.error();
  Result<Choice> choice = algorithm_for(team, arguments, task->arithmetic, options.algorithm);
  if (!choice) return choice.error();
  task->algorithm = choice->algorithm;
  task->predicted = Duration::from_ns(static_cast<int64_t>(choice->seconds * 1e9));
  task->call = {sequence,
                total(arguments),
                fingerprint(arguments),
                arguments.root,
                arguments.collective,
                arguments.type,
                arguments.op,
                static_cast<uint8_t>(choice->algorithm - algorithms().data()),
                *traffic_class};
  if (Selector* const selector = team.selector())
    task->learned = selector->correction().factor(task->call.algorithm, bytes_of(task->call));
  task->limit = limit_of(team, options);
  return task;
}

Result<void> plan_task(Team& team, Task& task, const Arguments& arguments) {
  const uint32_t rank = team.rank();
  const Arithmetic& arithmetic = task.arithmetic;
  const bool reduction = reduces(arguments.collective);
  Shape shape{.collective = arguments.collective,
              .ranks = team.ranks(),
              .root = arguments.root,
              .count = arguments.count,
              .exact = arithmetic.exact || !reduction,
              .average = reduction && arguments.op == ReduceOp::avg,
              .any_order = reduction && team.options().numerics == Numerics::fast,
              .blocks = arguments.blocks};
  if (Selector* const selector = team.selector()) {
    shape.dimensions = selector->topology().dimensions;
    if (task.algorithm->traits.over_forest)
      shape.forest = selector->forests().of(shape.collective, shape.root);
    if (shape.forest != nullptr) task.call.blocks ^= shape.forest->fingerprint;
  }
  // A piece of accumulators fits a slot.
  shape.piece = team.options().slot_bytes / std::max(arithmetic.element, arithmetic.accumulator);
  if (Result<void> checked = check(arguments, shape, rank); !checked) return checked;
  Result<bool> placed = in_place(arguments, shape, rank);
  if (!placed) return placed.error();
  shape.in_place = *placed;
  if (const Result<void> able = fits(*task.algorithm, shape); !able) return able;
  if (task.algorithm->source != nullptr) task.call.blocks ^= task.algorithm->source->fingerprint();
  task.plan = plan_for(team, *task.algorithm, shape);

  task.input = static_cast<std::byte*>(const_cast<void*>(arguments.input));
  task.output = static_cast<std::byte*>(arguments.output);
  const uint64_t longest = std::max(input_size(shape, rank), output_size(shape, rank));
  task.small = longest * arithmetic.element <= kCopyLimit && task.plan->program.work == 0;
  return register_memory(team, task);
}

Result<TaskPtr> repeat_task(Team& team, const Task& earlier) {
  const Collective collective = earlier.call.collective;
  if (!earlier.done || earlier.error)
    return Error{Code::bad_state,
                 "only an operation that has ended without an error can be repeated"};
  if (earlier.call.sequence == 0 || earlier.prepare || has_blocks(collective))
    return Error{Code::not_supported, std::string(name(collective)) +
                                          " cannot be repeated: its counts may change; call it"};
  return task_from(team, earlier);
}

Result<TaskPtr> make_task(Team& team, const Arguments& arguments, const CallOptions& options) {
  const bool kept = !has_blocks(arguments.collective);
  const RecipeBook::Key key = key_of(team, arguments, options);
  if (RecipeBook::Page* const page = kept ? team.planning().recipes.find(key) : nullptr)
    return task_from(team, *page);
  Result<TaskPtr> task = new_task(team, arguments, options, team.next_sequence());
  if (!task) return task;
  if (Result<void> ready = plan_task(team, **task, arguments); !ready) return ready.error();
  if (kept) team.planning().recipes.keep(key, **task);
  return task;
}

// An all-reduce of one byte, whose value is not used.
Result<TaskPtr> make_barrier(Team& team, const CallOptions& options) {
  static constexpr uint8_t kInput = 0;
  Result<TaskPtr> task = make_task(
      team, {Collective::all_reduce, &kInput, &team.planning().barrier_result, 1, DataType::uint8},
      options);
  if (task) (*task)->call.collective = Collective::barrier;
  return task;
}

// Sends of a rank to itself are matched with its receives from itself, in order, within the call.
Result<void> copy_own(Builder& builder, std::span<const Transfer> transfers) {
  const auto refuse = [](const std::string& text) { return invalid(Collective::exchange, text); };
  std::vector<Transfer> sends, receives;
  for (const Transfer& t : transfers) {
    if (t.peer == builder.rank() && t.send_bytes > 0) sends.push_back(t);
    if (t.peer == builder.rank() && t.receive_bytes > 0) receives.push_back(t);
  }
  if (sends.size() != receives.size())
    return refuse(
        "a rank that sends to itself receives from itself in the same call: this call has " +
        std::to_string(sends.size()) + " sends and " + std::to_string(receives.size()) +
        " receives of rank " + std::to_string(builder.rank()));
  for (size_t i = 0; i < sends.size(); ++i) {
    const Transfer &from = sends[i], &to = receives[i];
    if (from.send_bytes != to.receive_bytes)
      return refuse("this rank sends " + std::to_string(from.send_bytes) +
                    " bytes to itself, and receives " + std::to_string(to.receive_bytes));
    if (from.send != to.receive &&
        Extent(from.send, from.send_bytes).overlaps(Extent(to.receive, to.receive_bytes)))
      return refuse(
          "the send buffer of a transfer to the own rank overlaps its receive buffer: use the same "
          "address or separate memory");
    builder.copy(output(reinterpret_cast<uintptr_t>(from.send), from.send_bytes),
                 output(reinterpret_cast<uintptr_t>(to.receive), to.receive_bytes));
  }
  return {};
}

Result<TaskPtr> make_exchange(Team& team, std::span<const Transfer> transfers,
                              const CallOptions& options) {
  const uint32_t ranks = team.ranks(), rank = team.rank();
  const TaskPtr task = std::make_shared<Task>();
  Result<uint8_t> traffic_class = class_for(team, options);
  if (!traffic_class) return traffic_class.error();
  task->call.traffic_class = *traffic_class;
  task->arithmetic = arithmetic_of(DataType::uint8, ReduceOp::sum);
  const Shape shape{
      .collective = Collective::exchange, .ranks = ranks, .piece = team.options().slot_bytes};
  Builder builder(shape, rank);  // ranges of exchanges are addresses
  for (const Transfer& t : transfers) {
    if (t.peer >= ranks)
      return invalid(Collective::exchange, "no such peer: rank " + std::to_string(t.peer));
    if ((t.send == nullptr && t.send_bytes > 0) || (t.receive == nullptr && t.receive_bytes > 0))
      return invalid(Collective::exchange, "a buffer is null");
    if (t.peer == rank) continue;
    const Range source = output(reinterpret_cast<uintptr_t>(t.send), t.send_bytes);
    const Range target = output(reinterpret_cast<uintptr_t>(t.receive), t.receive_bytes);
    builder.put(t.peer, source);
    builder.receive(t.peer, target);
    Result<RegisteredPtr> registered = register_buffer(team, t.send, t.send_bytes, false);
    if (!registered) return registered.error();
    task->registered.push_back(*registered);
  }
  if (Result<void> copied = copy_own(builder, transfers); !copied) return copied.error();
  task->plan = make_plan(shape, builder.take_program());
  task->algorithm = nullptr;
  task->call.collective = Collective::exchange;
  task->limit = limit_of(team, options);
  return task;
}

}  // namespace weft::collective
