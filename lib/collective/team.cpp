// SPDX-License-Identifier: BSD-3-Clause
// Teams: tasks one after the other, completions, memory.
#include "lib/collective/team.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr size_t kRegistrations = 16;
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
    : mesh_(std::move(mesh)), options_(options), executor_(mesh_.by_rank) {}

Team::~Team() = default;

bool Team::places() const { return mesh_.device.attributes().qp_type == QpType::srd; }

Access Team::access_of(bool open) const {
  return open ? kPeerAccess | Access::local_write : Access::none;
}

Result<RegisteredPtr> Team::register_memory(const void* memory, size_t bytes, bool written) {
  const bool open = written && places();
  if (bytes <= kCopiedBytes) return RegisteredPtr();
  std::byte* const begin = static_cast<std::byte*>(const_cast<void*>(memory));
  for (const RegisteredPtr& old : registered_)
    if (begin >= old->memory && begin + bytes <= old->memory + old->bytes && old->open >= open)
      return old;
  Result<MemoryRegion> region = mesh_.pd.register_memory(begin, bytes, access_of(open));
  if (!region) return region.error();
  registered_.push_front(std::make_shared<const Registered>(
      Registered{begin, bytes, open, std::move(*region), nullptr}));
  if (registered_.size() > kRegistrations) registered_.pop_back();
  return registered_.front();
}

Result<RegisteredPtr> Team::space(RegisteredPtr& kept, size_t bytes, bool open) {
  if (bytes == 0) return RegisteredPtr();
  if (kept && kept->bytes >= bytes && kept->open >= open) return kept;
  const size_t size = std::max<size_t>(2 * bytes, 64 * 1024);
  std::unique_ptr<std::byte[]> owned(new (std::nothrow) std::byte[size]());
  if (!owned)
    return Error{Code::no_memory,
                 "no memory for a work space of " + std::to_string(size) + " bytes"};
  Result<MemoryRegion> region = mesh_.pd.register_memory(owned.get(), size, access_of(open));
  if (!region) return region.error();
  std::byte* const begin = owned.get();
  kept = std::make_shared<const Registered>(
      Registered{begin, size, open, std::move(*region), std::move(owned)});
  return kept;
}

void Team::issue(const TaskPtr& task) {
  if (failure_) {
    task->error = Error{failure_->code, failure_->text};
    task->done = true;
    return;
  }
  task->issued = now();
  trace_.steps().at(task->issued);
  task->after = sequence_;
  if (task->call.sequence != 0) {
    sequence_ = task->call.sequence;
    history_[sequence_ % kHistory] = task->call;
  }
  tasks_.push_back(task);
  const auto canceled = canceled_.find(task->call.sequence);
  if (canceled != canceled_.end()) {  // before we came to it
    if (canceled->second.call != task->call)
      return fail_mismatch(canceled->second.by, canceled->second.call, task->call);
    take_out(task, canceled->second);
  }
  run_tasks();
}

// Runs the first task as far as it goes, then the next.
void Team::run_tasks() {
  while (!tasks_.empty() && !failure_) {
    const TaskPtr task = tasks_.front();
    if (task->error) {  // canceled
      if (!drained(*task)) return;
      finished_ = task->call.sequence;
      end_first();
      continue;
    }
    if (!executor_.running() && !start(*task)) continue;
    const bool finished = executor_.advance();
    if (const std::optional<Mismatch>& mismatch = executor_.mismatch())
      return fail_mismatch(mismatch->rank, mismatch->theirs, task->call);
    if (!finished) return;
    if (task->call.sequence != 0) finished_ = task->call.sequence;
    check_left_over();
    if (failure_) return;
    if (task->complete) task->complete(*task);
    end_first();
  }
}

void Team::record(Task& task, bool failed) {
  const Instant ended = now();
  const bool ran = task.started >= task.issued;
  const Instant began = ran ? task.started : ended;
  task.took = ended - began;
  const std::string_view algorithm = task.algorithm != nullptr ? task.algorithm->name : "";
  trace_.add({task.call, algorithm, task.predicted, task.issued, began, ended, failed,
              ran ? executor_.placed() - task.placed_before : 0});
}

void Team::end_first() {
  end(tasks_.front());
  tasks_.pop_front();
}

void Team::end(const TaskPtr& task) {
  record(*task, task->error.has_value());
  task->done = true;
  task->registered.clear();
  if (!task->callbacks.empty()) call_back_later(task);
}

