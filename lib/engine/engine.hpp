// SPDX-License-Identifier: BSD-3-Clause
// The protocol engine. It does no I/O: time, randomness and packets are arguments, so the same code
// runs over sockets, shared memory and the simulator. Single-threaded: the caller holds the lock
// (see lib/driver). Work per call is bounded, a spurious call is a no-op, `now` is read once per
// burst.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/permutation.hpp"
#include "lib/base/random.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/engine/counters.hpp"
#include "lib/engine/frame_builder.hpp"
#include "lib/engine/port.hpp"
#include "lib/engine/qp_table.hpp"
#include "lib/engine/queue_pair.hpp"
#include "lib/memory/key_table.hpp"
#include "lib/wire/parse.hpp"

namespace weft::engine {

struct Limits {
  uint32_t max_qp = 65536;
  uint32_t max_qp_wr = 1u << 20;
  uint32_t max_sge = 32;
  uint32_t max_inline = 1024;
  uint32_t max_cqe = 1u << 22;
  uint32_t max_rd_atomic = 128;
  uint64_t max_message = 1ull << 31;
};

struct EngineConfig {
  Limits limits;
  Instant start;
  bool credits = true;  // advertise end-to-end credits; false: always "unlimited", as kernel rxe
};

struct QpConfig {
  QpType type = QpType::rc;
  uint32_t domain = 0;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  uint32_t max_send_wr = 128;
  uint32_t max_recv_wr = 128;
  uint32_t max_send_sge = 4;
  uint32_t max_recv_sge = 4;
  uint32_t max_inline = 64;
  bool signal_all = false;
};

class Engine {
 public:
  // `port` is asked for its capabilities, address, QPNs and source ports; the caller moves frames.
  Engine(Port& port, const EngineConfig& config, base::SecureRandom& random);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The packet side.
  void receive(std::span<const Frame> frames, Instant now) noexcept;
  // Fills up to frames.size() frames to send; their memory stays valid until the next transmit().
  // An acknowledgement waits for one call, to ride behind data.
  size_t transmit(std::span<TxFrame> frames, Instant now) noexcept;
  void expire(Instant now) noexcept;
  // When expire() must be called; not later than the first deadline, perhaps earlier.
  Instant next_deadline() const noexcept { return next_deadline_; }
  // True if transmit() has something to do now, a waiting acknowledgement included.
  bool wants_transmit() const noexcept { return active_head_ != nullptr || ack_head_ != nullptr; }

  bool has_active() const noexcept { return active_head_ != nullptr; }
  // True if a request of more than a page waits: it fills trains by itself.
  bool has_bulk() const noexcept { return bulk_posted_; }
  // True once after a completion queue that was armed got a completion.
  bool take_fired() noexcept { return std::exchange(fired_, false); }

  // The verbs side. Pointers stay valid until destroy_qp.
  Result<QueuePair*> create_qp(const QpConfig& config);
  // Frames in the caller's hands may name its path: they go first (lib/driver).
  void destroy_qp(QueuePair* qp) noexcept;
  // What `qp` owes its peer (a waiting acknowledgement too) leaves with the next transmit(). False:
  // it owes nothing.
  bool hurry(QueuePair& qp) noexcept;
  Result<void> modify_qp(QueuePair& qp, const QueuePairAttributes& change);
  PostStatus post_send(QueuePair& qp, std::span<const SendRequest> requests, Instant now) noexcept;
  PostStatus post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept;

  memory::KeyTable& keys() noexcept { return keys_; }
  const EngineConfig& config() const noexcept { return config_; }
  const Counters& counters() const noexcept { return counters_; }
  // Moves the next asynchronous event to `event`; false if there is none.
  bool next_event(AsyncEvent& event) noexcept;
  bool has_event() const noexcept { return !events_.empty(); }

  // For the handlers in rc/, which are functions over (Engine, QueuePair, ...).
  void activate(QueuePair& qp) noexcept;
  void queue_ack(QueuePair& qp) noexcept;
  void arm_timer(QueuePair& qp, Instant deadline) noexcept;
  void complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                bool solicited) noexcept;
  // Revokes the remote rights of a region for SEND_WITH_INV; false if the key is not the QP's to
  // name.
  bool invalidate(QueuePair& qp, uint32_t key) noexcept;
  void raise(EventType type, QpNum qp) noexcept;
  void wake_waiting(Destination& destination) noexcept;
  void wait_for_window(QueuePair& qp) noexcept;
  void count(Count c, uint64_t n = 1) noexcept { counters_.add(c, n); }
  bool checks_icrc() const noexcept { return capabilities_.integrity_bits != 0; }
  const Capabilities& capabilities() const noexcept { return capabilities_; }
  uint32_t transmit_turn() const noexcept { return turn_; }

 private:
  void receive_one(const Frame& frame, Instant now) noexcept;
  bool verify_icrc(const Frame& frame) noexcept;
  void ack_behind(QueuePair& qp, size_t frames) noexcept;
  void transmit_acks(Instant now) noexcept;
  QpNum choose_number() noexcept;
  Result<void> enter_rtr(QueuePair& qp);
  void enter_rts(QueuePair& qp);
  void reset_qp(QueuePair& qp) noexcept;
  Destination* acquire_destination(const Gid& address);
  void release_destination(QueuePair& qp) noexcept;
  void remove_from_lists(QueuePair& qp) noexcept;

  Port& port_;
  EngineConfig config_;
  Capabilities capabilities_;
  base::SecureRandom& random_;
  memory::KeyTable keys_;
  Counters counters_;
  base::TimerWheel wheel_;
  Instant next_deadline_ = Instant::never();  // cached: asked for every turn
  QpTable qps_;
  FrameBuilder builder_;
  QueuePair* active_head_ = nullptr;  // round robin of queue pairs with something to send
  QueuePair* active_tail_ = nullptr;
  QueuePair* ack_head_ = nullptr;  // queue pairs whose acknowledgement waits
  QueuePair* ack_tail_ = nullptr;
  uint32_t turn_ = 0;
  bool fired_ = false;
  bool bulk_posted_ = false;
  std::unordered_map<uint32_t, std::unique_ptr<QueuePair>> owned_;
  base::Permutation number_order_;  // of queue pairs
  uint32_t numbers_drawn_ = 0;
  std::vector<std::unique_ptr<Destination>> destinations_;
  std::deque<AsyncEvent> events_;
};

}  // namespace weft::engine
