// SPDX-License-Identifier: BSD-3-Clause
// Teams: tasks one after the other, completions, memory.
#include "lib/collective/team/team.hpp"

#include <poll.h>

#include <algorithm>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr Duration kLeaveLimit = Duration::from_s(2);
constexpr Duration kGoodbyeLimit = Duration::from_ms(500);
constexpr int kNap_ms = 10;  // at most: a ping or a deadline may be due

Instant now() { return base::Clock::process().now(); }

void note_regions(Execution& execution, const Registered& registered) {
  execution.regions.push_back(&registered.region);
  if (registered.open) execution.open.push_back(&registered.region);
}

}  // namespace

Team::Team(Mesh mesh, const CommunicatorOptions& options)
    : mesh_(std::move(mesh)),
      options_(options),
      memory_(mesh_.pd, places(), keeps_memory()),
      processor_(mesh_.rank) {
  const std::vector<uint32_t> classes = classes_of(options);
  for (size_t i = 0; i < classes.size(); ++i)
    lanes_.push_back(std::make_unique<Lane>(classes[i], mesh_.lanes[i]));
}

Team::~Team() = default;

std::vector<uint32_t> classes_of(const CommunicatorOptions& options) {
  std::vector<uint32_t> classes = options.more_classes;
  classes.push_back(options.traffic_class);
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

bool Team::has_class(uint32_t traffic_class) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const std::unique_ptr<Lane>& lane) {
    return lane->traffic_class == traffic_class;
  });
}

// A class that is not ours comes from a rank that called something else: any lane will do.
Lane& Team::lane_of(const Call& call) {
  for (const std::unique_ptr<Lane>& lane : lanes_)
    if (lane->traffic_class == call.traffic_class) return *lane;
  return *lanes_.front();
}

bool Team::busy() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const std::unique_ptr<Lane>& lane) { return !lane->tasks.empty(); });
}

uint64_t Team::steps_done() const {
  uint64_t steps = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) steps += lane->executor.moved();
  return steps;
}

uint64_t Team::placed() const {
  uint64_t pieces = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) pieces += lane->executor.placed();
  return pieces;
}

std::vector<uint32_t> Team::awaited() const {
  std::vector<uint32_t> ranks;
  for (const std::unique_ptr<Lane>& lane : lanes_)
    for (const uint32_t rank : lane->executor.awaited()) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool Team::keeps_memory() const {
  if (options_.registrations != Registrations::automatic)
    return options_.registrations == Registrations::kept;
  return !mesh_.device.attributes().pins_memory;
}

bool Team::places() const { return mesh_.device.attributes().qp_type == QpType::srd; }

Result<RegisteredPtr> Team::register_memory(const void* memory, size_t bytes, bool written) {
  if (bytes <= kCopiedBytes) return RegisteredPtr();
  return memory_.find(static_cast<std::byte*>(const_cast<void*>(memory)), bytes,
                      written && places());
}

void Team::issue(const TaskPtr& task) {
  task->issued = now();
  if (failure_) {
    task->error = Error{failure_->code, failure_->text};
    task->done = true;
    if (!failure_traced_) record(*task, true);
    failure_traced_ = true;
    return;
  }
  trace_.steps().at(task->issued);
  task->after = sequence_;
  if (task->call.sequence != 0) {
    sequence_ = task->call.sequence;
    history_[sequence_ % kHistory] = task->call;
  }
  Lane& lane = lane_of(task->call);
  task->deadline = task->issued + task->limit;
  lane.due = std::min(lane.due, task->deadline);
  lane.tasks.push_back(task);
  const auto canceled = canceled_.find(task->call.sequence);
  if (canceled != canceled_.end()) {  // before we came to it
    if (canceled->second.call != task->call)
      return fail_mismatch(canceled->second.by, canceled->second.call, task->call);
    take_out(task, canceled->second);
  }
  take_turn(task->issued);
}

// As run_tasks(), but lanes stand back for more urgent ones: while a call there moves on, and in
// the turn in which it ends. Not for ever, since calls may follow each other without a pause, and
// may wait for ranks that wait for a less urgent one.
void Team::take_turn(Instant time) {
  constexpr Duration kMoving = Duration::from_us(100), kPatience = Duration::from_us(500);
  cut_short_ = false;
  Instant urgent_until;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    const bool busy = !lane->tasks.empty();
    if (busy && time < urgent_until && time < lane->turned_at + kPatience) {
      cut_short_ = true;
      continue;
    }
    const uint64_t before = lane->executor.worked();
    cut_short_ |= !run_tasks(*lane);
    lane->turned_at = time;
    if (before != lane->executor.worked()) lane->moved_at = time;
    if (busy) urgent_until = std::max(urgent_until, lane->moved_at + kMoving);
  }
}