// Not from within another callback: calls that they make run in their order.
void Team::call_back() noexcept {
  if (calling_) return;
  calling_ = true;
  while (!ended_.empty()) {
    const TaskPtr task = ended_.front();
    ended_.pop_front();
    const Result<void> result = task->error ? Result<void>(*task->error) : Result<void>();
    const auto callbacks = std::move(task->callbacks);
    task->callbacks.clear();
    for (const auto& callback : callbacks) callback(result);
  }
  calling_ = false;
}

// False if the task, or the team, has come to its end instead.
bool Team::start(Task& task) {
  task.started = now();
  task.placed_before = executor_.placed();
  if (task.prepare) {
    const Result<void> prepared = task.prepare(task);
    if (!prepared) {
      fail({.code = prepared.error().code, .rank = mesh_.rank}, task.call, prepared.error().message,
           -1);
      return false;
    }
    if (task.error) {
      if (task.error->code != Code::canceled) end_first();
      return false;
    }
  }
  Execution execution{
      task.plan.get(), task.arithmetic, task.call, {task.input, task.output, nullptr}, {}, {},
      &trace_.steps()};
  if (task.work) {
    execution.spaces[static_cast<int>(Space::work)] = task.work->memory;
    note_regions(execution, *task.work);
  }
  for (const RegisteredPtr& registered : task.registered)
    if (registered) note_regions(execution, *registered);
  executor_.start(execution);
  task.deadline = task.started + task.limit;
  moved_ = executor_.moved() - 1;  // watch() begins afresh
  check_leavers();
  return executor_.running();
}

void Team::progress() noexcept {
  const Instant time = now();  // once, for all that looks at it
  trace_.steps().at(time);
  Completion completions[32];
  const size_t n = mesh_.cq.poll(completions);
  if (n > 0) handle({completions, n});
  run_tasks();
  spread_cancellations();
  watch(time);
  end_failed_tasks();
  call_back();
}

void Team::handle(std::span<const Completion> completions) {
  for (const Completion& completion : completions) {
    Link& link = *mesh_.links[Link::index_of(completion)];
    const Link::Event event = link.handle(completion);
    if (event.error) {
      if (!link.gone)
        fail({.code = Code::peer_failed, .rank = link.peer()}, current_call(),
             std::string(weft::name(*event.error)), -1);
      link.gone = true;
    }
    if (event.finished_step != kNoStep) executor_.finish_put(event.finished_step);
    if (event.arrived != nullptr) check_arrived(link.peer(), event.arrived->call);
    if (!canceled_.empty()) drop_canceled(link);
    while (const std::optional<ControlMessage> message = link.next_message())
      handle_message(link, *message);
  }
}

// While nobody else wants this processor, spinning is the fastest. A yield that takes longer than a
// system call says that somebody does, maybe the very rank that we wait for: then each turn that
// finds nothing gives the processor away, until a yield comes back at once.
void Team::wait_until(const Task& task, Instant until) {
  constexpr Duration kSpin = Duration::from_us(20), kYield = Duration::from_us(200);
  constexpr Duration kSystemCall = Duration::from_us(1);
  Instant moved = now();
  for (uint64_t steps = steps_done(); !task.done;) {
    progress();
    if (task.done) break;
    const Instant time = now();
    if (time >= until) break;
    if (steps != steps_done()) moved = time;
    steps = steps_done();
    const Duration idle = time - moved;
    if (idle < kSpin && !crowded_) continue;
    if (idle < kYield) {
      sched_yield();
      crowded_ = now() - time > kSystemCall;
    } else {
      sleep();
    }
  }
}

Result<void> Team::wait(const Task& task) {
  wait_until(task, Instant::never());
  call_back();
  if (task.error) return *task.error;
  return {};
}

bool Team::arm() noexcept {
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

bool Team::links_idle() const {
  return std::all_of(mesh_.links.begin(), mesh_.links.end(),
                     [](const std::unique_ptr<Link>& link) { return link->gone || link->idle(); });
}

void Team::settle(Duration limit, const std::function<bool()>& until) {
  const Instant deadline = now() + limit;
  while (!until() && now() < deadline) {
    progress();
    if (!until()) sleep();
  }
}

void Team::leave() noexcept {
  settle(kLeaveLimit, [this] { 
    return tasks_.empty() && (failure_ || (cancellations_told() && links_idle()));
  });
  if (!tasks_.empty())
    fail({.code = Code::bad_state, .rank = mesh_.rank}, current_call(),
         "rank " + std::to_string(mesh_.rank) + " has destroyed its communicator", -1);
  for (const std::unique_ptr<Link>& link : mesh_.links)
    link->send_control({.kind = ControlKind::leave});
  settle(kGoodbyeLimit, [this] { return tasks_.empty() && links_idle(); });
}

}  // namespace weft::collective
