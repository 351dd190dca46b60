// SPDX-License-Identifier: BSD-3-Clause
// The SRD engine: a protocol machine beside the RoCE one. It shares the key table, completion
// queues, the frame builder and the ports with it, and no transport state. lib/wire/SRD.md has the
// rules; README.md in this folder follows a message through these files.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/buckets.hpp"
#include "lib/base/permutation.hpp"
#include "lib/congestion/rccc.hpp"
#include "lib/srd/state/assembly.hpp"
#include "lib/srd/state/peer.hpp"
#include "lib/srd/state/queue_pair.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/qp_table.hpp"
#include "lib/transport/verbs_common.hpp"
#include "lib/wire/srd_parse.hpp"

namespace weft::srd {

struct Config {
  Limits limits;
  Instant start;
  uint32_t epoch = 1;  // of streams that begin at `start`; grows by one each millisecond, also from
                       // one process to the next: wall-clock time
  uint32_t paths = 64;
  PathChoice policy = PathChoice::reps;
  bool path_counters = false;                    // paths() tells how many packets each path carried
  std::optional<congestion::Preset> congestion;  // what controls each flow; none: the port's window
  bool halves = true;                            // without a controller: that window, at a loss
  // For senders that wish for it.
  congestion::CreditPacer::Rules credit{
      .bits_per_second = 99e9, .grant_bytes = 16384, .most_bytes = 187'500};
  bool polices = false;  // what a sender sends beyond its credit is dropped
  Duration least_rto = Duration::from_us(100);
  Duration first_rto = Duration::from_ms(10);  // while no round trip has been measured
  Duration patience = Duration::from_s(5);     // without any answer, until a peer counts as dead
  uint32_t max_peers = 65536;
  // Packets of a peer that one acknowledgement answers, unless it is asked for or has waited as
  // long as this. 1: one for each burst that arrives.
  uint32_t ack_every = 1;
  Duration ack_delay = Duration::from_us(4);
  // An acknowledgement stays behind for a few calls of transmit(), but not longer than this, so
  // that the application's answer leaves before it, and one stands for several requests of a
  // dialogue. Zero: it leaves with the next call.
  Duration answer_first;
};

class Engine final : public Machine {
 public:
  Engine(Port& port, const Config& config, base::SecureRandom& random);
  ~Engine() override;

  void receive(std::span<const Frame> frames, Instant now) noexcept override;
  size_t transmit(std::span<TxFrame> frames, Instant now) noexcept override;
  void expire(Instant now) noexcept override;
  bool wants_transmit() const noexcept override {
    return !active_.empty() || !acks_.empty() || !replies_.empty() || !calling_.empty();
  }
  bool has_active() const noexcept override { return !active_.empty(); }

  // The verbs side. Pointers stay valid until destroy_qp.
  // Its number is `wanted` if that is free (0 is not), or drawn.
  Result<QueuePair*> create_qp(const QpConfig& config, QpNum wanted = {});
  void destroy_qp(QueuePair* qp) noexcept;
  // Something that a peer waits for leaves with the next transmit(): acknowledgements, answers.
  // They are owed by the device, not by one of its queue pairs.
  bool flush_pending_ack(QueuePair&) noexcept;
  Result<void> modify_qp(QueuePair& qp, const QueuePairAttributes& change);
  PostStatus post_send(QueuePair& qp, std::span<const SendRequest> requests, Instant now) noexcept;
  PostStatus post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept;

