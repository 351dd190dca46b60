// SPDX-License-Identifier: BSD-3-Clause
// A link to one other rank: a queue pair, RC or SRD, and a ring of landing slots on each side. A
// piece of data is one WRITE_WITH_IMM of {header, payload} into the next slot of the peer, or of
// the payload alone (piece.hpp). The receiver returns credit with the pieces of the other
// direction, or in a message when it has none to send. Control messages are SENDs into receive
// buffers, so they are delivered when all slots are full.
//
// SRD keeps no order: the immediate data number the piece, and a control message is held until the
// pieces sent before it have arrived. An abort is not held. But SRD can add to remote memory: a
// receiver may advertise the final place of a piece (rendezvous). The sender does one WRITE or
// WRITE_ADD there, and when that has completed, writes a header into the slot. An advertised piece
// may come through its slot all the same.
//
// Payload memory: small pieces are copied into a registered staging slot, and the caller may reuse
// its memory at once; others are sent by reference, and the completion releases the memory.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/collective/run/control_inbox.hpp"
#include "lib/collective/run/link_rings.hpp"

namespace weft::collective {

// What a peer may do through its queue pair; which memory, the keys say.
inline constexpr Access kPeerAccess = Access::remote_write | Access::remote_atomic;

// Whether a device can have that many links of this shape. Errors: invalid_argument.
Result<void> check_links(const LinkShape& shape, uint32_t links, const DeviceAttributes& device);
// Completions that a link may have outstanding.
uint32_t completions_per_link(const LinkShape& shape);
// The index that the link was created with.
inline uint32_t link_index_of(const Completion& completion) {
  return static_cast<uint32_t>(completion.id >> 32);
}

class Link {
 public:
  // `index`: for link_index_of().
  static Result<std::unique_ptr<Link>> create(const ProtectionDomain& pd, const CompletionQueue& cq,
                                              QpType type, const LinkShape& shape, uint32_t index);

  const QueuePair& qp() const { return qp_; }
  LinkAddress address() const { return buffers_.address(); }
  // After connecting.
  void set_peer(uint32_t rank, const LinkAddress& address);
  uint32_t peer() const { return peer_; }
  const SendRing& sends() const { return sends_; }
  const ReceiveRing& receives() const { return receives_; }

  bool can_send() const { return sends_.can_send(); }
  // Longer pieces must be sent with a key. `oversubscribed`: other threads want this processor.
  uint32_t copy_limit(bool oversubscribed = false) const {
    return oversubscribed ? buffers_.max_copy_limit() : shape_.copy_limit;
  }
  // Sends a piece of at most shape.payload bytes. With a key the payload is read from where it is
  // until on_completion() returns `step`; without, it is copied. `pieces`: of this direction in
  // this call. False: the queue pair is broken.
  bool send(const Call& call, uint32_t pieces, std::span<const std::byte> payload, const LKey* key,
            uint32_t step);

  // Whether the receiver can name the memory that a piece is written to.
  bool supports_rendezvous() const { return type_ == QpType::srd; }
  // At most kAdvertisements, in the order of pieces. False: too many messages are in flight.
  bool send_advertisements(std::span<const Advertisement> advertisements);
  const Advertisement* find_advertisement(uint64_t sequence, size_t index) {
    return inbox_.find_advertisement(sequence, index);
  }
  // As send() with a key, to the advertised memory.
  bool send_rendezvous(const Call& call, uint32_t pieces, std::span<const std::byte> payload,
                       LKey key, uint32_t step, const Advertisement& to);

  // The oldest piece that has arrived and is not consumed.
  const PieceHeader* head() const { return receives_.head(); }
  const std::byte* head_payload() const {
    return buffers_.landing(receives_.head_slot()) + sizeof(PieceHeader);
  }
  void consume();

  // False: dropped since too many messages are in flight, or the peer is disconnected. Credit is
  // sent again, and an abort when the peer probes.
  bool send_control(ControlMessage message);
  // Whether a piece sent now arrives behind all control messages sent before.
  bool pieces_follow_messages() const { return type_ != QpType::srd || controls_ == 0; }
  // Sends it once. True when the peer has it and all messages before it, or cannot be reached.
  bool deliver_abort(const ControlMessage& abort);
  // An empty WRITE: the peer's transport acknowledges it, whatever its program does.
  void send_keepalive();

  struct Event {
    uint32_t finished_step = kNoStep;      // its memory is free, with `error` too
    const PieceHeader* arrived = nullptr;  // valid until it is consumed
    std::optional<Status> error;           // the link is broken
  };
  Event on_completion(const Completion& completion);
  // The next control message whose preceding pieces have arrived.
  std::optional<ControlMessage> next_message() { return inbox_.next(receives_.arrived()); }

  bool reads_caller_memory() const { return !broken_ && sends_.reads_caller_memory(); }
  // Moves the queue pair to the error state: nothing is read or sent any more.
  void abort_link();
  // Posts a signaled request if the last pieces have none, so that idle() becomes true.
  void flush_unsignaled();
  // Everything posted has completed.
  bool idle() const { return sends_.all_sent() && controls_ == 0; }

  // Fails a DCHECK if sequence numbers, credits or counts contradict each other.
  void check_invariants() const;

  uint32_t lane = 0;          // index among the lanes of PeerConnections
  bool disconnected = false;  // the peer has left or failed: nothing is sent any more
  bool peer_exited = false;   // its process has ended, or it has left: it does not reconnect
  const char* disconnect_reason = "it has left the communicator";

 private:
  Link(QpType type, const LinkShape& shape, uint32_t index);
  Result<void> prepare(const ProtectionDomain& pd, const CompletionQueue& cq);
  void repost_receive(uint32_t buffer);
  bool post_receives(std::span<const uint32_t> buffers);
  void return_credit();
  bool send_rendezvous_header(uint32_t slot);
  PostStatus post_piece(uint32_t slot, uint32_t immediate, size_t offset, SendFlags flags,
                        std::span<const Sge> sges);
  const PieceHeader* on_receive(uint32_t buffer, const Completion& completion);
  uint64_t control_id() const;

  static constexpr uint32_t kRepostBatch = 4;  // each post takes the device's lock

  LinkShape shape_;
  QpType type_;
  uint32_t index_;
  uint32_t peer_ = 0;
  LinkAddress remote_;
  QueuePair qp_;
  LinkBuffers buffers_;
  SendRing sends_;
  ReceiveRing receives_;
  ControlInbox inbox_;
  PieceHeader last_sent_;                           // the next header may be compressed against it
  std::array<uint32_t, kRepostBatch> to_repost_{};  // receive buffers
  uint32_t to_repost_count_ = 0;
  bool broken_ = false;      // the queue pair is in the error state
  uint32_t controls_ = 0;    // control messages and keepalives in flight
  bool abort_sent_ = false;  // by deliver_abort()
};

}  // namespace weft::collective
