// SPDX-License-Identifier: BSD-3-Clause
// The public calls.
#include "lib/base/clock.hpp"
#include "lib/collective/moe/moe.hpp"
#include "lib/collective/team/displaced.hpp"
#include "lib/collective/team/dump.hpp"
#include "lib/collective/team/regroup.hpp"
#include "lib/collective/team/waiting.hpp"
#include "weft/collective.hpp"

namespace weft {

using collective::Arguments;
using collective::make_barrier;
using collective::make_exchange;
using collective::make_task;
using collective::Task;
using collective::TaskPtr;
using collective::Team;

namespace {

TaskPtr failed(Error error) {
  const TaskPtr task = std::make_shared<Task>();
  task->done = true;
  task->error = std::move(error);
  return task;
}

TaskPtr issue(Team& team, Result<TaskPtr> made) {
  if (!made) return failed(made.error());
  TaskPtr task = *std::move(made);
  team.issue(task);
  return task;
}

TaskPtr issued(const Result<TaskPtr>& task) { return task ? *task : failed(task.error()); }

Error wrong_counts(Collective collective) {
  return collective::invalid(collective, "counts have one entry for each rank");
}

TaskPtr issue_v(Team& team, Arguments arguments, std::span<const size_t> counts,
                const CallOptions& options) {
  if (counts.size() != team.ranks()) return failed(wrong_counts(arguments.collective));
  arguments.blocks.counts.assign(counts.begin(), counts.end());
  return issue(team, make_task(team, arguments, options));
}

}  // namespace

// ---- operations
// ----------------------------------------------------------------------------------

Result<bool> Operation::test() {
  const Operation kept = *this;  // a callback may assign another call to this handle
  if (!kept.task_->done) kept.team_->progress();
  kept.team_->runner().callbacks().run();
  if (kept.task_->error) return *kept.task_->error;
  return kept.task_->done;
}

Result<void> Operation::wait() {
  if (!team_->runner().callbacks().any()) return collective::wait(*team_, *task_);
  const Operation kept = *this;
  return collective::wait(*kept.team_, *kept.task_);
}

Result<bool> Operation::wait_for(Duration limit) {
  const Operation kept = *this;
  collective::wait_until(*kept.team_, *kept.task_, base::Clock::process().now() + limit);
  kept.team_->runner().callbacks().run();
  if (kept.task_->error) return *kept.task_->error;
  return kept.task_->done;
}

bool Operation::done() const noexcept { return task_->done; }

void Operation::then(std::function<void(const Result<void>&)> callback) {
  const Operation kept = *this;
  kept.team_->runner().callbacks().add(kept.task_, std::move(callback));
}

Result<void> Operation::cancel(std::string_view reason) { return team_->cancel(*task_, reason); }

std::string_view Operation::algorithm() const noexcept {
  if (task_->algorithm != nullptr) return task_->algorithm->name;
  return task_->plan ? "direct" : "";
}

Duration Operation::predicted() const noexcept { return task_->predicted; }
Duration Operation::took() const noexcept { return task_->took; }

// ---- communicators
// -------------------------------------------------------------------------------

Result<Communicator> Communicator::create(Store& store, uint32_t rank, uint32_t ranks,
                                          const CommunicatorOptions& options) {
  if (rank >= ranks)
    return Error{Code::invalid_argument, "rank " + std::to_string(rank) + " of " +
                                             std::to_string(ranks) + " ranks: rank must be lower"};
  for (const uint32_t traffic_class : collective::classes_of(options))
    if (traffic_class >= kTrafficClasses)
      return Error{Code::invalid_argument, "traffic class " + std::to_string(traffic_class) +
                                               ": traffic_class and more_classes must be 0 to 3"};
  Result<std::shared_ptr<Team>> team =
      collective::create_team(store, rank, ranks, options, options.connect_limit, options.device);
  if (!team) return team.error();
  return Communicator(std::move(*team));
}

Result<Communicator> Communicator::split(Store& store, int64_t colour, int64_t key) {
  const int64_t own[] = {colour, key};
  std::vector<int64_t> all(2 * size()), colours, keys;
  if (Result<void> gathered = all_gather(own, all.data(), 2, DataType::int64).wait(); !gathered)
    return gathered.error();
  for (uint32_t r = 0; r < size(); ++r) {
    colours.push_back(all[2 * r]);
    keys.push_back(all[2 * r + 1]);
  }
  Result<std::shared_ptr<Team>> team = collective::split(*team_, store, colours, keys);
  if (!team) return team.error();
  return Communicator(std::move(*team));
}

Result<Communicator> Communicator::shrink(Store& store, Duration patience) {
  Result<std::shared_ptr<Team>> team = collective::shrink(*team_, store, patience);
  if (!team) return team.error();
  return Communicator(std::move(*team));
}

Result<Communicator> Communicator::grow(Store& store, uint32_t ranks, const std::string& name) {
  if (ranks < size())
    return Error{Code::invalid_argument, "cannot grow from " + std::to_string(size()) + " to " +
                                             std::to_string(ranks) + " ranks"};
  // Connecting makes no progress in this group: no rank starts while another waits in a call.
  if (Result<void> synchronized = barrier().wait(); !synchronized) return synchronized.error();
  Result<std::shared_ptr<Team>> team = collective::grow(*team_, store, ranks, name);
  if (!team) return team.error();
  return Communicator(std::move(*team));
}

Result<void> Communicator::learn() {
  if (team_->selector() == nullptr)
    return Error{
        Code::not_supported,
        "algorithms are chosen by size: name the network in CommunicatorOptions::topology"};
  collective::ModelCorrection& learned = team_->selector()->correction();
  std::vector<int64_t> ratios = learned.measured();
  const Result<void> shared =
      all_reduce(ratios.data(), ratios.data(), ratios.size(), DataType::int64, ReduceOp::max)
          .wait();
  if (!shared) return shared;
  learned.apply(ratios);
  team_->planning().recipes.clear();
  return shared;
}

Result<Registration> Communicator::register_memory(void* memory, size_t bytes) {
  Result<std::shared_ptr<collective::Registered>> registered = team_->memory().add(memory, bytes);
  if (!registered) return registered.error();
  return Registration(std::move(*registered));
}

void Communicator::forget(const void* memory, size_t bytes) noexcept {
  team_->memory().forget(memory, bytes);
}

void Communicator::revoke(std::string_view reason) noexcept {
  std::string text = "rank " + std::to_string(rank()) + " has revoked the communicator";
  if (!reason.empty()) text += ": " + std::string(reason);
  team_->fail({.code = Code::bad_state,
               .rank = rank(),
               .call = team_->runner().lanes().current_call(),
               .reason = text});
}
bool Communicator::arm() noexcept { return team_->arm(); }
int Communicator::fd() const noexcept { return team_->connections().cq.fd(); }

std::string Communicator::trace() const { return team_->runner().trace().to_json(rank()); }
std::string Communicator::dump() const { return collective::dump(*team_); }
std::string Communicator::prometheus() const { return collective::prometheus(*team_); }

std::span<const uint32_t> Communicator::members() const noexcept {
  return team_->lineage().members;
}
std::span<const uint32_t> Communicator::origins() const noexcept {
  return team_->lineage().origins;
}

Communicator::Communicator(std::shared_ptr<Team> team) : team_(std::move(team)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(team_, other.team_);
  return *this;
}
Communicator::~Communicator() {
  if (team_) collective::leave(*team_);
}

uint32_t Communicator::rank() const noexcept { return team_->rank(); }
uint32_t Communicator::size() const noexcept { return team_->ranks(); }
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

Operation Communicator::all_gather_v(const void* input, void* output,
                                     std::span<const size_t> counts, DataType type,
                                     const CallOptions& options) {
  return {team_,
          issue_v(*team_, {Collective::all_gather_v, input, output, 0, type}, counts, options)};
}

Operation Communicator::reduce_scatter_v(const void* input, void* output,
                                         std::span<const size_t> counts, DataType type, ReduceOp op,
                                         const CallOptions& options) {
  return {team_, issue_v(*team_, {Collective::reduce_scatter_v, input, output, 0, type, op}, counts,
                         options)};
}

Operation Communicator::all_gather_v(const void* input, void* output,
                                     std::span<const size_t> counts,
                                     std::span<const size_t> displacements, DataType type,
                                     const CallOptions& options) {
  if (counts.size() != size()) return {team_, failed(wrong_counts(Collective::all_gather_v))};
  return {team_, issue(*team_, collective::make_displaced_gather(
                                   *team_, {Collective::all_gather_v, input, output, 0, type},
                                   {counts, displacements}, options))};
}

Operation Communicator::all_to_all_v(const void* input, std::span<const size_t> send_counts,
                                     void* output, std::span<const size_t> receive_counts,
                                     DataType type, const CallOptions& options) {
  return all_to_all_v(input, send_counts, {}, output, receive_counts, {}, type, options);
}

Operation Communicator::all_to_all_v(const void* input, std::span<const size_t> send_counts,
                                     std::span<const size_t> send_displacements, void* output,
                                     std::span<const size_t> receive_counts,
                                     std::span<const size_t> receive_displacements, DataType type,
                                     const CallOptions& options) {
  const uint32_t ranks = size();
  if (send_counts.size() != ranks || receive_counts.size() != ranks)
    return {team_, failed(wrong_counts(Collective::all_to_all_v))};
  Arguments arguments{Collective::all_to_all_v, input, output, 0, type};
  std::vector<uint64_t>& counts = arguments.blocks.counts;
  counts.assign(size_t{ranks} * ranks, 0);
  for (uint32_t r = 0; r < ranks; ++r) counts[size_t{r} * ranks + rank()] = receive_counts[r];
  for (uint32_t r = 0; r < ranks; ++r) counts[size_t{rank()} * ranks + r] = send_counts[r];
  const bool displaced = !send_displacements.empty() || !receive_displacements.empty();
  const std::string wrong =
      displaced
          ? collective::displace(arguments.blocks, rank(), ranks, {send_counts, send_displacements},
                                 {receive_counts, receive_displacements}, type)
          : "";
  if (!wrong.empty()) return {team_, failed(collective::invalid(Collective::all_to_all_v, wrong))};
  if (send_counts[rank()] != receive_counts[rank()])
    return {team_, failed(collective::invalid(Collective::all_to_all_v,
                                              "a rank sends and receives different counts with "
                                              "itself"))};
  return {team_, issue(*team_, make_task(*team_, arguments, options))};
}

Operation Communicator::all_to_all_v_discovered(const void* input,
                                                std::span<const size_t> send_counts, void* output,
                                                size_t capacity, std::span<size_t> receive_counts,
                                                DataType type, const CallOptions& options) {
  return {team_, issued(collective::issue_discovered(
                     *team_, {Collective::all_to_all_v, input, output, 0, type}, send_counts,
                     capacity, receive_counts, options))};
}

Operation Communicator::dispatch(const DispatchCall& call, Routing& routing,
                                 const CallOptions& options) {
  routing.state_ = std::make_shared<collective::RoutingState>();
  return {team_, issued(collective::issue_dispatch(*team_, call, routing.state_, options))};
}

Operation Communicator::combine(const CombineCall& call, const Routing& routing,
                                const CallOptions& options) {
  return {team_, issued(collective::issue_combine(*team_, call, routing.state_, options))};
}

Operation Communicator::barrier(const CallOptions& options) {
  return {team_, issue(*team_, make_barrier(*team_, options))};
}

Operation Communicator::repeat(const Operation& done) {
  if (done.team_ != team_)
    return {team_, failed({Code::invalid_argument, "the operation is of another communicator"})};
  return {team_, issue(*team_, collective::repeat_task(*team_, *done.task_))};
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