  const Config& config() const noexcept { return config_; }
  // A part of all queue pairs: see base::visit_buckets().
  template <class Visit>
  size_t visit_qps(size_t bucket, size_t count, Visit visit) const {
    return base::visit_buckets(qps_, bucket, count, [&](const auto& e) { visit(*e.second); });
  }
  uint32_t mtu() const noexcept { return mtu_; }
  // To one address of a peer, from all of ours.
  uint32_t path_count() const noexcept { return static_cast<uint32_t>(source_ports_.size()); }
  // What is known of the paths to the endpoint that has queue pair `number`; empty if nothing is.
  std::vector<PathReport> paths(const Gid& address, QpNum number);
  size_t peer_count() const noexcept { return peers_.size(); }
  // Entries in the table of peers' further addresses.
  size_t alias_count() const noexcept { return aliases_.size(); }
  // What we call ourselves towards one endpoint: nobody else can know it, so whoever names it hears
  // us. Another process at our address has another one.
  uint32_t incarnation_for(const Gid& address, uint32_t block) const noexcept;
  // Where the numbers begin that completions name peers by: each engine of a device has its own.
  uint32_t first_peer() const noexcept { return port_.qpn_range().first & ~0xFFFFu; }
  // The peer of Completion::source_peer, less first_peer(); null if there is none.
  const Peer* peer(uint32_t index) const noexcept {
    return index < peers_.size() ? peers_[index].get() : nullptr;
  }

 private:
  enum class Outcome : uint8_t { executed, refused, dropped };
  struct Arrival {  // a packet with what belongs to it
    const wire::SrdPacket& packet;
    const Frame& frame;
    Instant now;
    Peer* peer = nullptr;  // that it comes from; null: not known yet
    Way way = {};
  };
  struct Turn {  // back to where a packet came from
    Gid to;
    uint8_t local = 0;  // which of our addresses sends it
  };
  struct Reply {  // a refusal, a reset or an answer about rails that waits to leave
    Turn turn;
    wire::SrdPacket packet;
    uint32_t challenge = 0;
  };

  struct PeerPlace {  // a peer is looked at only when its hash is right
    Peer* peer = nullptr;
    uint32_t hash = 0;
  };

  // peers.cpp: who is known, and who is forgotten
  Peer* find_peer(const Gid& address, uint32_t block) noexcept;
  Peer* add_peer(const Gid& address, uint32_t block) noexcept;
  void make_place();
  void enter(PeerPlace place) noexcept;
  uint32_t evict() noexcept;
  void forget(uint32_t index) noexcept;
  void retire(uint32_t epoch) noexcept;
  Duration forget_after() const noexcept;
  void meet(Peer& peer) noexcept;
  void renew(Peer& peer, Instant now) noexcept;

  // engine.cpp: lists, timers
  void find_source_ports();
  void activate(Peer& peer) noexcept;
  void arm(Peer& peer, Instant deadline) noexcept;
  void complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                bool solicited) noexcept;
  uint32_t epoch_at(Instant now) const noexcept;

  // verbs.cpp
  QueuePair* find_qp(QpNum number) const noexcept { return by_number_.find(number); }
  void complete_flushed(QueuePair& qp, CompletionQueue& cq, uint64_t id, WorkType type) noexcept;
  void reset_qp(QueuePair& qp, bool flush) noexcept;

  // post.cpp
  const char* invalid_reason(const QueuePair& qp, const SendRequest& r,
                             uint32_t& length) const noexcept;
  bool append(QueuePair& qp, Peer& peer, const SendRequest& r, uint32_t length) noexcept;
  void enlist(Message& m) noexcept;
  void line_up(Message& m) noexcept;

  // order.cpp: SENDs that are received in order
  void number(Message& m) noexcept;
  void end_order(Message& m) noexcept;
  void start_later(Sender& tx) noexcept;
  bool may_bind(Peer& peer, QueuePair& qp, const wire::SrdPacket& p, wire::SrdReason& why) noexcept;
  void hold(Peer& peer, uint32_t number, const Completion& completion, bool solicited) noexcept;
  Outcome skip(Peer& peer, const wire::SrdPacket& abort) noexcept;
  OrderedReceives* ordered_receives(Receiver& rx) noexcept;
  void release_held(Peer& peer) noexcept;
  void drop_held(QueuePair& qp, bool flush) noexcept;
  void end_order(Receiver& rx) noexcept;

