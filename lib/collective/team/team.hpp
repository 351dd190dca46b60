// SPDX-License-Identifier: BSD-3-Clause
// What stands behind a communicator: the mesh, the executor, the queue of tasks, and what to do
// when something goes wrong. One failure ends all tasks, here and, through an abort message, on
// every other rank.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>

#include "lib/collective/model/selector.hpp"
#include "lib/collective/run/executor.hpp"
#include "lib/collective/run/peer_connections.hpp"
#include "lib/collective/run/processor.hpp"
#include "lib/collective/run/recipe.hpp"
#include "lib/collective/run/registration_cache.hpp"
#include "lib/collective/run/trace.hpp"
#include "weft/collective.hpp"

namespace weft::collective {

// One call. A task whose plan depends on those before it has a `prepare` that makes it.
struct Task : Recipe {
  Task() = default;
  explicit Task(const Recipe& recipe) : Recipe(recipe) {}
  std::vector<RegisteredPtr> registered;
  RegisteredPtr work;
  Instant issued, started;
  Instant deadline = Instant::never();  // once it is issued
  Duration took;                        // once it is done
  uint64_t placed_before = 0;           // Executor::placed() at its beginning
  // Called when the task's turn has come. It sets `error` if all ranks find out by themselves that
  // the call cannot be done; what it returns ends the whole team.
  std::function<Result<void>(Task&)> prepare;
  std::function<void(Task&)> complete;  // called when the plan is finished
  std::vector<std::function<void(const Result<void>&)>> callbacks;  // once it is done
  uint64_t after = 0;                        // the sequence number of the last collective before it
  std::vector<std::shared_ptr<Task>> parts;  // tasks before it that belong to the same call
  uint32_t canceled_by = 0;                  // if that is its error
  std::string why_canceled;
  std::vector<uint32_t> invited;  // canceled: ranks that may still put pieces into its memory
  bool done = false;
  std::optional<Error> error;

  // While it is run nothing else is called that could end it, and take it out of its lane.
  bool is_plain() const { return !prepare && !complete && parts.empty(); }
};
using TaskPtr = std::shared_ptr<Task>;

// A call that some rank has taken back: who knows of it. It is kept until nothing of the call can
// come any more.
struct Cancellation {
  Call call;
  uint32_t by = 0;
  std::string reason;
  std::vector<bool> told, heard;  // by rank
};

// The calls of one traffic class: they run one after the other, over links of their own, and pass
// those of other lanes.
struct Lane {
  Lane(uint32_t of, std::span<Link* const> by_rank)
      : traffic_class(of), links(by_rank), executor(by_rank) {}

  uint32_t traffic_class = 2;
  std::span<Link* const> links;  // by rank
  Executor executor;
  std::deque<TaskPtr> tasks;  // the first one runs
  RegisteredPtr work, packed;
  uint64_t finished = 0;  // the sequence number of the last one that is done
  uint64_t moved = 0;     // at the last look of watch()
  Instant moved_at;       // when a task began, or did a step
  Instant turned_at;      // when it last had its turn
  // While the running task does not move: looks at lifelines, pings, probes.
  Instant next_look = Instant::never(), next_ping = Instant::never(), next_probe = Instant::never();
  Instant invites_until = Instant::never();  // waits so long for invitations
  Instant due = Instant::never();            // no deadline of its tasks is before that
  Duration probe_pause;

  Call current_call() const { return tasks.empty() ? Call{} : tasks.front()->call; }
};

// Those that calls may have, the most urgent first.
std::vector<uint32_t> classes_of(const CommunicatorOptions& options);

class Team {
 public:
  Team(Mesh mesh, const CommunicatorOptions& options);
  ~Team();

  // No other team of this process has or had it.
  uint64_t serial() const { return serial_; }
  const Mesh& mesh() const { return mesh_; }
  const CommunicatorOptions& options() const { return options_; }
  PlanCache& plans() { return plans_; }
  RecipeBook& recipes() { return recipes_; }
  // A byte for results that nobody looks at.
  uint8_t* nowhere() { return &nowhere_; }
  // Null if the options name no network.
  Selector* selector() { return selector_.get(); }
  void set_selector(std::unique_ptr<Selector> selector) { selector_ = std::move(selector); }
  const std::optional<Failure>& failure() const { return failure_; }
  TeamMemory& memory() { return memory_; }
  const Trace& trace() const { return trace_; }
  std::string dump() const;
  std::string prometheus() const;

  // The next sequence number; used up by issue() of a collective.
  uint64_t next_sequence() const { return sequence_ + 1; }
  // Registers memory if pieces of it may go by reference; `written`: or come so, on transports that
  // place pieces. Errors: those of register_memory.
  Result<RegisteredPtr> register_memory(const void* memory, size_t bytes, bool written = false);
  // Of the call's lane, as all it has.
  Result<RegisteredPtr> work_space(const Call& call, size_t bytes, bool written) {
    return memory_.space(lane_of(call).work, bytes, written && places());
  }
  // For data that are packed before a call, or unpacked after it.
  Result<RegisteredPtr> packed_space(const Call& call, size_t bytes) {
    return memory_.space(lane_of(call).packed, bytes, false);
  }
  // Whether calls may have this class.
  bool has_class(uint32_t traffic_class) const;

  // The ranks that this group's ranks had in the group that it was made from, if any.
  const std::vector<uint32_t>& members() const { return members_; }
  // And in the first group of all.
  const std::vector<uint32_t>& origins() const { return origins_; }
  void set_members(const Team& of, std::vector<uint32_t> members) {
    origins_ = members;
    if (!of.origins_.empty())
      for (uint32_t& rank : origins_) rank = of.origins_[rank];
    members_ = std::move(members);
  }
  // Notes processes that have ended, whether or not anything waits for them.
  void look_for_ended();
  // Its process has ended, or it has left. A link that is broken is no end of a rank.
  bool has_ended(uint32_t rank) const;

