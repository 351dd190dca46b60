// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a bandwidth run: a Sender keeps the send queues of all lanes full, a Receiver the
// receive queues. turn() does a bounded amount of work, so that one thread can run both. All
// requests are built in advance, so that the library is measured and not this loop.
#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "bench/perftest/clock.hpp"
#include "bench/perftest/session.hpp"
#include "bench/perftest/stats.hpp"

namespace weft::bench {

// One request for message `slot` of a lane, unsignaled; `sge` must outlive it.
SendRequest make_request(const Session& session, const Lane& lane, uint64_t size, uint64_t slot,
                         Sge& sge);

class Sender {
 public:
  static constexpr uint64_t kEndless = UINT64_MAX;

  Sender(Session& session, uint64_t size);

  // Starts a run of `per_lane` messages on each lane, or until finish(). Nothing may be in flight.
  void start(uint64_t per_lane, bool record);
  // Posts requests and polls completions. Returns true if there was any progress.
  bool turn() noexcept;
  // Ends an endless run with one last signaled message per lane.
  void finish() noexcept;
  bool done() const noexcept { return failure_ || completed_ == goal_; }
  uint64_t completed() const noexcept { return completed_; }
  std::optional<Error> failure() const;
  // In messages, not bytes.
  BandwidthSummary summary() const;

 private:
  struct Stream {
    const QueuePair* qp = nullptr;
    std::vector<Sge> sges;
    std::vector<SendRequest> ring;  // every moderation_-th is signaled; n * moderation_ requests
    SendRequest last;               // signaled, for finish()
    size_t next = 0;
    uint64_t posted = 0;
    uint64_t completed = 0;
    uint64_t quota = 0;
  };

  bool fill(Stream& stream) noexcept;
  bool post(Stream& stream, std::span<const SendRequest> requests) noexcept;
  bool reap() noexcept;

  Session& session_;
  uint32_t depth_;
  uint32_t list_;
  uint32_t moderation_;
  std::vector<Stream> streams_;
  uint64_t completed_ = 0;
  uint64_t goal_ = 0;
  bool failure_ = false;
  Status status_ = Status::success;
  const char* post_error_ = nullptr;
  bool record_ = false;
  Ticks first_post_ = 0;
  Ticks last_completion_ = 0;
  std::vector<Ticks> posted_at_;
  std::vector<Ticks> completed_at_;
};

class Receiver {
 public:
  explicit Receiver(Session& session);

  // Fills the receive queues; before the first message.
  Result<void> prime();
  // Starts a run with messages of `size`; `stamps`: take time stamps for summary().
  void start(uint64_t size, bool stamps) noexcept;
  bool turn() noexcept;
  uint64_t received() const noexcept { return received_; }
  bool failure_seen() const noexcept { return failure_; }
  std::optional<Error> failure() const;
  BandwidthSummary summary() const;

 private:
  struct Stream {
    const Lane* lane = nullptr;
    std::vector<Sge> sges;
    std::vector<RecvRequest> ring;
    size_t next = 0;
    size_t to_repost = 0;  // completed and not posted again
  };

  Session& session_;
  size_t batch_;
  std::vector<Stream> streams_;
  uint64_t size_ = 0;
  bool stamps_ = true;
  uint64_t received_ = 0;
  uint64_t first_batch_ = 0;
  Ticks first_ = 0;
  Ticks last_ = 0;
  bool failure_ = false;
  Status status_ = Status::success;
};

// Sleeps until a completion may have arrived: arms both CQs, takes one more turn, and waits unless
// that made progress. At most 100 ms, so that the caller can check the peer.
template <class Turn>
void sleep_for_events(const Session& session, Turn turn) {
  session.send_cq.arm();
  session.recv_cq.arm();
  if (turn()) return;  // it arrived before arming
  pollfd fds[2] = {{session.send_cq.fd(), POLLIN, 0}, {session.recv_cq.fd(), POLLIN, 0}};
  if (poll(fds, 2, 100) <= 0) return;
  if (fds[0].revents != 0) session.send_cq.acknowledge();
  if (fds[1].revents != 0) session.recv_cq.acknowledge();
}

// The error for a request that completed with `status`.
Error completion_error(Status status, bool sending);

}  // namespace weft::bench