// Where there are several lanes, those behind the first do a few steps at a time, so that what
// arrives for a more urgent one meanwhile is seen soon.
void Team::run_tasks() {
  cut_short_ = false;
  for (const std::unique_ptr<Lane>& lane : lanes_) cut_short_ |= !run_tasks(*lane);
}

// Runs the first task as far as it goes, then the next. False if it could have gone on.
bool Team::run_tasks(Lane& lane) {
  constexpr uint64_t kOne = 1;
  const bool first = &lane == lanes_.front().get();
  Executor& executor = lane.executor;
  while (!lane.tasks.empty() && !failure_) {
    Task& task = *lane.tasks.front();
    const TaskPtr kept = task.is_plain() ? nullptr : lane.tasks.front();
    if (task.error) {  // canceled
      if (!drained(task)) return true;
      lane.finished = task.call.sequence;
      end_first(lane);
      continue;
    }
    if (!executor.running() && !told_before(task)) return true;
    if (!executor.running() && !start(lane, task)) continue;
    const uint64_t before = executor.worked();
    const bool finished = executor.advance(first ? UINT64_MAX : kOne);
    if (const std::optional<Mismatch>& mismatch = executor.mismatch())
      return fail_mismatch(mismatch->rank, mismatch->theirs, task.call), true;
    if (!finished) return first || executor.worked() - before < kOne;
    if (task.call.sequence != 0) lane.finished = task.call.sequence;
    check_left_over(lane);
    if (failure_) return true;
    if (task.complete) task.complete(task);
    end_first(lane);
  }
  return true;
}

void Team::record(Task& task, bool failed) {
  const Instant ended = now();
  trace_.steps().at(ended);  // the next task's turn
  const bool ran = task.started >= task.issued;
  const uint64_t placed = lane_of(task.call).executor.placed();
  const Instant began = ran ? task.started : ended;
  task.took = ended - began;
  const std::string_view algorithm = task.algorithm != nullptr ? task.algorithm->name : "";
  trace_.add({task.call, algorithm, task.predicted, task.issued, began, ended, failed,
              ran ? placed - task.placed_before : 0});
}

// What the selector may learn from a call that it has predicted.
void Team::compare(const Task& task) {
  if (selector_ == nullptr || task.predicted.ps <= 0 || task.error) return;
  ModelCorrection& learned = selector_->correction();
  const size_t algorithm = task.call.algorithm;
  const uint64_t bytes = bytes_of(task.call);
  const double ratio = static_cast<double>(task.took.ps) / static_cast<double>(task.predicted.ps);
  learned.record(algorithm, bytes, ratio * task.learned);
}

void Team::end_first(Lane& lane) {
  end(lane.tasks.front());
  lane.tasks.pop_front();
}

void Team::end(const TaskPtr& task) {
  record(*task, task->error.has_value());
  compare(*task);
  task->done = true;
  if (task->complete) task->complete = nullptr;  // what it holds is not kept with the task
  task->registered.clear();
  if (!task->callbacks.empty()) ended_.push_back(task);
}

void Team::then(const TaskPtr& task, std::function<void(const Result<void>&)> callback) {
  task->callbacks.push_back(std::move(callback));
  ++callbacks_;
  if (!task->done) return;
  ended_.push_back(task);
  call_back();
}

// Not from within another callback: calls that they make run in their order.
void Team::call_back() noexcept {
  if (calling_ || ended_.empty()) return;
  calling_ = true;
  while (!ended_.empty()) {
    const TaskPtr task = ended_.front();
    ended_.pop_front();
    const Result<void> result = task->error ? Result<void>(*task->error) : Result<void>();
    const auto callbacks = std::move(task->callbacks);
    task->callbacks.clear();
    callbacks_ -= callbacks.size();
    for (const auto& callback : callbacks) callback(result);
  }
  calling_ = false;
}

// False if the task, or the team, has come to its end instead.
bool Team::start(Lane& lane, Task& task) {
  task.started = lane.moved_at = trace_.steps().time();
  task.placed_before = lane.executor.placed();
  if (part_canceled(task)) return false;
  if (task.prepare) {
    const Result<void> prepared = task.prepare(task);
    if (!prepared) {
      fail({.code = prepared.error().code, .rank = mesh_.rank}, task.call, prepared.error().message,
           -1);
      return false;
    }
    if (task.error) {
      if (task.error->code != Code::canceled) end_first(lane);
      return false;
    }
  }
  Execution& execution = lane.executor.prepare();
  execution.plan = task.plan.get();
  execution.arithmetic = task.arithmetic;
  execution.call = task.call;
  execution.crowded = processor_.shared();
  execution.log = &trace_.steps();
  std::byte* const work = task.work ? task.work->memory : nullptr;
  execution.spaces = {task.input, task.output, work};
  if (task.work) note_regions(execution, *task.work);
  for (const RegisteredPtr& registered : task.registered)
    if (registered) note_regions(execution, *registered);
  lane.executor.start();
  lane.moved = lane.executor.moved() - 1;  // watch() begins afresh
  check_leavers();
  return lane.executor.running();
}

