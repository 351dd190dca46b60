// SPDX-License-Identifier: BSD-3-Clause
// Latency. SEND and WRITE bounce one message between the two sides, and half of each round trip is
// reported; READ and atomics are timed from post to completion. The receiver of a SEND polls its
// CQ, the receiver of a WRITE polls the last byte, which arrives last; SRD does not order bytes, so
// there a WRITE has immediate data and the receiver polls its CQ.
#include <algorithm>
#include <cstring>

#include "bench/perftest/run.hpp"

namespace weft::bench {
namespace {

constexpr size_t kSamples = size_t{1} << 22;  // kept for percentiles: 32 MiB
constexpr uint64_t kWarmUp = 100;
constexpr double kLossTimeoutUs = 5e6;  // an unreliable message counts as lost then

// Posts requests one by one; every half queue one is signaled.
class Poster {
 public:
  Poster(Session& session, uint64_t size)
      : session_(session), every_(std::max(1u, session.options.tx_depth / 2)) {
    request_ = make_request(session, session.lanes[0], size, 0, sge_);
    plain_ = request_.flags;
  }
  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  // Returns false after an error, see failure().
  bool post() noexcept {
    const bool signaled = ++session_.posted % every_ == 0;
    request_.flags = signaled ? plain_ | SendFlags::signaled : plain_;
    request_.id = session_.posted;
    while (session_.posted - session_.completed > session_.options.tx_depth) {
      (void)reap();
      if (interrupted()) status_ = Status::flushed;
      if (status_ != Status::success) return false;
    }
    const PostStatus status = session_.lanes[0].qp.post_send(request_);
    if (!status) post_error_ = status.reason;
    return static_cast<bool>(status) && status_ == Status::success;
  }
  // Posts one request and waits for its completion, calling `turn` meanwhile.
  template <class Idle>
  Result<void> post_and_wait(Idle idle) {
    request_.flags = plain_ | SendFlags::signaled;
    request_.id = ++session_.posted;
    const PostStatus status = session_.lanes[0].qp.post_send(request_);
    if (!status) return Error{status.code, std::string("post: ") + status.reason};
    while (session_.completed < session_.posted) {
      if (reap()) continue;
      if (const Result<void> fine = idle(); !fine) return fine;
    }
    return failure();
  }
  // Polls the CQ; returns true if there were completions.
  bool reap() noexcept {
    Completion completions[8];
    const size_t n = session_.send_cq.poll(completions);
    for (size_t i = 0; i < n; ++i) {
      if (completions[i].status != Status::success && status_ == Status::success)
        status_ = completions[i].status;
      session_.completed = std::max(session_.completed, completions[i].id);
    }
    return n != 0;
  }
  Result<void> failure() const {
    if (status_ != Status::success) return completion_error(status_, true);
    if (post_error_ != nullptr) return Error{Code::io_error, std::string("post: ") + post_error_};
    return {};
  }

 private:
  Session& session_;
  uint32_t every_;
  Sge sge_;
  SendRequest request_;
  SendFlags plain_ = SendFlags::none;
  Status status_ = Status::success;
  const char* post_error_ = nullptr;
};

class LatencyRun {
 public:
  LatencyRun(Session& session, uint64_t size, Receiver* receiver)
      : session_(session),
        o_(session.options),
        lane_(session.lanes[0]),
        size_(size),
        receiver_(receiver),
        poster_(session, size),
        recorder_(o_.duration_s > 0 ? kSamples : std::min<uint64_t>(o_.iterations, kSamples)) {}

  Result<SizeResult> run();

 private:
  Result<void> bounce(uint64_t count, bool timed, bool record);
  Result<void> fetch(uint64_t count, bool timed, bool record);
  Result<bool> await(uint64_t index);
  bool arrived(uint64_t index) noexcept;
  void wait_a_while(uint64_t index) noexcept;
  void prepare(uint64_t index) noexcept;
  void verify(uint64_t index) noexcept;
  bool is_over(uint64_t index, uint64_t count) noexcept;
  bool shows_in_memory() const noexcept {
    return o_.operation == Operation::write && receiver_ == nullptr;
  }