  // send.cpp: packets of a peer's stream
  void send_peer(Peer& peer, Instant now) noexcept;
  bool send_next(Peer& peer, Instant now) noexcept;
  void send_record(Peer& peer, uint64_t sequence, uint8_t path, Instant now) noexcept;
  bool build(Peer& peer, Record& r, uint64_t sequence) noexcept;
  bool add_payload(const Message& m, uint32_t offset, uint32_t length, bool first) noexcept;
  Message* next_message(Sender& tx) noexcept;
  void delist(Message& m) noexcept;
  void describe(const Message& m, const Record& r, wire::SrdPacket& p) const noexcept;
  bool begin_flight(Peer& peer, Instant now) noexcept;
  void end_flight(Peer& peer) noexcept;
  void drop_flight(Peer& peer) noexcept;
  uint8_t choose_path(Peer& peer, Instant now) noexcept;
  void probe_paths(Peer& peer, Instant now) noexcept;
  const Path& path_of(const Gid& to, uint8_t local, uint16_t source_port,
                      uint8_t traffic_class) noexcept;
  uint16_t source_port_of(uint8_t local, uint32_t path) const noexcept {
    return source_ports_[local * entropies_ + (path < entropies_ ? path : path % entropies_)];
  }
  Way way_of(const Peer& peer, uint32_t path) const noexcept {
    return path < entropies_ ? Way{} : peer.rails->way(path / entropies_);
  }
  bool room() const noexcept { return builder_.has_room() && paths_used_ < paths_.size(); }
  // send_ack.cpp: what is not sequenced
  void queue_ack(Peer& peer, Instant now) noexcept;
  void let_wait_behind(Peer& peer, size_t frames) noexcept;
  void send_due_acks(Instant now) noexcept;
  void send_replies() noexcept;
  static bool streams(const wire::SrdPacket& p) noexcept;
  static bool tells_more(const Receiver& rx, const wire::SrdPacket& p) noexcept;
  bool ack_may_wait(Peer& peer, const Arrival& arrival) noexcept;
  void send_acks(Instant now) noexcept;
  void send_ack(Peer& peer, Instant now) noexcept;

  // rails.cpp: several addresses
  const Gid& address_of(const Peer& peer, uint8_t remote) const noexcept {
    return remote == 0 ? peer.address : peer.rails->further()[remote - 1u];
  }
  std::optional<uint8_t> local_of(const Gid& address) const noexcept;
  std::optional<uint8_t> remote_of(const Peer& peer, const Gid& address) const noexcept;
  bool names_secret(const Peer& peer, const wire::SrdPacket& p) const noexcept;
  // The peer that a packet comes from, if it is known. False: it is nobody's.
  bool find_origin(Arrival& arrival) noexcept {
    if (uses_rails_) return find_among_rails(arrival);
    arrival.peer = find_peer(arrival.frame.path->source, arrival.packet.source.value >> 16);
    return true;
  }
  bool find_among_rails(Arrival& arrival) noexcept;
  void enter_aliases(const Peer& peer) noexcept;
  void leave_aliases(const Peer& peer) noexcept;
  void ask_for_ways(Peer& peer, Instant now) noexcept;
  void tell_of_rails(Peer& peer) noexcept;
  void send_rails(wire::SrdPacket p, const Turn& turn, uint32_t challenge, bool answers) noexcept;
  void on_rails(const Frame& frame, const wire::SrdPacket& p, Instant now) noexcept;
  bool learn_rails(Peer& peer, std::span<const Gid> list, Instant now) noexcept;
  bool has_rails(Peer& peer, Instant now) noexcept;
  void restart_rails(Peer& peer) noexcept;