// Though nothing has come. Who is not cut short waits for something that comes, or has no hurry.
bool Team::may_go_on() noexcept {
  constexpr uint32_t kTurns = 8;
  return cut_short_ || !canceled_.empty() || ++idle_turns_ % kTurns == 0;
}

void Team::progress() noexcept {
  const Instant time = now();  // once, for all that looks at it
  trace_.steps().at(time);
  const size_t n = mesh_.cq.poll(completions_);
  if (n > 0) handle({completions_.data(), n});
  if (n > 0 || may_go_on()) take_turn(time);
  if (!canceled_.empty()) spread_cancellations();
  for (const std::unique_ptr<Lane>& lane : lanes_) watch(*lane, time);
  end_failed_tasks();
  call_back();
}

void Team::handle(std::span<const Completion> completions) {
  for (const Completion& completion : completions) {
    Link& link = *mesh_.links[Link::index_of(completion)];
    const Link::Event event = link.handle(completion);
    if (event.error) {
      if (!link.gone)
        fail({.code = Code::peer_failed, .rank = link.peer()},
             lane_of(link).tasks.empty() ? current_call() : lane_of(link).current_call(),
             std::string(weft::name(*event.error)), -1);
      link.gone = true;
    }
    if (event.finished_step != kNoStep) lane_of(link).executor.finish_put(event.finished_step);
    if (event.arrived != nullptr) check_arrived(link, event.arrived->call);
    if (!canceled_.empty()) drop_canceled(link);
    while (const std::optional<ControlMessage> message = link.next_message())
      handle_message(link, *message);
  }
}

// While nobody else wants this processor, spinning is the fastest. Where somebody does, maybe the
// very rank that we wait for, each turn gives it away.
void Team::wait_until(const Task& task, Instant until) {
  constexpr Duration kSpin = Duration::from_us(20), kYield = Duration::from_us(200);
  Instant idle_since = Instant::never();
  for (uint64_t steps = steps_done(); !task.done;) {
    progress();
    if (task.done) break;
    const Instant time = trace_.steps().time();  // of this turn: the clock is read once in each
    if (time >= until) break;
    if (steps != steps_done())
      idle_since = Instant::never();
    else if (idle_since.is_never())
      idle_since = time;
    steps = steps_done();
    const Duration idle = idle_since.is_never() ? Duration() : time - idle_since;
    if (idle < kSpin && !processor_.crowded()) continue;
    idle < kYield ? processor_.yield() : sleep();
  }
}

Result<void> Team::wait(const Task& task) {
  wait_until(task, Instant::never());
  call_back();
  if (task.error) return *task.error;
  return {};
}

bool Team::arm() noexcept {
  if (cut_short_ || (!calling_ && !ended_.empty())) return false;
  idle_turns_ = kLookNow;  // turns come seldom from now on
  mesh_.cq.acknowledge();
  mesh_.cq.arm();
  Completion completions[32];
  const size_t n = mesh_.cq.poll(completions);
  handle({completions, n});
  return n == 0;
}

// Spinning has not helped: let the library's thread poll, and wait for it to wake us.
void Team::sleep() noexcept {
  if (arm()) {
    pollfd wanted{mesh_.cq.fd(), POLLIN, 0};
    ::poll(&wanted, 1, kNap_ms);
  }
  mesh_.cq.acknowledge();
}

bool Team::links_idle() {
  if (!failure_) look_for_ended();  // who has died acknowledges nothing
  bool idle = true;
  for (const std::unique_ptr<Link>& link : mesh_.links) {
    if (link->gone || link->idle()) continue;
    link->ask_if_done();
    idle = false;
  }
  return idle;
}

void Team::wait_for(Duration limit, const std::function<bool()>& until) {
  const Instant deadline = now() + limit;
  while (!until() && now() < deadline) {
    progress();
    if (!until()) sleep();
  }
}

void Team::leave() noexcept {
  wait_for(kLeaveLimit,
           [this] { return !busy() && (failure_ || (cancellations_told() && links_idle())); });
  if (busy())
    fail({.code = Code::bad_state, .rank = mesh_.rank}, current_call(),
         "rank " + std::to_string(mesh_.rank) + " has destroyed its communicator", -1);
  for (const std::unique_ptr<Link>& link : mesh_.links)
    link->send_control({.kind = ControlKind::leave});
  wait_for(kGoodbyeLimit, [this] { return !busy() && links_idle(); });
}

}  // namespace weft::collective
