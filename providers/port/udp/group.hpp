// SPDX-License-Identifier: BSD-3-Clause
// Devices of one user that share an address: in several processes, several in one process, or the
// engines of one device. Each is a member with a slot, the upper 8 bits of its queue pair numbers
// and communication IDs, and has a UDP socket of its own in the SO_REUSEPORT group of the address,
// which the kernel permits within one user only.
//
// A slot is claimed by binding its name (slot_names.hpp). All members need one table. Who finds no
// member in the table that it sees binds the UDP address without SO_REUSEPORT: if the kernel
// permits that, it is the first, and else it asks for the table of those who were before it.
//
// Every member receives for itself: none depends on another one that is stopped, slow or dead, as
// all would on a process that receives for all. The kernel selects the socket by a BPF program
// (steering.hpp). A frame that reached the wrong member goes to its owner over the unix socket; a
// frame for no member goes to the default member (group_table.hpp). Nothing depends on the program.
//
// The program names sockets by their place in the kernel's array, and the last one takes the place
// of one that is closed. A device that closes attaches the program for the order without it. After
// a kill -9 the first member that notices does: members look in turn, while they poll, whether
// another one still has its slot. When several were killed, the table may guess the new order
// wrong, and the frames of a member go to another one, which sends them on only when it polls. So
// after each new order every member is sent a probe, a datagram that names its slot. A probe or a
// frame of another member is evidence: we are the socket that the program has for that member.
// Members without a process are removed from the table first; if that explains nothing, the two
// change places. Frames that were queued before the last change of the order are no evidence: a
// member counts from the first time that it found its socket empty.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/fork.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "providers/port/udp/group_table.hpp"
#include "providers/port/udp/message.hpp"
#include "providers/port/udp/slot_names.hpp"
#include "providers/port/udp/steering.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

class AddressGroup {
 public:
  struct Counters {
    uint64_t forwarded = 0;         // frames sent on to their owner
    uint64_t forward_drops = 0;     // frames lost because their owner's queue was full
    uint64_t forward_received = 0;  // messages that other members sent on to us
    uint64_t forward_refused = 0;   // messages on our socket that no member of our group sent
    uint64_t programs = 0;          // steering programs that we attached
    uint64_t probes = 0;            // probes that we received
  };

  // Claims the lowest free slot from `first` to `last`, and holds the lock of the table until
  // enter(). Errors: no_memory (no slot is free), those of GroupTable::open_locked() and of
  // SlotNames::ask_for_table(), io_error.
  static Result<std::unique_ptr<AddressGroup>> join(const LocalAddress& local, Slot first,
                                                    Slot last);
  // `udp`, the receive socket, has just been bound: frames for the slot come to it from now on.
  void enter(int udp);
  // Leaves the group. Closes `udp` itself, in step with the table.
  void leave(Descriptor udp) noexcept;
  // After join() without enter(): releases slot and lock.
  ~AddressGroup();
  AddressGroup(const AddressGroup&) = delete;
  AddressGroup& operator=(const AddressGroup&) = delete;

  Slot slot() const noexcept { return slot_; }
  int fd() const noexcept { return socket_.fd(); }
  const Counters& counters() const noexcept { return counters_; }

  // The slot that a frame is for; 0: it names none.
  Slot owner_of(const std::byte* frame, uint32_t length) const noexcept {
    return udp::owner_of(frame, length, *table_);
  }
  // Sends `length` bytes of `message` from its offset on to the owner of `slot`. False: that is us.
  bool forward(Slot slot, const Message& message, uint32_t length) noexcept;
  // The kernel gave us a frame whose queue pair number names another slot: corrects the program.
  void on_foreign_frame(Slot slot) noexcept;
  // The UDP socket had no more frames.
  void on_empty() noexcept {
    empty_since_ = generation_->load(std::memory_order_acquire);
    if (++empty_reads_ >= kEmptyReadsPerLook) look_at_a_member();
  }
  // A process that sleeps between few frames looks at others, too.
  void before_sleep() noexcept { empty_reads_ += kEmptyReadsPerLook / 16; }
  // True: the message was a probe, and no frame.
  bool take_probe(const Message& message) noexcept;
  static constexpr uint32_t kProbeLength = 12;  // shorter than any frame
  // All frames that were read from the UDP socket have been looked at, and some were foreign. A
  // progress thread that sleeps again after the last frame would never find the socket empty.
  void look_whether_empty() noexcept;
  // True: receive() has a message. Asked before each read, so it is two loads and no more.
  bool has_forwarded() const noexcept {
    return forwarded_->load(std::memory_order_acquire) != received_;
  }
  // Reads one forwarded message into message.bytes.
  bool receive(Message& message, size_t capacity) noexcept;

  // Queue pair 1: see transport::Port.
  void open_general_services();
  Result<void> claim_service(uint64_t service);
  void release_service(uint64_t service);

 private:
  AddressGroup() = default;
  enum class Sent : uint8_t { yes, dropped, no_such_slot };
  Sent send_to(Slot slot, const Message& message, uint32_t length) noexcept;
  Result<void> claim_slot(const LocalAddress& local, Slot first, Slot last);
  Result<void> find_table(const LocalAddress& local);
  bool remove_dead() noexcept;
  void repair(Slot evidence, uint32_t generation) noexcept;
  void look_at_a_member() noexcept;
  void attach();
  void steer();
  void send_probes() noexcept;
  template <class Change>
  void change(Change change);

  static constexpr uint32_t kEmptyReadsPerLook = 4096;  // milliseconds, where one thread polls
  static constexpr uint32_t kMostSwaps = 256;

  std::unique_ptr<GroupTable> table_;
  SlotNames names_;
  SocketAddress self_;  // where probes go
  Descriptor socket_;
  Descriptor alone_;  // until enter(): the UDP address, bound without others
  // In the table: messages for us, and the generation of the program.
  const std::atomic<uint32_t>*forwarded_ = nullptr, *generation_ = nullptr;
  Slot slot_ = 0;
  bool joined_ = false;       // the table has our slot
  int udp_ = -1;              // our socket in the group; -1: not entered
  bool steers_ = true;        // the kernel takes programs
  uint32_t empty_since_ = 0;  // generation of the program when our UDP socket was last empty
  uint32_t received_ = 0;     // of the messages that the table counts for us
  uint32_t empty_reads_ = 0;  // of our UDP socket, since we looked at a member
  Slot looked_at_ = 0;        // the last member that we looked at
  // Probes that may still make us change places: bounds what two members do that cannot agree.
  uint32_t swaps_left_ = kMostSwaps;
  base::ForkMark fork_;
  Counters counters_;
};

}  // namespace weft::port::udp