  Session& session_;
  const Options& o_;
  const Lane& lane_;
  uint64_t size_;
  Receiver* receiver_;
  Poster poster_;
  LatencyRecorder recorder_;
  Ticks deadline_ = 0;
  uint64_t stopped_at_ = UINT64_MAX;  // server of a timed run: total messages
  uint32_t looks_ = 0;
  uint64_t verified_ = 0;
  uint64_t mismatches_ = 0;
};

void LatencyRun::prepare(uint64_t index) noexcept {
  if (o_.validate) fill_pattern(lane_.source, size_, index, o_.is_server());
  if (shows_in_memory()) lane_.source[size_ - 1] = static_cast<std::byte>(index + 1);
}

void LatencyRun::verify(uint64_t index) noexcept {
  if (!o_.validate) return;
  // The last byte of a WRITE is the flag that the receiver polled, so it has been compared.
  const uint64_t size = shows_in_memory() ? size_ - 1 : size_;
  if (o_.operation == Operation::atomic) {
    uint64_t before = 0;
    std::memcpy(&before, lane_.target, sizeof before);
    const bool adds = o_.atomic == AtomicType::fetch_add;
    if (before != (adds ? index : 0)) mismatches_ += sizeof before;
  } else {
    const uint64_t pattern = o_.operation == Operation::read ? 0 : index;
    mismatches_ += compare_pattern(lane_.target, size, pattern, !o_.is_server());
  }
  verified_ += size_;
}

bool LatencyRun::arrived(uint64_t index) noexcept {
  if (receiver_ != nullptr) return receiver_->received() > index;
  const auto* flag = reinterpret_cast<const uint8_t*>(lane_.target + size_ - 1);
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == static_cast<uint8_t>(index + 1);
}

// Returns when the message has arrived, or after a bounded time.
void LatencyRun::wait_a_while(uint64_t index) noexcept {
  constexpr int kLooks = 4096;
  if (receiver_ != nullptr) {
    const auto turn = [&] { return receiver_->turn(); };
    for (int i = 0; i < kLooks; ++i)
      if (turn() || receiver_->failure_seen()) return;
    if (o_.events) sleep_for_events(session_, turn);
  } else if (o_.spin_memory) {
    for (int i = 0; i < kLooks && !arrived(index); ++i) {
    }
  } else {
    (void)session_.device.wait_until([&] { return arrived(index); }, Duration::from_ms(20));
  }
}

// Returns true when message `index` has arrived, false if the run has ended before.
Result<bool> LatencyRun::await(uint64_t index) {
  const Ticks begun = o_.unreliable() ? ticks() : 0;
  for (;;) {
    wait_a_while(index);
    if (arrived(index)) return true;
    if (begun != 0 && static_cast<double>(ticks() - begun) > kLossTimeoutUs * ticks_per_us())
      return Error{Code::timed_out,
                   "a message was lost, and this service does not retransmit: run it again, "
                   "or use -c RC"};
    // Nothing has arrived for a while: check the peer and the end of the run.
    (void)poster_.reap();
    if (const Result<void> fine = poster_.failure(); !fine) return fine.error();
    if (receiver_ != nullptr)
      if (const auto failure = receiver_->failure()) return *failure;
    if (const Result<void> fine = session_.control->check(); !fine) return fine.error();
    if (const auto count = session_.control->take_stop()) stopped_at_ = *count;
    if (index >= stopped_at_) return false;
  }
}

bool LatencyRun::is_over(uint64_t index, uint64_t count) noexcept {
  if (deadline_ != 0) return ticks() >= deadline_;
  return index >= count;
}

// SEND and WRITE: the client sends first.
Result<void> LatencyRun::bounce(uint64_t count, bool timed, bool record) {
  const bool client = !o_.is_server();
  Progress progress(size_, o_);
  Ticks before = ticks();
  uint64_t index = 0;
  for (;; ++index) {
    if (timed ? client && is_over(index, count) : index >= count) break;
    if (client) {
      prepare(index);
      if (o_.validate || index == 0) before = ticks();
      if (!poster_.post()) return poster_.failure();
    }
    const Result<bool> came = await(index);
    if (!came) return came.error();
    if (!*came) break;
    const Ticks now = ticks();
    if (record && (client || index > 0)) recorder_.add(now - before);
    before = now;
    verify(index);
    if (!client) {
      prepare(index);
      if (!poster_.post()) return poster_.failure();
    }
    if (++looks_ % 4096 == 0) {
      progress.update(index);
      if (const Result<void> fine = session_.control->check(); !fine) return fine;
    }
  }
  if (timed && client) session_.control->stop(index);
  return {};
}

// READ and atomics: only the client posts.
Result<void> LatencyRun::fetch(uint64_t count, bool timed, bool record) {
  Progress progress(size_, o_);
  const auto idle = [&]() -> Result<void> {
    if (o_.events) sleep_for_events(session_, [&] { return poster_.reap(); });
    if (++looks_ % 4096 != 0) return {};
    return session_.control->check();
  };
  Ticks before = ticks();
  for (uint64_t index = 0; timed ? !is_over(index, count) : index < count; ++index) {
    if (o_.validate || index == 0) before = ticks();
    if (const Result<void> done = poster_.post_and_wait(idle); !done) return done;
    const Ticks now = ticks();
    if (record) recorder_.add(now - before);
    before = now;
    verify(index);
    if (index % 4096 == 0) progress.update(index);
  }
  return {};
}

Result<SizeResult> LatencyRun::run() {
  const bool fetches = o_.one_sided();
  const bool timed = o_.duration_s > 0;
  for (const bool warm_up : {true, false}) {
    if (warm_up && !o_.warm_up) continue;
    std::fill_n(lane_.target, size_, std::byte{0});  // clear the flag of an earlier size
    std::fill_n(lane_.source, std::max<uint64_t>(size_, 8), std::byte{0});
    if (o_.validate && o_.operation == Operation::read)
      fill_pattern(lane_.source, size_, 0, o_.is_server());
    if (receiver_ != nullptr) receiver_->start(size_, false);
    if (const auto met = session_.control->barrier({}); !met) return met.error();
    const bool to_time = timed && !warm_up;
    deadline_ = to_time ? ticks() + static_cast<Ticks>(o_.duration_s * 1e6 * ticks_per_us()) : 0;
    const uint64_t count = warm_up ? kWarmUp : o_.iterations;
    Result<void> ran;
    if (!fetches) ran = bounce(count, to_time, !warm_up);
    if (fetches && !o_.is_server()) ran = fetch(count, to_time, !warm_up);
    if (!ran) return ran.error();
    if (warm_up)
      if (const auto met = session_.control->barrier({}); !met) return met.error();
  }
  SizeResult result;
  result.size = size_;
  result.measured = !fetches || !o_.is_server();
  result.latency = recorder_.summary((fetches ? 1.0 : 0.5) / ticks_per_us());
  return with_verification(*session_.control, std::move(result), verified_, mismatches_);
}

}  // namespace

Result<SizeResult> run_latency(Session& session, uint64_t size, Receiver* receiver) {
  return LatencyRun(session, size, receiver).run();
}

}  // namespace weft::bench
