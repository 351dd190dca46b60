// SPDX-License-Identifier: BSD-3-Clause
// A link to one other rank: a queue pair, RC or SRD, and a ring of landing slots on each side. A
// piece of data is one WRITE_WITH_IMM of {header, payload} into the next slot of the peer, or of
// the payload alone (piece.hpp); how many slots the receiver has consumed comes back with the
// pieces of the other direction, or in a message of its own when nothing goes that way. Control
// messages are SENDs into buffers of their own, so they get through when all slots are full.
//
// SRD keeps no order: the immediate data say which piece has arrived, and a control message waits
// here until the pieces that were sent before it have come. An abort does not. But SRD can add to
// remote memory: a receiver may invite a piece to its final place. Such a piece is one WRITE or
// WRITE_ADD there, and when that is done, a header in its slot that says so. An invited piece may
// come through its slot all the same.
//
// Memory of the payload: small pieces are copied into a registered slot of this side and are done
// at once; others go by reference and are done when their completion says so.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/collective/run/piece.hpp"
#include "lib/collective/run/sequence_window.hpp"
#include "weft/weft.hpp"

namespace weft::collective {

inline constexpr uint32_t kCopiedBytes = 8 * 1024;
// Of urgent calls: a copy costs less than the wait for an acknowledgement behind bulk data.
inline constexpr uint32_t kCopiedUrgentBytes = 32 * 1024;
// Where ranks share a processor, over RC: it costs less than to wait until the peer's engine, which
// acknowledges, has had the processor.
inline constexpr uint32_t kCopiedCrowdedBytes = 32 * 1024;

// What both sides must agree on. A ring has the next power of two of slots.
struct LinkShape {
  uint32_t slots = 16;
  uint32_t payload = 64 * 1024;    // bytes of one slot; a multiple of 64
  uint32_t copied = kCopiedBytes;  // pieces up to here are copied
  bool operator==(const LinkShape&) const = default;
};

// probe: I wait for you in this call. finished: I have given you all I have in it.
// circle: they wait for each other, and the last of them for you. cancel: this call is taken back,
// and I give you nothing of it any more.
enum class ControlKind : uint8_t { credit, probe, abort, leave, finished, invite, circle, cancel };

// Where one piece may be put, and what is done with it there.
struct Invitation {
  uint64_t sequence = 0;  // of the call, which may be over when the invitation comes
  uint64_t address = 0;
  uint32_t index = 0;  // of the piece among those that go this way in the call
  uint32_t rkey = 0;
  uint32_t bytes = 0;
  enum class Place : uint8_t { slot, write, add } place = Place::slot;
  Element element = Element::fp32;  // add
  uint8_t unused[2] = {};
};
static_assert(sizeof(Invitation) == 32);
inline constexpr size_t kInvitations = 6;  // in one message

struct ControlMessage {
  ControlKind kind = ControlKind::credit;
  Code code = Code::ok;  // abort: why
  // invite, circle: how many; probe: 1 if the sender gives nothing before it gets.
  uint16_t count = 0;
  uint32_t rank = 0;      // abort: who failed; cancel: who took it back
  uint64_t consumed = 0;  // as in PieceHeader
  uint64_t sent = 0;      // pieces in this direction, since the beginning
  Call call;              // probe, abort, finished, cancel: what the sender is doing, or has done
  char text[192] = {};    // abort, cancel: why, for people; invite: the invitations; circle: ranks
};
static_assert(sizeof(ControlMessage) == 256);
static_assert(kInvitations * sizeof(Invitation) <= sizeof(ControlMessage::text));

// How the peer reaches our landing slots.
struct LinkAddress {
  uint64_t landing = 0;
  uint32_t rkey = 0;
  uint32_t unused = 0;
};

inline constexpr uint32_t kNoStep = UINT32_MAX;
// What a peer may do through its queue pair; which memory, its keys say.
inline constexpr Access kPeerAccess = Access::remote_write | Access::remote_atomic;

class Link {
 public:
  // Whether a device can have that many links of this shape. Errors: invalid_argument.
  static Result<void> check(const LinkShape& shape, uint32_t links, const DeviceAttributes& device);
  // `index` comes back in the ids of completions.
  static Result<std::unique_ptr<Link>> create(const ProtectionDomain& pd, const CompletionQueue& cq,
                                              QpType type, const LinkShape& shape, uint32_t index);
  static uint32_t index_of(const Completion& completion) {
    return static_cast<uint32_t>(completion.id >> 32);
  }
  // Completions that a link may have outstanding.
  static uint32_t completions(const LinkShape& shape) {
    return 2 * (std::bit_ceil(shape.slots) + kControls) + kReturned;
  }
  static constexpr uint32_t kMostSlots = 1024;