  // acknowledge.cpp: the sender learns
  void on_acknowledge(Peer& peer, const Arrival& arrival) noexcept;
  void acknowledge(Peer& peer, uint64_t sequence, bool well) noexcept;
  void advance(Sender& tx) noexcept;
  Duration measure(Peer& peer, const Arrival& arrival) noexcept;
  Duration late_round_trip(Sender& tx, const Record& r, const Arrival& arrival) noexcept;
  void note_round_trip(Sender& tx, Duration sample) noexcept;
  void find_losses(Peer& peer, Instant now) noexcept;
  Instant tail_at(const Sender& tx) const noexcept;
  Instant overtaken_at(const Sender& tx, const Record& r) const noexcept;
  // Puts a packet among the lost ones; what that means to the flow, the caller tells it.
  void lose(Peer& peer, uint64_t sequence) noexcept;
  void lose(Peer& peer, uint64_t sequence, congestion::Loss loss) noexcept;
  Duration rto_of(const Peer& peer) const noexcept;
  Duration patience_of(const Peer& peer) const noexcept;
  void expect_answer(Peer& peer, Instant now) noexcept;
  void ask(Peer& peer, Instant now) noexcept;
  void on_timer(Peer& peer, Instant now) noexcept;
  void on_overdue(Peer& peer, Instant now) noexcept;
  void rearm(Peer& peer, Instant now) noexcept;

  // credit.cpp: who wishes to send, and who may
  uint32_t wish_of(const Sender& tx) const noexcept;
  Instant opens_at(const Sender& tx, Instant now) const noexcept;
  bool over_credit(Receiver& rx, const wire::SrdPacket& packet) const noexcept;
  void hear_wish(Peer& peer, const wire::SrdPacket& packet, Instant now) noexcept;
  void make_grants(Instant now) noexcept;
  void end_credit(Receiver& rx) noexcept;

  // receive_line.cpp: receives for those who wait for one
  uint32_t receives_for(const Peer& peer, const QueuePair& qp) const noexcept;
  wire::SrdReason stand_in_line(const Peer& peer, QueuePair& qp) noexcept;
  void leave_line(const Peer& peer, QueuePair& qp, bool more) noexcept;
  void offer(QueuePair& qp) noexcept;
  void send_calls(Instant now) noexcept;
  void end_promises(Instant now) noexcept;
  void end_line(QueuePair& qp) noexcept;
  void on_ready(Peer& peer, const Arrival& arrival) noexcept;
  bool others_wait(const Message& m) const noexcept;
  bool older_waits(const Message& m) const noexcept;

  // cancel.cpp: messages that end early
  void on_refusal(Peer& peer, const Arrival& arrival) noexcept;
  void on_reset(Peer& peer, const Arrival& arrival) noexcept;
  void cancel(Message& m) noexcept;
  void settle(Message& m) noexcept;  // nothing of it is in flight any more
  void finish(Message& m) noexcept;
  void complete_request(Message& m, Status status) noexcept;
  void orphan(Message& m) noexcept;
  void release(Message& m) noexcept;
  void fail_peer(Peer& peer, Status status) noexcept;
  void restart_stream(Peer& peer, uint32_t least_epoch, uint32_t incarnation,
                      uint32_t opened) noexcept;
  void end_stream(Peer& peer, uint32_t least_epoch) noexcept;
  void end_turn(Message& m) noexcept;
  void wake(Message& m) noexcept;
  void wake_resting(Peer& peer, Instant now) noexcept;
  Duration pause(int doublings) noexcept;

  // trim.cpp: packets that a switch has cut
  void receive_trimmed(const Frame& frame, Instant now) noexcept;
  void on_trimmed(Peer& peer, const Arrival& arrival) noexcept;

  // receive.cpp
  void receive_one(const Frame& frame, Instant now) noexcept;
  void on_sequenced(Peer* peer, const Arrival& arrival) noexcept;
  Peer* admit(Peer* peer, const Arrival& arrival) noexcept;
  void forget_stream(Peer& peer) noexcept;
  void refuse(const Arrival& arrival, wire::SrdReason reason) noexcept;
  void reset(const Arrival& arrival, uint32_t least_epoch) noexcept;
  void reply(const Arrival& arrival, wire::SrdPacket answer) noexcept;
  void put_reply(const Reply& reply) noexcept;

