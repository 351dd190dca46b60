// SPDX-License-Identifier: BSD-3-Clause
// Bandwidth and message rate: keeps the queues full, and divides the completed messages by the time
// from the first post to the last completion.
#include <unistd.h>

#include <cstdio>

#include "bench/perftest/run.hpp"

namespace weft::bench {

Progress::Progress(uint64_t size, const Options& options)
    : size_(size),
      goal_(options.iterations * options.qps),
      duration_s_(options.duration_s),
      start_ns_(monotonic_ns()),
      next_ns_(start_ns_ + 2'000'000'000),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r%70s\r", "");
}

void Progress::update(uint64_t done) noexcept {
  if (!terminal_) return;
  const uint64_t now = monotonic_ns();
  if (now < next_ns_) return;
  next_ns_ = now + 500'000'000;
  shown_ = true;
  const double seconds = static_cast<double>(now - start_ns_) / 1e9;
  const double part = duration_s_ > 0 ? seconds / duration_s_
                                      : static_cast<double>(done) / static_cast<double>(goal_);
  std::fprintf(stderr, "\r %llu bytes: %llu messages, %.0f %%, %.0f s, %.2f GB/s   ",
               static_cast<unsigned long long>(size_), static_cast<unsigned long long>(done),
               part < 1 ? part * 100 : 100, seconds,
               static_cast<double>(done) * static_cast<double>(size_) / seconds / 1e9);
  std::fflush(stderr);
}

namespace {

struct Run {
  Sender* sender = nullptr;      // null: this side only receives
  Receiver* receiver = nullptr;  // null: nothing to receive
  uint64_t expected = 0;         // messages to receive; kEndless: until a stop message
  uint64_t deadline_ns = 0;      // of a timed run, on the sender
  uint64_t seen = 0;             // unreliable: messages received `quiet_ns` ago
  uint64_t quiet_ns = 0;
  uint64_t lost = 0;
};

// Unreliable services lose messages: when all have been sent and none has arrived for a while, the
// rest counts as lost.
void give_up_rest(Run& run) noexcept {
  constexpr uint64_t kQuiet = 50'000'000;
  const uint64_t now = monotonic_ns();
  const uint64_t received = run.receiver->received();
  if (received >= run.expected) return;
  if (run.quiet_ns == 0 || received != run.seen) {
    run.seen = received;
    run.quiet_ns = now;
  } else if (now - run.quiet_ns > kQuiet) {
    run.lost = run.expected - received;
    run.expected = received;
  }
}

// Checks the clock, the peer and signals; called rarely.
Result<void> look_around(Session& session, Run& run, bool& told) {
  if (const Result<void> fine = session.control->check(); !fine) return fine;
  if (run.sender != nullptr && run.deadline_ns != 0 && monotonic_ns() >= run.deadline_ns) {
    run.sender->finish();
    run.deadline_ns = 0;
  }
  // The receiver does not know the number of messages: in a timed run, or over a lossy service.
  const bool tells = session.options.duration_s > 0 || session.options.unreliable();
  if (tells && !told && run.deadline_ns == 0 && run.sender != nullptr && run.sender->done()) {
    session.control->stop(run.sender->completed());
    told = true;
  }
  if (run.expected == Sender::kEndless)
    if (const auto count = session.control->take_stop()) run.expected = *count;
  if (session.options.unreliable() && run.expected != Sender::kEndless && run.receiver != nullptr)
    give_up_rest(run);
  return {};
}

Result<void> pump(Session& session, Run& run, Progress* progress) {
  const bool events = session.options.events;
  bool told = false;
  const auto turn = [&] {
    bool moved = run.sender != nullptr && run.sender->turn();
    if (run.receiver != nullptr) moved |= run.receiver->turn();
    return moved;
  };
  for (uint32_t turns = 1;; ++turns) {
    const bool moved = turn();
    const bool sent = run.sender == nullptr || run.sender->done();
    const bool received = run.receiver == nullptr || run.receiver->received() >= run.expected;
    if (turns % 1024 == 0 || (sent && received) || (events && !moved)) {
      if (run.sender != nullptr)
        if (const auto failure = run.sender->failure()) return *failure;
      if (run.receiver != nullptr)
        if (const auto failure = run.receiver->failure()) return *failure;
      if (const Result<void> fine = look_around(session, run, told); !fine) return fine;
      if (progress != nullptr)
        progress->update(run.sender != nullptr ? run.sender->completed()
                                               : run.receiver->received());
      const bool timed_out = run.deadline_ns == 0;  // a timed sender ends at its deadline
      if (sent && received && timed_out && (run.sender == nullptr || run.sender->done())) return {};
    }
    if (events && !moved) sleep_for_events(session, turn);
  }
}

BandwidthSummary in_bytes(BandwidthSummary s, uint64_t size) {
  s.average = s.message_rate * static_cast<double>(size);
  s.peak *= static_cast<double>(size);
  return s;
}

// Returns the number of messages to this side that were lost.
Result<uint64_t> run_once(Session& session, uint64_t per_lane, Sender* sender, Receiver* receiver,
                          bool timed, uint64_t size) {
  const Options& o = session.options;
  if (sender != nullptr)
    sender->start(timed ? Sender::kEndless : per_lane, !o.output.no_peak && !timed);
  if (receiver != nullptr) receiver->start(size, true);
  if (const auto met = session.control->barrier({}); !met) return met.error();
  if (sender == nullptr && receiver == nullptr) return uint64_t{0};  // the following barrier waits
  Run run;
  run.sender = sender;
  run.receiver = receiver;
  const bool told = timed || o.unreliable();
  if (receiver != nullptr) run.expected = told ? Sender::kEndless : per_lane * o.qps;
  if (timed && sender != nullptr)
    run.deadline_ns = monotonic_ns() + static_cast<uint64_t>(o.duration_s * 1e9);
  Progress progress(size, o);
  if (const Result<void> ran = pump(session, run, &progress); !ran) return ran.error();
  return run.lost;
}

}  // namespace

Result<SizeResult> run_bandwidth(Session& session, uint64_t size, Receiver* receiver) {
  const Options& o = session.options;
  std::optional<Sender> sender;
  if (session.is_active()) sender.emplace(session, size);
  Sender* const active = sender ? &*sender : nullptr;
  Receiver* const passive = session.is_passive() ? receiver : nullptr;
  if (o.warm_up)
    if (const auto warm = run_once(session, 100, active, passive, false, size); !warm)
      return warm.error();
  const bool timed = o.duration_s > 0;
  const Result<uint64_t> lost = run_once(session, o.iterations, active, passive, timed, size);
  if (!lost) return lost.error();

  SizeResult result;
  result.size = size;
  result.measured = active != nullptr || passive != nullptr;
  if (active != nullptr) result.bandwidth = in_bytes(active->summary(), size);
  if (active == nullptr && passive != nullptr)
    result.bandwidth = in_bytes(passive->summary(), size);
  ControlMessage ours;
  ours.count = *lost;
  ours.average = result.bandwidth.average;
  ours.peak = result.bandwidth.peak;
  ours.message_rate = result.bandwidth.message_rate;
  const Result<ControlMessage> theirs = session.control->barrier(ours);
  if (!theirs) return theirs.error();
  result.lost = *lost + theirs->count;
  if (o.bidirectional) {  // the sum of both directions, like perftest
    result.bandwidth.average += theirs->average;
    result.bandwidth.peak += theirs->peak;
    result.bandwidth.message_rate += theirs->message_rate;
  }
  return result;
}

}  // namespace weft::bench