  const QueuePair& qp() const { return qp_; }
  LinkAddress address() const;
  // After connecting.
  void set_peer(uint32_t rank, const LinkAddress& address);
  uint32_t peer() const { return peer_; }

  bool can_send() const {
    return posted_ - acknowledged_.count() < shape_.slots && posted_ - credit_ < shape_.slots;
  }
  // Sends a piece of at most shape.payload bytes. With a key the payload is sent from where it is,
  // and `step` is returned by handle() when it may be overwritten; without, it is copied and at
  // most shape.copied long. `pieces` go this way in this call. False: the queue pair is broken.
  bool send(const Call& call, uint32_t pieces, std::span<const std::byte> payload, const LKey* key,
            uint32_t step);

  // Pieces can be put into memory that the receiver names.
  bool invites() const { return type_ == QpType::srd; }
  // False: too many messages are under way. At most kInvitations, in the order of pieces.
  bool send_invitations(std::span<const Invitation> invitations);
  // For the next piece to be sent, which has this index in its call, if it has come.
  const Invitation* invitation(uint64_t sequence, size_t index);
  // As send() with a key, to where the receiver said.
  bool send_invited(const Call& call, uint32_t pieces, std::span<const std::byte> payload, LKey key,
                    uint32_t step, const Invitation& invitation);

  uint64_t posted() const { return posted_; }

  // The oldest piece that has arrived and is not consumed.
  const PieceHeader* head() const {
    return arrived_.count() == consumed_ ? nullptr : &headers_[slot_of(consumed_)];
  }
  const std::byte* head_payload() const {
    return landing(slot_of(consumed_)) + sizeof(PieceHeader);
  }
  void consume();
  uint64_t consumed() const { return consumed_; }
  uint32_t slots() const { return shape_.slots; }
  // Pieces up to here are to be copied. `crowded`: others want our processor too.
  uint32_t copied(bool crowded = false) const { return crowded ? most_copied_ : shape_.copied; }
  uint64_t waiting() const { return arrived_.count() - consumed_; }

  // Dropped if many are under way: credit is sent again, and an abort when the peer asks.
  bool send_control(ControlMessage message);
  // Whether pieces that are put now come behind all messages that were sent.
  bool messages_first() const { return type_ != QpType::srd || controls_ == 0; }
  // Sends it once, as soon as there is room. True when the peer has it, and all messages before it,
  // or when there is nobody to tell.
  bool tell_end(const ControlMessage& abort);
  // Asks the peer's transport, not its program, whether it is alive: an empty WRITE.
  void ping();

  // What a completion of this link means.
  struct Event {
    uint32_t finished_step = kNoStep;      // a put whose memory is free, with `error` too
    const PieceHeader* arrived = nullptr;  // a piece; valid until it is consumed
    std::optional<Status> error;           // the link is broken
  };
  Event handle(const Completion& completion);
  // The next message of the peer, if there is one and what was sent before it is here.
  std::optional<ControlMessage> next_message();

  // Whether memory of payloads that went by reference may still be read.
  bool lends() const { return !broken_ && lent_ > 0; }
  // Ends the queue pair: nothing is read or sent any more.
  void abort_link();

  // All that was posted is done. That it is may have to be asked.
  void ask_if_done();
  bool idle() const { return posted_ == acknowledged_.count() && controls_ == 0; }
  uint32_t lane = 0;   // of the mesh
  bool gone = false;   // the peer has left or is dead: nothing is sent any more
  bool ended = false;  // its process has ended, or it has left: it does not come back
  const char* why_gone = "it has left the communicator";