  void issue(const TaskPtr& task);
  uint64_t steps_done() const;  // of all tasks
  void progress() noexcept;
  // Makes progress until the task is done, or it is `until`. If nothing happens it lets others have
  // the processor, then it sleeps.
  void wait_until(const Task& task, Instant until);
  Result<void> wait(const Task& task);
  // Takes back one call, on all ranks; an exchange on this one, if nothing of it has moved. Errors:
  // bad_state: it has.
  Result<void> cancel(const Task& task, std::string_view reason);
  // Calls it when the task is done: at once if it is.
  void then(const TaskPtr& task, std::function<void(const Result<void>&)> callback);
  // Whether something waits to be called.
  bool calls_back() const { return callbacks_ > 0; }
  // Calls what waits for tasks that are done.
  void call_back() noexcept;
  // Fails on all ranks.
  void revoke(std::string_view reason);
  // True if there is nothing to do: then the completion queue's descriptor gets readable when there
  // is.
  bool arm() noexcept;
  // Sleeps until something may have happened, at most a few milliseconds.
  void sleep() noexcept;
  // Finishes what was sent and tells the others that we go.
  void leave() noexcept;

 private:
  static uint64_t next_serial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }
  bool keeps_memory() const;
  bool places() const;  // pieces where they belong, if their receivers invite them
  void handle(std::span<const Completion> completions);
  void handle_message(Link& link, const ControlMessage& message);
  Lane& lane_of(const Link& link) { return *lanes_[link.lane]; }
  Lane& lane_of(const Call& call);
  bool busy() const;  // there are tasks
  void take_turn(Instant time);
  bool may_go_on() noexcept;
  void run_tasks();
  bool run_tasks(Lane& lane);
  bool start(Lane& lane, Task& task);
  void end_first(Lane& lane);
  void end(const TaskPtr& task);
  void record(Task& task, bool failed);
  void compare(const Task& task);
  void watch(Lane& lane, Instant time);
  void check_limits(Lane& lane, Instant time);
  void fail_late(const Lane& lane, const Task& task);
  void write_dump() const;
  void check_call(uint32_t rank, const Call& theirs);
  void check_arrived(const Link& link, const Call& theirs);
  void check_left_over(const Lane& lane);
  void check_circle(Link& link, const ControlMessage& probe);
  bool waits_in_vain(const Link& link, uint64_t consumed);
  void follow_circle(Link& link, const ControlMessage& waiting, std::vector<uint32_t> path);
  void answer_probe(Link& link, const Call& theirs);
  void check_finished(const Link& link, const Call& theirs);
  void check_leavers();
  void check_lifelines();
  void note_ended(const std::vector<uint32_t>& ended);
  bool all_told();
  bool is_canceled(uint64_t sequence) const { return canceled_.count(sequence) > 0; }
  Result<void> withdraw(const Task& task, std::string_view reason);
  void begin_cancel(const Call& call, uint32_t by, const std::string& reason);
  bool part_canceled(const Task& task);
  void handle_cancel(const Link& link, const ControlMessage& message);
  void take_out(const TaskPtr& task, const Cancellation& cancellation);
  bool drained(const Task& task);
  void drop_canceled(Link& link);
  void spread_cancellations();
  bool told_before(const Task& task);
  bool cancellations_told();
  void watch_draining(Lane& lane, Instant time);
  void end_failed_tasks();
  void fail(Failure failure, const Call& call, const std::string& reason, int64_t reporter);
  void fail_mismatch(uint32_t rank, const Call& theirs, Call ours);
  Call current_call() const;  // of the first lane that has one
  std::vector<uint32_t> awaited() const;
  uint64_t placed() const;
  bool links_idle();
  void wait_for(Duration limit, const std::function<bool()>& until);

  static constexpr size_t kHistory = 64;
  static constexpr uint32_t kLookNow = UINT32_MAX;  // idle turns: the next one looks at the tasks
  std::vector<uint32_t> members_, origins_;
  Trace trace_;
  const uint64_t serial_ = next_serial();
  Mesh mesh_;
  CommunicatorOptions options_;
  PlanCache plans_;
  RecipeBook recipes_;
  std::array<Completion, 32> completions_;  // of this turn
  std::unique_ptr<Selector> selector_;
  std::vector<std::unique_ptr<Lane>> lanes_;   // as in the mesh: the most urgent class first
  std::array<Call, kHistory> history_{};       // by sequence
  std::map<uint64_t, Cancellation> canceled_;  // by sequence
  std::deque<TaskPtr> ended_;                  // with callbacks
  size_t callbacks_ = 0;                       // of all tasks
  bool calling_ = false;                       // one of them
  TeamMemory memory_;
  uint64_t sequence_ = 0;    // of the last call
  bool cut_short_ = false;   // a lane has more to do than it was given time for
  uint32_t idle_turns_ = 0;  // in which nothing has come
  Processor processor_;
  std::optional<Failure> failure_;
  bool failure_traced_ = false;  // by the calls under way then, or the first one since
  std::vector<uint32_t> awaited_at_failure_;
  ControlMessage farewell_;  // what tells of it
  uint8_t nowhere_ = 0;
  Instant give_back_;  // when links that still read buffers of failed tasks are broken off
  Instant close_;      // when buffers are closed though not everybody knows of the failure
  std::map<uint32_t, Instant> followed_;  // circles, by the rank that they begin with
};

}  // namespace weft::collective
