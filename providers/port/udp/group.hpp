// SPDX-License-Identifier: BSD-3-Clause
// Devices of one user that share an address: in several processes, several in one process, or the
// engines of one device. Each is a member with a slot, the upper 8 bits of its queue pair numbers
// and communication IDs, and has a UDP socket of its own in the SO_REUSEPORT group of the address,
// which the kernel permits within one user only.
//
// A slot is claimed by binding the abstract unix socket weft-udp/UID/ADDRESS/PORT/SLOT (such names
// are local to the network namespace), which the kernel frees with its process, however that dies.
//
// Every member receives for itself: none depends on another one that is stopped, slow or dead, as
// all would on a process that receives for all. The kernel selects the socket by a BPF program
// (steering.hpp). A frame that reached the wrong member goes to its owner over the unix socket; a
// frame for no member goes to the default member (group_table.hpp). Nothing depends on the program.
//
// The program names sockets by their place in the kernel's array, and the last one takes the place
// of one that is closed. A device that closes writes that to the table; who then receives a frame
// of another member attaches the program anew. After a kill -9 that is missing. Then a frame
// of another member is evidence: we are the socket that the program has for that member. Members
// without a process are removed from the table first; if that explains nothing, the two change
// places. Frames that were queued before the last change of the program are no evidence: a member
// counts from the first time that it found its socket empty.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/fork.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "providers/port/udp/group_table.hpp"
#include "providers/port/udp/message.hpp"
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
  };

  // Claims the lowest free slot from `first` to `last`, and holds the lock of the table until
  // enter(). Errors: no_memory (no slot is free), those of GroupTable::open_locked(), io_error.
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
  void on_empty() noexcept { empty_since_ = generation_->load(std::memory_order_acquire); }
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
  bool is_alive(Slot slot) const noexcept;
  bool remove_dead() noexcept;
  void repair(Slot evidence) noexcept;
  void steer();
  template <class Change>
  void change(Change change);

  std::unique_ptr<GroupTable> table_;
  Descriptor socket_;
  std::string prefix_;  // the name up to the slot
  // In the table: messages for us, and the generation of the program.
  const std::atomic<uint32_t>*forwarded_ = nullptr, *generation_ = nullptr;
  Slot slot_ = 0;
  bool joined_ = false;       // the table has our slot
  int udp_ = -1;              // our socket in the group; -1: not entered
  bool steers_ = true;        // the kernel takes programs
  uint32_t empty_since_ = 0;  // generation of the program when our UDP socket was last empty
  uint32_t received_ = 0;     // of the messages that the table counts for us
  base::ForkMark fork_;
  Counters counters_;
};

}  // namespace weft::port::udp
