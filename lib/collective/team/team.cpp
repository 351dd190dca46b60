// SPDX-License-Identifier: BSD-3-Clause
// Teams: completions, control messages, supervision, failures.
#include "lib/collective/team/team.hpp"

#include <atomic>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/collective/faults/watchdog.hpp"
#include "lib/collective/team/dump.hpp"

namespace weft::collective {
namespace {

// Why a request to a rank failed: the sign that the rank is gone, if there was one (vendor_error,
// docs/failure-model.md).
std::string_view reason_of(const Completion& completion) {
  const int sign = completion.status == Status::retry_exceeded ? completion.vendor_error >> 4 : 0;
  if (sign == 1) return "its process has ended";
  if (sign != 0) return "its process has ended, or has closed its device";
  return weft::name(completion.status);
}

bool supports_rendezvous(const PeerConnections& connections) {
  return connections.device.attributes().qp_type == QpType::srd;
}

bool keeps_registrations(const CommunicatorOptions& options, const PeerConnections& connections) {
  if (options.registrations != Registrations::automatic)
    return options.registrations == Registrations::kept;
  return !connections.device.attributes().pins_memory;
}

std::string reason_of(const ControlMessage& abort) {
  return std::string(abort.text, strnlen(abort.text, sizeof abort.text));
}

}  // namespace

Lineage descend(const Lineage& parent, std::vector<uint32_t> members) {
  Lineage child{members, std::move(members)};
  if (parent.origins.empty()) return child;
  for (uint32_t& rank : child.origins) rank = parent.origins[rank];
  return child;
}

Team::Team(PeerConnections connections, const CommunicatorOptions& options)
    : connections_(std::move(connections)),
      options_(options),
      memory_(connections_.pd, supports_rendezvous(connections_),
              keeps_registrations(options, connections_)),
      processor_(connections_.rank),
      runner_(connections_, classes_of(options), planning_, processor_),
      circular_waits_(connections_.rank, connections_.ranks) {}

uint64_t Team::next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::vector<uint32_t> Team::awaited_ranks() const {
  return failure_ ? awaited_at_failure_ : runner_.lanes().awaited_ranks();
}

void Team::issue(const TaskPtr& task) {
  task->issued = base::wall_now();
  if (!failure_) return apply(runner_.issue(task));
  task->error = Error{failure_->code, failure_->text};
  task->done = true;
  if (!failure_recorded_) runner_.record(*task, true);
  failure_recorded_ = true;
}

void Team::progress() noexcept {
  const Instant time = base::wall_now();  // read once in each turn
  runner_.log().set_time(time);
  const size_t n = connections_.cq.poll(completions_);
  if (n > 0) on_completions({completions_.data(), n});
  if (n > 0 || runner_.should_run_idle()) apply(runner_.run_by_priority(time));
  if (!runner_.cancellations().empty()) runner_.send_cancel_notices();
  for (Lane& lane : runner_.lanes()) watch(lane, time);
  end_failed_tasks();
  runner_.callbacks().run();
}

bool Team::arm() noexcept {
  if (runner_.cut_short() || runner_.callbacks().due()) return false;
  runner_.run_next_turn();  // turns are rare from now on
  connections_.cq.acknowledge();
  connections_.cq.arm();
  Completion completions[32];
  const size_t n = connections_.cq.poll(completions);
  on_completions({completions, n});
  return n == 0;
}

void Team::on_completions(std::span<const Completion> completions) {
  for (const Completion& completion : completions) {
    Link& link = *connections_.links[link_index_of(completion)];
    Lane& lane = runner_.lanes().of(link);
    const Link::Event event = link.on_completion(completion);
    if (event.error) {
      const Call call = lane.tasks.empty() ? runner_.lanes().current_call() : lane.current_call();
      if (!link.disconnected)
        fail({.code = Code::peer_failed,
              .rank = link.peer(),
              .call = call,
              .reason = std::string(event.error == completion.status ? reason_of(completion)
                                                                     : weft::name(*event.error))});
      link.disconnected = true;
    }
    if (event.finished_step != kNoStep) lane.executor.on_put_done(event.finished_step);
    if (event.arrived != nullptr)
      apply(check_piece(runner_.local(), lane, link.peer(), event.arrived->call));
    if (!runner_.cancellations().empty()) runner_.cancellations().drop_pieces(link);
    while (const std::optional<ControlMessage> message = link.next_message())
      on_message(link, *message);
  }
}

void Team::on_message(Link& link, const ControlMessage& message) {
  const Lane& lane = runner_.lanes().of(link);
  switch (message.kind) {
    case ControlKind::credit:
    case ControlKind::advertise:
      return;  // handled by the link
    case ControlKind::probe:
      return on_probe(link, message);
    case ControlKind::circular_wait:
      return on_circular_wait(link, message.consumed, chain_of(message));
    case ControlKind::finished:
      apply(runner_.run_all());  // consumes the pieces sent before it
      return apply(check_finished(runner_.local(), lane, link.peer(), message.call));
    case ControlKind::cancel:
      return apply(runner_.on_cancel_notice(link, message));
    case ControlKind::leave:
      apply(runner_.run_all());  // the pieces sent before it may be all that is needed
      link.disconnected = link.peer_exited = true;
      return apply(check_disconnected(connections_, runner_.lanes()));
    case ControlKind::abort:
      apply(runner_.run_all());  // tasks that the pieces sent before it complete have succeeded
      return fail({.code = message.code,
                   .rank = message.rank,
                   .call = message.call,
                   .reason = reason_of(message),
                   .reporter = link.peer()});
  }
}

void Team::on_probe(Link& link, const ControlMessage& probe) {
  const Lane& lane = runner_.lanes().of(link);
  const uint32_t peer = link.peer();
  apply(check_call(runner_.local(), peer, probe.call));
  apply(runner_.run_all());
  apply(check_probe(runner_.local(), lane, peer, probe.call));
  if (probe.call.sequence == 0 && probe.count == 1) on_circular_wait(link, probe.consumed, {peer});
  // The abort that should have reached the peer may have been dropped.
  if (failure_) return static_cast<void>(link.send_control(teardown_.abort()));
  if (has_finished_sending(runner_.local(), lane, peer, probe.call))
    link.send_control({.kind = ControlKind::finished, .call = probe.call});
}

void Team::on_circular_wait(const Link& link, uint64_t consumed, std::vector<uint32_t> chain) {
  apply(runner_.run_all());
  apply(circular_waits_.follow(runner_.lanes().of(link), link, consumed, std::move(chain),
                               base::wall_now()));
}

void Team::watch(Lane& lane, Instant now) {
  if (!lane.executor.running()) {
    apply(check_deadlines(lane, now, rank()));
    if (failure_ || lane.tasks.empty() || !lane.tasks.front()->error) return;
    if (liveness_check_due(lane, now)) check_liveness();
    if (!failure_) apply(check_drain_deadline(lane, now, rank()));
    return;
  }
  if (has_advanced(lane, now)) return;
  if (liveness_check_due(lane, now)) {
    check_liveness();
    if (!lane.executor.running()) return;
  }
  apply(check_deadlines(lane, now, rank()));
  if (!failure_ && solicit_awaited_ranks(lane, now)) runner_.run_next_turn();
}

// A process that has ended may have sent all that is needed: what has arrived is handled first.
void Team::check_liveness() {
  const std::vector<uint32_t> exited = connections_.liveness.exited_peers();
  if (exited.empty()) return;
  Completion completions[32];
  for (size_t n = 1; n > 0;) {
    n = connections_.cq.poll(completions);
    on_completions({completions, n});
  }
  mark_exited(connections_, exited);
  apply(runner_.run_all());
  apply(check_disconnected(connections_, runner_.lanes()));
}

Result<void> Team::cancel(const Task& task, std::string_view reason) {
  if (failure_ || task.done || task.error) return {};
  runner_.log().set_time(base::wall_now());  // tasks behind it may start
  if (task.call.sequence == 0) {
    if (Result<void> withdrawn = runner_.withdraw(task, reason); !withdrawn) return withdrawn;
    apply(runner_.run_all());
    return {};
  }
  for (const TaskPtr& part : task.parts)
    if (!part->done) apply(runner_.cancel(part->call, rank(), reason));
  apply(runner_.cancel(task.call, rank(), reason));
  return {};
}

void Team::apply(const MaybeFailure& failure) {
  if (failure) fail(*failure);
}

void Team::fail(const FailureReport& report) {
  if (failure_) return;
  std::vector<uint32_t> awaited = runner_.lanes().awaited_ranks();
  failure_ = describe_failure(report);
  awaited_at_failure_ = std::move(awaited);
  failure_recorded_ = runner_.lanes().have_tasks();
  runner_.stop();
  teardown_.begin(report, connections_.links, supports_rendezvous(connections_));
  write_dump(*this);  // may take long: the timers start behind it
  teardown_.start_timers(base::wall_now());
  end_failed_tasks();
}

void Team::end_failed_tasks() {
  if (!failure_ || !runner_.lanes().have_tasks()) return;
  if (!teardown_.memory_unused(connections_.links, base::wall_now())) return;
  memory_.close();  // peers can write nothing any more
  runner_.end_all({failure_->code, failure_->text});
}

}  // namespace weft::collective
