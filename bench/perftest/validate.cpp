// SPDX-License-Identifier: BSD-3-Clause
// --data_validation of the bandwidth programs. Data moves in rounds: the source fills as many
// buffers as requests may be outstanding, each with its own pattern; all are transferred; the side
// with the result compares every byte. The bandwidth includes only the time of the transfers.
// Atomics count: each result must be the number of atomics before it. Unordered SENDs may take the
// receives of a round in any order: each message must arrive once.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "bench/perftest/run.hpp"

namespace weft::bench {
namespace {

// Hashed (splitmix64's finalizer), so that adjacent bytes and messages differ.
uint64_t pattern_word(uint64_t index, uint64_t word, bool from_server) noexcept {
  uint64_t x = index * 0x9E3779B97F4A7C15 + word * 0xD1B54A32D192ED03 + (from_server ? 1 : 0);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

struct Round {
  uint64_t base = 0;    // messages of a lane before this round
  uint64_t window = 0;  // messages of a lane in it
};

// The index of a message, different on all lanes.
uint64_t index_of(size_t lane, uint64_t base, uint64_t slot) {
  return (static_cast<uint64_t>(lane) << 40) + base + slot;
}

class Validator {
 public:
  Validator(Session& session, uint64_t size)
      : session_(session), o_(session.options), size_(size), server_(o_.is_server()) {}

  Result<SizeResult> run();

 private:
  Result<void> prepare(const Round& round);
  Result<void> transfer(const Round& round);
  void verify(const Round& round);
  void verify_lane(size_t lane, const Round& round);
  void verify_atomics(size_t lane, const Round& round);
  void check_total(uint64_t total);
  bool post(size_t lane, const Round& round);
  std::byte* at(std::byte* area, uint64_t slot) const {
    return area + slot * session_.stride(size_);
  }
  void wrong(uint64_t bytes, size_t lane, uint64_t message);

  Session& session_;
  const Options& o_;
  uint64_t size_;
  bool server_;
  Ticks moving_ = 0;
  uint64_t verified_ = 0;
  uint64_t mismatches_ = 0;
};

void Validator::wrong(uint64_t bytes, size_t lane, uint64_t message) {
  if (bytes == 0) return;
  if (mismatches_ == 0)
    std::fprintf(stderr,
                 "data validation: message %llu of queue pair %zu: %llu of %llu bytes wrong\n",
                 static_cast<unsigned long long>(message), lane,
                 static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(size_));
  mismatches_ += bytes;
}

Result<void> Validator::prepare(const Round& round) {
  const bool sends = o_.operation == Operation::send || o_.operation == Operation::write;
  const bool fills =
      (sends && session_.is_active()) || (o_.operation == Operation::read && session_.is_passive());
  for (size_t i = 0; i < session_.lanes.size(); ++i) {
    const Lane& lane = session_.lanes[i];
    for (uint64_t k = 0; k < round.window; ++k) {
      if (fills) fill_pattern(at(lane.source, k), size_, index_of(i, round.base, k), server_);
      if (o_.operation != Operation::send || !session_.is_passive()) continue;
      const Sge sge = session_.sge(at(lane.target, k), size_);
      const RecvRequest receive{.id = k, .sges = {&sge, 1}};
      const PostStatus status = session_.post_receives(lane, {&receive, 1});
      if (!status) return Error{status.code, std::string("cannot post receives: ") + status.reason};
    }
  }
  return {};
}

bool Validator::post(size_t lane, const Round& round) {
  for (uint64_t k = 0; k < round.window; ++k) {
    Sge sge;
    SendRequest request = make_request(session_, session_.lanes[lane], size_, k, sge);
    request.flags = request.flags | SendFlags::signaled;
    if (request.opcode == Opcode::compare_swap) {
      request.compare_add = round.base + k;
      request.swap = round.base + k + 1;
    }
    if (!session_.lanes[lane].qp.post_send(request)) return false;
  }
  return true;
}

Result<void> Validator::transfer(const Round& round) {
  const uint64_t all = round.window * session_.lanes.size();
  uint64_t to_send = session_.is_active() ? all : 0;
  uint64_t to_receive = o_.operation == Operation::send && session_.is_passive() ? all : 0;
  const Ticks start = ticks();
  if (to_send != 0)
    for (size_t i = 0; i < session_.lanes.size(); ++i)
      if (!post(i, round))
        return Error{Code::io_error, "post_send refused a request: the send queue is full"};
  Completion completions[64];
  for (uint32_t turn = 1; to_send + to_receive > 0; ++turn) {
    for (const bool sending : {true, false}) {
      const CompletionQueue& cq = sending ? session_.send_cq : session_.recv_cq;
      const size_t n = cq.poll(completions);
      for (size_t i = 0; i < n; ++i) {
        if (completions[i].status != Status::success)
          return completion_error(completions[i].status, sending);
        if (!sending && completions[i].byte_count != size_) wrong(size_, 0, completions[i].id);
      }
      (sending ? to_send : to_receive) -= n;
    }
    if (turn % 1024 != 0) continue;
    if (const Result<void> fine = session_.control->check(); !fine) return fine;
  }
  moving_ += ticks() - start;
  return {};
}

void Validator::verify_atomics(size_t lane, const Round& round) {
  for (uint64_t k = 0; k < round.window; ++k) {
    uint64_t before = 0;
    std::memcpy(&before, at(session_.lanes[lane].target, k), sizeof before);
    if (before != round.base + k) wrong(sizeof before, lane, round.base + k);
  }
}

// The slots 0 .. window-1 must hold the messages 0 .. window-1: each in its own slot or, if the
// service does not order SENDs, each in one of them, identified by its first bytes.
void Validator::verify_lane(size_t lane, const Round& round) {
  const bool own = !(o_.operation == Operation::send && o_.service == QpType::srd);
  std::vector<uint64_t> missing(round.window);
  std::iota(missing.begin(), missing.end(), uint64_t{0});
  for (uint64_t k = 0; k < round.window; ++k) {
    const std::byte* const landed = at(session_.lanes[lane].target, k);
    auto message = missing.begin();
    if (!own)
      message = std::find_if(missing.begin(), missing.end(), [&](uint64_t candidate) {
        const uint64_t index = index_of(lane, round.base, candidate);
        return compare_pattern(landed, std::min<uint64_t>(size_, 8), index, !server_) == 0;
      });
    if (message == missing.end()) {
      wrong(size_, lane, round.base + k);
      continue;
    }
    const uint64_t index = index_of(lane, round.base, *message);
    wrong(compare_pattern(landed, size_, index, !server_), lane, round.base + *message);
    missing.erase(message);
  }
}

void Validator::verify(const Round& round) {
  const bool holds = o_.one_sided() ? session_.is_active() : session_.is_passive();
  if (!holds) return;
  for (size_t i = 0; i < session_.lanes.size(); ++i) {
    verified_ += round.window * size_;
    if (o_.operation == Operation::atomic) {
      verify_atomics(i, round);
      continue;
    }
    verify_lane(i, round);
  }
}

void Validator::check_total(uint64_t total) {
  if (o_.operation != Operation::atomic || !session_.is_passive()) return;
  for (size_t i = 0; i < session_.lanes.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, session_.lanes[i].source, sizeof word);
    if (word != total) wrong(sizeof word, i, total);
  }
}

Result<SizeResult> Validator::run() {
  const bool timed = o_.duration_s > 0;
  const uint64_t end_ns = monotonic_ns() + static_cast<uint64_t>(o_.duration_s * 1e9);
  uint64_t most = std::min<uint64_t>(o_.tx_depth, session_.slots(size_));
  if (o_.operation == Operation::send) most = std::min<uint64_t>(most, o_.rx_depth);
  if (o_.operation == Operation::atomic)
    for (Lane& lane : session_.lanes) std::memset(lane.source, 0, sizeof(uint64_t));
  Progress progress(size_, o_);
  Round round;
  for (bool over = false; !over; round.base += round.window) {
    round.window = timed ? most : std::min(most, o_.iterations - round.base);
    if (const auto done = prepare(round); !done) return done.error();
    if (const auto met = session_.control->barrier({}); !met) return met.error();
    if (const auto done = transfer(round); !done) return done.error();
    ControlMessage ours;
    const uint64_t moved = round.base + round.window;
    ours.count = timed ? monotonic_ns() >= end_ns : moved >= o_.iterations;
    const Result<ControlMessage> theirs = session_.control->barrier(ours);
    if (!theirs) return theirs.error();
    over = ours.count != 0 || theirs->count != 0;
    verify(round);
    progress.update(moved * o_.qps);
  }
  check_total(round.base);

  SizeResult result;
  result.size = size_;
  const double us = static_cast<double>(moving_) / ticks_per_us();
  const int directions = o_.bidirectional ? 2 : 1;
  result.bandwidth.iterations = round.base * session_.lanes.size();
  result.bandwidth.message_rate =
      static_cast<double>(result.bandwidth.iterations) * directions / us * 1e6;
  result.bandwidth.average = result.bandwidth.message_rate * static_cast<double>(size_);
  result.measured = session_.is_active() || o_.operation == Operation::send;
  return with_verification(*session_.control, std::move(result), verified_, mismatches_);
}

}  // namespace

Result<SizeResult> with_verification(Control& control, SizeResult result, uint64_t verified_bytes,
                                     uint64_t mismatches) {
  ControlMessage ours;
  ours.mismatches = mismatches;
  ours.count = verified_bytes;
  const Result<ControlMessage> peer = control.barrier(ours);
  if (!peer) return peer.error();
  result.mismatches = mismatches + peer->mismatches;
  result.verified_bytes = verified_bytes + peer->count;
  return result;
}

void fill_pattern(std::byte* at, uint64_t size, uint64_t index, bool from_server) noexcept {
  uint64_t done = 0;
  for (; done + 8 <= size; done += 8) {
    const uint64_t word = pattern_word(index, done / 8, from_server);
    std::memcpy(at + done, &word, 8);
  }
  const uint64_t word = pattern_word(index, done / 8, from_server);
  std::memcpy(at + done, &word, size - done);
}

uint64_t compare_pattern(const std::byte* at, uint64_t size, uint64_t index,
                         bool from_server) noexcept {
  uint64_t wrong = 0;
  for (uint64_t done = 0; done < size; done += 8) {
    const uint64_t word = pattern_word(index, done / 8, from_server);
    const uint64_t length = std::min<uint64_t>(8, size - done);
    if (std::memcmp(at + done, &word, length) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(&word);
    for (uint64_t i = 0; i < length; ++i) wrong += at[done + i] != expected[i];
  }
  return wrong;
}

Result<SizeResult> run_validation(Session& session, uint64_t size) {
  return Validator(session, size).run();
}

}  // namespace weft::bench