 private:
  Link(QpType type, const LinkShape& shape, uint32_t index)
      : shape_{std::bit_ceil(shape.slots), shape.payload, shape.copied},
        most_copied_(most_copied(type, shape)),
        type_(type),
        index_(index),
        headers_(shape_.slots),
        acknowledged_(shape_.slots),
        arrived_(shape_.slots) {}
  // How a piece is posted.
  struct Piece {
    uint32_t slot = 0;
    uint32_t immediate = 0;
    size_t offset = 0;  // in the slot
    SendFlags flags = SendFlags::signaled;
  };
  // Over SRD both sides go by the shape, since the receiver invites what is not copied.
  static uint32_t most_copied(QpType type, const LinkShape& shape) {
    const uint32_t crowded = type == QpType::srd ? 0 : std::min(kCopiedCrowdedBytes, shape.payload);
    return std::max(shape.copied, crowded);
  }
  Result<void> prepare(const ProtectionDomain& pd, const CompletionQueue& cq);
  bool wants_word() const;
  bool keeps_order() const { return type_ != QpType::srd; }
  void give_back(uint32_t buffer);
  bool post_receives(std::span<const uint32_t> buffers);
  void note_credit(uint64_t consumed);
  void return_credit();
  uint32_t slot_of(uint64_t piece) const {
    return static_cast<uint32_t>(piece) & (shape_.slots - 1);
  }
  const std::byte* landing(uint32_t slot) const { return landing_.get() + slot * stride(); }
  uint64_t piece_of(uint32_t slot) const;  // that is under way
  bool finish_invited(uint32_t slot);
  uint32_t immediate_of(uint64_t piece) const;
  PostStatus post_piece(const Piece& piece, std::span<const Sge> sges);
  void note_received(uint32_t buffer, const Completion& completion, Event& event);
  const PieceHeader* note_piece(const Completion& completion);

  enum class IdKind : uint32_t { receive, piece, control, invited };
  uint64_t id_of(IdKind kind, uint32_t number) const {
    return uint64_t{index_} << 32 | static_cast<uint64_t>(kind) << 24 | number;
  }
  uint64_t control_id() const {
    return id_of(IdKind::control, static_cast<uint32_t>(posted_) & kLargestNumber);
  }
  uint64_t before_control(uint32_t number) const;

  static constexpr uint32_t kLargestNumber = 0xFFFFFF;
  static constexpr uint32_t kWords = 4;  // completions for a ring of pieces that are copied
  static constexpr uint32_t kControls = 16;
  static constexpr uint32_t kReturned = 4;  // receives that are posted again together
  static uint32_t receives_of(uint32_t slots) { return slots + kControls + kReturned; }
  size_t stride() const { return sizeof(PieceHeader) + shape_.payload; }
  size_t copy_stride() const { return sizeof(PieceHeader) + most_copied_; }

  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(size_t bytes);

  LinkShape shape_;
  uint32_t most_copied_;
  QpType type_;
  uint32_t index_;
  uint32_t peer_ = 0;
  LinkAddress remote_;
  QueuePair qp_;
  Memory landing_, sending_, control_;
  MemoryRegion landing_region_, sending_region_, control_region_;
  PieceHeader last_sent_;             // the next piece may be like it
  std::vector<PieceHeader> headers_;  // of what has arrived, by slot: the peer cannot change them
  std::array<uint32_t, kReturned> returned_{};  // buffers to receive into
  uint32_t returns_ = 0;                        // of them
  std::vector<uint32_t> steps_;                 // of the pieces under way, by slot
  uint64_t posted_ = 0;                         // pieces sent
  InOrder acknowledged_;                        // whose send has completed
  uint64_t credit_ = 0;                         // that the peer has consumed
  InOrder arrived_;
  uint64_t consumed_ = 0;
  std::deque<ControlMessage> messages_;
  std::deque<Invitation> invitations_;
  uint32_t lent_ = 0;      // pieces under way by reference
  bool broken_ = false;    // the queue pair has failed
  uint64_t told_ = 0;      // the last `consumed_` that the peer was told
  uint32_t controls_ = 0;  // control messages under way
  bool end_told_ = false;  // tell_end() has sent it
};

}  // namespace weft::collective
