// SPDX-License-Identifier: BSD-3-Clause
// The RoCE engine. It does no I/O: time, randomness and packets are arguments, so the same code
// runs over sockets, shared memory and the simulator. What it has in common with other protocols,
// and what a driver needs to know, is in machine.hpp.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/buckets.hpp"
#include "lib/base/permutation.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/congestion/registry.hpp"
#include "lib/roce/message/shared_receives.hpp"
#include "lib/roce/state/destination.hpp"
#include "lib/roce/state/general_services.hpp"
#include "lib/roce/state/multicast_groups.hpp"
#include "lib/roce/state/queue_pair.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/roce/state/violations.hpp"
#include "lib/transport/qp_table.hpp"
#include "lib/transport/verbs_common.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

struct EngineConfig {
  Limits limits;
  Instant start;
  // Congestion control of RC and XRC requesters; none: as fast as the destination's window lets
  // them.
  std::optional<congestion::Preset> congestion;
  // For controllers that single queue pairs choose.
  congestion::Conditions conditions{
      .line = Rate::from_gbps(10), .rtt = Duration::from_us(50), .network = {}};
  Duration cnp_interval = Duration::from_us(50);  // between CNPs of one queue pair; 0: one a mark
  // A paced queue pair that was held up may catch up on this much time: the length of a burst.
  Duration pacing_quantum = Duration::from_us(10);
  // What a paced packet takes of its link besides payload. None: what it takes of Ethernet.
  std::optional<uint32_t> frame_overhead;
  uint16_t early_packets = 2048;  // kept behind gaps, of all queue pairs together: rc/early.hpp
  // False: zero stands where the ICRC would, and nothing else is taken: for paths that change what
  // it covers (address translation), between peers that both say so. Whoever signs drops us as
  // damaged, and we drop them.
  bool icrc = true;
  bool throttle = false;  // peers that use wrong keys again and again: violations.hpp
  bool credits = true;    // advertise end-to-end credits; false: always "unlimited", as kernel rxe
};

// The XRC domain of a pool, and where its receives complete; 0: none.
struct XrcBinding {
  uint32_t domain = 0;
  CompletionQueue* cq = nullptr;
};

class Engine final : public Machine {
 public:
  // `port` is asked for its capabilities, address, QPNs and source ports; the caller moves frames.
  Engine(Port& port, const EngineConfig& config, base::SecureRandom& random);
  ~Engine() override;

  // The packet side. In transmit() an acknowledgement waits for one call, to ride behind data.
  void receive(std::span<const Frame> frames, Instant now) noexcept override;
  size_t transmit(std::span<TxFrame> frames, Instant now) noexcept override;
  void expire(Instant now) noexcept override;
  bool wants_transmit() const noexcept override {
    return has_active() || !acks_.empty() || !notices_.empty();
  }
  bool has_active() const noexcept override {
    return !active_.empty() || !handed_.empty() ||
           (services_ != nullptr && services_->wants_transmit());
  }

  // The verbs side. Pointers stay valid until destroy_qp.
  Result<QueuePair*> create_qp(const QpConfig& config);
  // Frames in the caller's hands may name its path: they go first (lib/driver).
  void destroy_qp(QueuePair* qp) noexcept;
  // What `qp` owes its peer (a waiting acknowledgement too) leaves with the next transmit(). False:
  // it owes nothing.
  bool flush_pending_ack(QueuePair& qp) noexcept;
  Result<void> modify_qp(QueuePair& qp, const QueuePairAttributes& change);
  // UD. The port joins a group with its first member and leaves it with the last.
  Result<void> attach_multicast(QueuePair& qp, const Gid& group);
  Result<void> detach_multicast(QueuePair& qp, const Gid& group);
  PostStatus post_send(QueuePair& qp, std::span<const SendRequest> requests, Instant now) noexcept;
  PostStatus post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept;
  // Lives as long as the queue pairs that were created with it.
  Result<std::unique_ptr<SharedReceives>> create_shared_receives(
      uint32_t domain, const SharedReceiveQueueOptions& options, const XrcBinding& xrc = {});
  // XRC: nobody can name it any more; what it lent is lost. Before the end of such a pool.
  void withdraw(SharedReceives& pool) noexcept;
  PostStatus post_recv(SharedReceives& pool, std::span<const RecvRequest> requests) noexcept;

  // Who answers at queue pair 1; nullptr: nobody. After each call to it from outside the packet
  // side, services_changed().
  void attach_services(GeneralServices* services) noexcept { services_ = services; }
  void services_changed() noexcept;

  const EngineConfig& config() const noexcept { return config_; }
  // A part of all queue pairs: see base::visit_buckets().
  template <class Visit>
  size_t visit_qps(size_t bucket, size_t count, Visit visit) const {
    return base::visit_buckets(owned_, bucket, count, [&](const auto& e) { visit(*e.second); });
  }

