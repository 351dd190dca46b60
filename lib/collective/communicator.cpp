// SPDX-License-Identifier: BSD-3-Clause
// The public calls: arguments are checked and become tasks.
#include <sched.h>

#include <algorithm>

#include "lib/base/clock.hpp"
#include "lib/collective/choose.hpp"
#include "lib/collective/team.hpp"
#include "weft/collective.hpp"

namespace weft {

using collective::Algorithm;
using collective::Builder;
using collective::RegisteredPtr;
using collective::Shape;
using collective::Task;
using collective::TaskPtr;
using collective::Team;

namespace {

// What a program says in a call.
struct Arguments {
  Collective collective = Collective::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  uint32_t root = 0;
};

Error invalid(Collective collective, const std::string& text) {
  return {Code::invalid_argument, std::string(name(collective)) + ": " + text};
}

struct Extent {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Extent(const void* memory, size_t size)
      : begin(reinterpret_cast<uintptr_t>(memory)), bytes(size) {}
  bool overlaps(const Extent& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

// Whether the buffers lie as in-place buffers do; an error for other overlaps.
Result<bool> in_place(const Arguments& arguments, const Shape& shape, uint32_t rank) {
  const size_t width = size_of(arguments.type);
  const Extent in(arguments.input, collective::input_size(shape, rank) * width);
  const Extent out(arguments.output, collective::output_size(shape, rank) * width);
  if (in.bytes == 0 || out.bytes == 0 || !in.overlaps(out)) return false;
  const size_t own = shape.count * rank * width;
  bool placed = in.begin == out.begin;
  if (arguments.collective == Collective::all_gather) placed = in.begin == out.begin + own;
  if (arguments.collective == Collective::reduce_scatter) placed = out.begin == in.begin + own;
  if (placed) return true;
  return invalid(arguments.collective,
                 "input and output overlap; in place, the smaller one lies where its elements "
                 "have their place in the other");
}

Result<void> check(const Arguments& arguments, const Shape& shape, uint32_t rank) {
  const size_t limit = SIZE_MAX / 16 / shape.ranks;
  if (arguments.count > limit) return invalid(arguments.collective, "the count is too large");
  if (arguments.root >= shape.ranks)
    return invalid(arguments.collective, "root " + std::to_string(arguments.root) + " of " +
                                             std::to_string(shape.ranks) + " ranks");
  if (arguments.input == nullptr && collective::input_size(shape, rank) > 0)
    return invalid(arguments.collective, "the input is null");
  if (arguments.output == nullptr && collective::output_size(shape, rank) > 0)
    return invalid(arguments.collective, "the output is null");
  return {};
}

Result<const Algorithm*> algorithm_for(const Arguments& arguments, const Shape& shape,
                                       std::string_view wanted, Numerics numerics) {
  const uint64_t elements = std::max(shape.count, collective::input_size(shape, shape.root));
  if (wanted.empty())
    return &collective::choose(arguments.collective, shape.ranks,
                               elements * size_of(arguments.type), numerics);
  Result<const Algorithm*> found =
      collective::find_algorithm(wanted, arguments.collective, shape.ranks);
  if (found && numerics == Numerics::any && !collective::adds_in_rank_order(**found))
    return Error{Code::not_supported, std::string(wanted) +
                                          " does not add in the order of ranks, which "
                                          "Numerics::any promises: use direct"};
  return found;
}

// Elements per piece, so that a piece of accumulators fits a slot.
uint64_t piece_of(const collective::Arithmetic& arithmetic, uint32_t slot_bytes) {
  return slot_bytes / std::max(arithmetic.element, arithmetic.accumulator);
}

Result<TaskPtr> make_task(Team& team, const Arguments& arguments, const CallOptions& options) {
  const uint32_t rank = team.mesh().rank;
  const TaskPtr task = std::make_shared<Task>();
  task->arithmetic = collective::arithmetic_of(arguments.type, arguments.op);
  const bool reduces = collective::reduces(arguments.collective);
  Shape shape{.collective = arguments.collective,
              .ranks = team.mesh().ranks,
              .root = arguments.root,
              .count = arguments.count,
              .exact = task->arithmetic.exact || !reduces,
              .average = reduces && arguments.op == ReduceOp::avg};
  if (!reduces) task->arithmetic.accumulator = task->arithmetic.element;
  shape.piece = piece_of(task->arithmetic, team.options().slot_bytes);
  if (Result<void> checked = check(arguments, shape, rank); !checked) return checked.error();
  Result<bool> placed = in_place(arguments, shape, rank);
  if (!placed) return placed.error();
  shape.in_place = *placed;
  Result<const Algorithm*> algorithm =
      algorithm_for(arguments, shape, options.algorithm, team.options().numerics);
  if (!algorithm) return algorithm.error();
  task->algorithm = (*algorithm)->name;
  task->plan = team.plans().find(**algorithm, shape, rank);

  const size_t width = size_of(arguments.type);
  task->input = static_cast<std::byte*>(const_cast<void*>(arguments.input));
  task->output = static_cast<std::byte*>(arguments.output);
  for (const auto& [memory, elements] :
       {std::pair(task->input, collective::input_size(shape, rank)),
        std::pair(task->output, collective::output_size(shape, rank))}) {
    Result<RegisteredPtr> registered = team.register_memory(memory, elements * width);
    if (!registered) return registered.error();
    task->registered.push_back(*registered);
  }
  Result<RegisteredPtr> work =
      team.work_space(task->plan->program.work * task->arithmetic.accumulator);
  if (!work) return work.error();
  task->work = *work;
  task->call = {team.next_sequence(),
                arguments.count,
                arguments.root,
                arguments.collective,
                arguments.type,
                arguments.op,
                static_cast<uint8_t>(*algorithm - collective::algorithms().data())};
  task->limit = options.limit.ps > 0 ? options.limit : team.options().limit;
  return task;
}

Result<TaskPtr> make_exchange(Team& team, std::span<const Transfer> transfers,
                              const CallOptions& options) {
  const uint32_t ranks = team.mesh().ranks, rank = team.mesh().rank;
  const TaskPtr task = std::make_shared<Task>();
  task->arithmetic = collective::arithmetic_of(DataType::uint8, ReduceOp::sum);
  const Shape shape{
      .collective = Collective::exchange, .ranks = ranks, .piece = team.options().slot_bytes};
  Builder builder(shape, rank);  // its ranges are addresses
  for (const Transfer& t : transfers) {
    if (t.peer >= ranks || t.peer == rank)
      return invalid(Collective::exchange, "no such peer: rank " + std::to_string(t.peer));
    if ((t.send == nullptr && t.send_bytes > 0) || (t.receive == nullptr && t.receive_bytes > 0))
      return invalid(Collective::exchange, "a buffer is null");
    const collective::Range source =
        collective::output(reinterpret_cast<uintptr_t>(t.send), t.send_bytes);
    const collective::Range target =
        collective::output(reinterpret_cast<uintptr_t>(t.receive), t.receive_bytes);
    builder.put(t.peer, source);
    builder.receive(t.peer, target);
    Result<RegisteredPtr> registered = team.register_memory(t.send, t.send_bytes);
    if (!registered) return registered.error();
    task->registered.push_back(*registered);
  }
  task->plan = collective::make_plan(shape, builder.take());
  task->algorithm = "direct";
  task->call.collective = Collective::exchange;
  task->limit = options.limit.ps > 0 ? options.limit : team.options().limit;
  return task;
}

TaskPtr failed(Error error) {
  const TaskPtr task = std::make_shared<Task>();
  task->done = true;
  task->error = std::move(error);
  return task;
}

TaskPtr issue(Team& team, Result<TaskPtr> task) {
  if (!task) return failed(task.error());
  team.issue(*task);
  return *task;
}

}  // namespace

// ---- operations
// ----------------------------------------------------------------------------------

Result<bool> Operation::test() {
  if (!task_->done) team_->progress();
  if (task_->error) return *task_->error;
  return task_->done;
}

// Spins while steps get done and a little longer, then lets others have the processor, then sleeps.
Result<void> Operation::wait() {
  constexpr Duration kSpin = Duration::from_us(20), kYield = Duration::from_us(200);
  const base::Clock& clock = base::Clock::process();
  Instant moved = clock.now();
  for (uint64_t steps = team_->steps_done(); !task_->done;) {
    team_->progress();
    if (task_->done) break;
    const Instant now = clock.now();
    if (steps != team_->steps_done()) moved = now;
    steps = team_->steps_done();
    const Duration idle = now - moved;
    if (idle < kSpin) continue;
    if (idle < kYield)
      sched_yield();
    else
      team_->sleep();
  }
  if (task_->error) return *task_->error;
  return {};
}

std::string_view Operation::algorithm() const noexcept { return task_->algorithm; }

// ---- communicators
// -------------------------------------------------------------------------------

Result<Communicator> Communicator::create(Store& store, uint32_t rank, uint32_t ranks,
                                          const CommunicatorOptions& options) {
  if (rank >= ranks)
    return Error{Code::invalid_argument,
                 "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " ranks"};
  if (options.slots < 2 || options.slots > 1024 || options.slot_bytes == 0 ||
      options.slot_bytes % 64 != 0 || options.slot_bytes > 1024 * 1024)
    return Error{Code::invalid_argument,
                 "slots: 2 to 1024 of them, of a multiple of 64 bytes up to 1 MiB"};
  Result<collective::Mesh> mesh =
      collective::Mesh::connect(store, rank, ranks,
                                {.device = options.device,
                                 .name = options.name,
                                 .shape = {options.slots, options.slot_bytes},
                                 .connect_limit = options.connect_limit,
                                 .patience = options.patience});
  if (!mesh) return mesh.error();
  return Communicator(std::make_shared<Team>(std::move(*mesh), options));
}

Communicator::Communicator(std::shared_ptr<Team> team) : team_(std::move(team)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(team_, other.team_);
  return *this;
}
Communicator::~Communicator() {
  if (team_) team_->leave();
}

uint32_t Communicator::rank() const noexcept { return team_->mesh().rank; }
uint32_t Communicator::size() const noexcept { return team_->mesh().ranks; }
void Communicator::progress() noexcept { team_->progress(); }
std::optional<Failure> Communicator::failure() const { return team_->failure(); }

Operation Communicator::all_reduce(const void* input, void* output, size_t count, DataType type,
                                   ReduceOp op, const CallOptions& options) {
  return {team_,
          issue(*team_, make_task(*team_, {Collective::all_reduce, input, output, count, type, op},
                                  options))};
}

Operation Communicator::reduce_scatter(const void* input, void* output, size_t count, DataType type,
                                       ReduceOp op, const CallOptions& options) {
  return {
      team_,
      issue(*team_, make_task(*team_, {Collective::reduce_scatter, input, output, count, type, op},
                              options))};
}

Operation Communicator::all_gather(const void* input, void* output, size_t count, DataType type,
                                   const CallOptions& options) {
  return {team_,
          issue(*team_,
                make_task(*team_, {Collective::all_gather, input, output, count, type}, options))};
}

Operation Communicator::broadcast(const void* input, void* output, size_t count, DataType type,
                                  uint32_t root, const CallOptions& options) {
  return {team_, issue(*team_, make_task(*team_,
                                         {Collective::broadcast, input, output, count, type,
                                          ReduceOp::sum, root},
                                         options))};
}

Operation Communicator::reduce(const void* input, void* output, size_t count, DataType type,
                               ReduceOp op, uint32_t root, const CallOptions& options) {
  return {team_, issue(*team_,
                       make_task(*team_, {Collective::reduce, input, output, count, type, op, root},
                                 options))};
}

Operation Communicator::all_to_all(const void* input, void* output, size_t count, DataType type,
                                   const CallOptions& options) {
  return {team_,
          issue(*team_,
                make_task(*team_, {Collective::all_to_all, input, output, count, type}, options))};
}

// An all-reduce of one byte, whose value nobody looks at.
Operation Communicator::barrier(const CallOptions& options) {
  static constexpr uint8_t kInput = 0;
  static thread_local uint8_t output;
  Result<TaskPtr> task =
      make_task(*team_, {Collective::all_reduce, &kInput, &output, 1, DataType::uint8}, options);
  if (task) (*task)->call.collective = Collective::barrier;
  return {team_, issue(*team_, std::move(task))};
}

Operation Communicator::exchange(std::span<const Transfer> transfers, const CallOptions& options) {
  return {team_, issue(*team_, make_exchange(*team_, transfers, options))};
}

Operation Communicator::send(const void* data, size_t bytes, uint32_t peer,
                             const CallOptions& options) {
  const Transfer transfer{.peer = peer, .send = data, .send_bytes = bytes};
  return exchange({&transfer, 1}, options);
}

Operation Communicator::receive(void* data, size_t bytes, uint32_t peer,
                                const CallOptions& options) {
  const Transfer transfer{.peer = peer, .receive = data, .receive_bytes = bytes};
  return exchange({&transfer, 1}, options);
}

}  // namespace weft