  // execute.cpp: one function per operation; `why` says why one is refused
  Outcome execute(Peer& peer, const Arrival& a, wire::SrdReason& why) noexcept;
  Outcome execute_send(Peer& peer, QueuePair& qp, const Arrival& a, wire::SrdReason& why) noexcept;
  Outcome execute_write(Peer& peer, QueuePair& qp, const Arrival& a, wire::SrdReason& why) noexcept;
  Outcome execute_add(QueuePair& qp, const Arrival& a, wire::SrdReason& why) noexcept;
  Outcome execute_read(Peer& peer, QueuePair& qp, const Arrival& a, wire::SrdReason& why) noexcept;
  Outcome execute_atomic(Peer& peer, QueuePair& qp, const Arrival& a,
                         wire::SrdReason& why) noexcept;
  Outcome execute_answer(Peer& peer, const Arrival& a) noexcept;
  bool abort_assembly(Peer& peer, uint32_t message) noexcept;
  void give_back(Assembly& assembly) noexcept;
  Message* new_answer(Peer& peer, const QueuePair& qp, const Arrival& a,
                      wire::SrdOpcode kind) noexcept;
  Outcome place(const Sge* sges, uint32_t count, uint32_t domain, uint32_t offset, const Arrival& a,
                wire::SrdReason& why) noexcept;
  Outcome copy(std::byte* to, const Arrival& a, uint32_t offset, uint32_t length,
               wire::SrdReason& why) noexcept;
  void complete_receive(Peer& peer, QueuePair& qp, uint32_t slot, const Arrival& a,
                        uint32_t bytes) noexcept;

  Config config_;
  uint32_t block_ = 0;   // top 8 bits of our QPNs
  uint32_t opened_ = 0;  // epoch in which this engine was
  uint32_t secret_[8];   // of incarnations
  uint32_t mtu_ = 0;
  std::vector<Gid> addresses_;          // ours; the first is that by which we are known
  uint32_t entropies_ = 1;              // source ports of each address
  std::vector<uint16_t> source_ports_;  // of the first address, then of the next
  bool uses_rails_ = false;             // we have several addresses, or a peer has
  base::TimerWheel wheel_;
  std::unordered_map<uint32_t, std::unique_ptr<QueuePair>> qps_;
  QpTable<QueuePair> by_number_;    // the same, for every packet
  base::Permutation number_order_;  // of queue pairs: the low 16 bits of their numbers
  uint32_t numbers_drawn_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<PeerPlace> peer_table_;  // open addressing
  Peer* last_peer_ = nullptr;
  std::unordered_map<Alias, uint32_t, AliasHash> aliases_;  // of peers: index into peers_
  uint32_t strangers_ = 0;    // peers that have not shown that they hear us
  uint32_t oldest_hand_ = 0;  // where the search for a peer to forget goes on
  uint32_t challenged_ = 0;   // the newest epoch of a stream that was sent away; 0: none
  uint32_t retired_ = 0;      // the newest epoch among streams that were forgotten; 0: none
  Instant now_;               // of the last call
  MessagePool messages_;
  AssemblyTable assemblies_;
  uint32_t ordered_streams_ = 0;  // that are received
  FlightPool flights_;
  uint32_t flights_out_ = 0;
  std::optional<HostQueue> own_queue_;  // if the controller lives on digests
  const FlowRules flow_rules_;
  congestion::CreditPacer pacer_;
  std::vector<uint32_t> credited_;       // peers by their numbers there
  Instant grant_at_ = Instant::never();  // the next one
  Instant no_grant_before_;
  base::Line<Peer, &Peer::active> active_;
  base::Line<Peer, &Peer::ack_line> acks_;
  uint32_t turn_ = 0;        // calls of transmit()
  bool acks_first_ = false;  // the last one had no room for them, or they are hurried
  std::vector<Reply> replies_;
  base::Line<QueuePair, &QueuePair::calling> calling_;      // may have a receive for a waiter
  base::Line<QueuePair, &QueuePair::promising> promising_;  // keep receives for some
  Instant lapse_at_ = Instant::never();                     // the first of those promises
  std::vector<Path> paths_;                                 // of the burst's frames
  size_t paths_used_ = 0;
  std::vector<std::byte> scratch_;  // payload that is added, not placed
};

}  // namespace weft::srd