  // For the handlers in rc/, uc/ and ud/, which are functions over (Engine, QueuePair, ...).
  void activate(QueuePair& qp) noexcept { active_.push(qp); }
  void queue_ack(QueuePair& qp) noexcept;
  // Its acknowledgement, which waits, was behind replies that have left.
  void resume_ack(QueuePair& qp) noexcept { line_up_ack(qp); }
  // A READ response came, in its turn or not: its sender hears of it, where that is agreed.
  void owe_report(QueuePair& qp, Psn psn) noexcept;
  void count_departure(uint64_t late_ns) noexcept;
  // Requests of UC and UD are done when the port has taken their frames: at the next transmit().
  void hand_over(QueuePair& qp) noexcept { handed_.push(qp); }
  void arm_timer(QueuePair& qp, Instant deadline) noexcept;
  void complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                bool solicited) noexcept {
    if (!deliver(qp.number, cq, completion, solicited)) fail_overrun(qp);
  }
  // Revokes the remote rights of a region for SEND_WITH_INV; false if the key is not the QP's to
  // name.
  bool invalidate(QueuePair& qp, uint32_t key) noexcept;
  void wait_for_window(QueuePair& qp) noexcept { qp.destination->line.push(qp); }
  // Lets the first in line in. transmit() calls this again when it has been served, so that a
  // thousand queue pairs are not all woken for room that one of them takes.
  void wake_waiting(Destination& d) noexcept {
    if (!d.line.empty() && d.window.open()) activate(d.line.pop());
  }
  uint32_t transmit_turn() const noexcept { return turn_; }
  // A pool of XRC by its number, or nullptr.
  SharedReceives* find_pool(uint32_t number) const noexcept {
    const auto found = pools_.find(number);
    return found != pools_.end() ? found->second : nullptr;
  }
  rc::EarlyPackets& early() noexcept { return early_; }
  // The peer used a key that it has not got, and that ends its queue pair.
  void note_violation(const QueuePair& qp) noexcept;

 private:
  void fail_overrun(QueuePair& qp) noexcept;
  void receive_one(const Frame& frame, Instant now) noexcept;
  size_t fill(std::span<TxFrame> frames, Instant now) noexcept;
  bool serve(QueuePair& qp, Instant now) noexcept;
  void receive_telemetry(const Frame& frame, Instant now) noexcept;
  void receive_packet(const Frame& frame, const wire::IntBlock* telemetry, Instant now) noexcept;
  void note_first_request(QueuePair& qp, Instant now) noexcept;
  void receive_multicast(const wire::Packet& packet, const Frame& frame) noexcept;
  void receive_management(const wire::Packet& packet, const Frame& frame, Instant now) noexcept;
  void transmit_management() noexcept;
  void note_mark(QueuePair& qp, Instant now) noexcept;
  void transmit_notices() noexcept;
  void emit_cnp(QueuePair& qp) noexcept;
  void line_up_ack(QueuePair& qp) noexcept;
  bool acks_due() const noexcept {
    return !acks_.empty() && static_cast<int32_t>(turn_ - acks_due_) >= 0;
  }
  void transmit_acks() noexcept;
  bool transmit_ack(QueuePair& qp) noexcept;
  Result<void> choose_controller(QueuePair& qp, std::string_view name);
  QpNum choose_number() noexcept;
  Result<void> enter_rtr(QueuePair& qp);
  void enter_rts(QueuePair& qp);
  void reset_qp(QueuePair& qp) noexcept;
  Destination* acquire_destination(const Gid& address);
  void release_destination(QueuePair& qp) noexcept;
  void remove_from_lists(QueuePair& qp) noexcept;

  EngineConfig config_;
  std::optional<HostQueue> host_queue_;
  base::TimerWheel wheel_;
  QpTable<QueuePair> qps_;
  ud::Groups groups_;
  GeneralServices* services_ = nullptr;
  Psn management_psn_;
  base::Line<QueuePair, &QueuePair::active> active_;  // round robin
  base::Line<QueuePair, &QueuePair::ack_line> acks_;
  base::Line<QueuePair, &QueuePair::notices> notices_;  // they owe a CNP or a report
  base::Line<QueuePair, &QueuePair::handed> handed_;
  uint32_t turn_ = 0;
  uint32_t acks_due_ = 0;    // none in the line is due before this turn
  bool acks_first_ = false;  // the last transmit() had no room for them
  rc::EarlyPackets early_;
  std::unordered_map<uint32_t, std::unique_ptr<QueuePair>> owned_;
  base::Permutation number_order_;  // of queue pairs
  uint32_t numbers_drawn_ = 0;
  uint32_t pools_made_ = 0;                              // of shared receives
  std::unordered_map<uint32_t, SharedReceives*> pools_;  // of XRC domains, by number
  std::vector<std::unique_ptr<Destination>> destinations_;
  Violations violations_;
};

}  // namespace weft::roce
