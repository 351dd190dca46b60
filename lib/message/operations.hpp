// SPDX-License-Identifier: BSD-3-Clause
// The operations of an endpoint: what it keeps of each send, receive, waiting message and transfer.
#pragma once

#include <array>
#include <memory>

#include "lib/message/list.hpp"
#include "lib/message/match.hpp"
#include "lib/message/types.hpp"
#include "lib/message/wire.hpp"

namespace weft::message {

// Up to kMaxPieces pieces of local memory, behind one another.
struct Pieces {
  std::array<iovec, kMaxPieces> entries{};
  size_t count = 0;
  size_t length = 0;
  // Leaves out empty ones. False: too many.
  bool assign(std::span<const iovec> from) noexcept;
  std::span<const iovec> span() const noexcept { return {entries.data(), count}; }
  // The contiguous piece at byte `offset`, at most `length` bytes of it. offset < this->length.
  iovec part(size_t offset, size_t length) const noexcept;
};

// What Io::send() and Io::read() carry as operation.
enum class Task : uint8_t { send, control, transfer };

struct Operation {
  explicit Operation(Task which) : task(which) {}
  const Task task;
  Peer peer = 0;
};

// A send, from send() to its completion and the end of its SEND.
struct SendOperation : Operation, Link<0> {
  SendOperation() : Operation(Task::send) {}
  std::array<std::byte, kMaxHeader> header;
  Pieces pieces;
  std::unique_ptr<std::byte[]> copy;  // that `pieces` names; SendMessage::copies
  std::array<Exposed, kMaxPieces> exposed;
  SendMessage request;      // without pieces
  uint32_t transfer = 0;    // of an announced message; 0: none
  bool is_sending = false;  // on_sent() is to come
  bool is_done = false;     // completed
};

// A message without payload: credits, an answer or a probe.
struct ControlOperation : Operation, Link<0> {
  ControlOperation() : Operation(Task::control) {}
  std::array<std::byte, kHeaderSize> header;
  Kind kind = Kind::credit;
};

struct PeerState;

// A receive, from receive() to its last completion.
struct ReceiveOperation : Posted {
  void post(PostedQueue& queue) noexcept;
  void unpost(PostedQueue& queue) noexcept;
  Pieces pieces;
  size_t used = 0;         // bytes taken by messages
  size_t least_room = 0;   // 0: one message
  uint32_t transfers = 0;  // in progress
  bool is_posted = false;
  PeerState* source = nullptr;  // that the pattern names, or null
  void* context = nullptr;
  uint64_t cookie = 0;
};

// A message that no receive has taken: its bytes, or what was announced.
struct WaitingMessage : Waiting {
  Header header;
  std::unique_ptr<std::byte[]> bytes;
  size_t length = 0;
  void* claimed_by = nullptr;  // the context of peek()
};

// An announced message on its way into a receive, by READs.
struct Transfer : Operation, Link<0> {
  Transfer() : Operation(Task::transfer) {}
  ReceiveOperation* receive = nullptr;
  Header header;
  size_t at = 0;       // where it begins in the receive
  size_t length = 0;   // bytes to read
  size_t begun = 0;    // bytes whose READ was taken
  uint32_t reads = 0;  // outstanding
  bool failed = false;
};

// What an endpoint keeps of a peer.
struct PeerState {
  List<SendOperation, 0> unsent;     // in order; the first could not be sent yet
  List<SendOperation, 0> announced;  // and not finished
  List<ControlOperation, 0> lost;    // answers whose SEND failed
  uint32_t credits = kFirstCredits;  // eager messages that we may send
  uint32_t announced_count = 0;
  uint32_t lost_count = 0;
  uint32_t granted = kFirstCredits;  // eager messages that the peer may still send
  uint32_t to_return = 0;            // credits to put into the next message
  uint32_t waiting_announced = 0;    // announced messages of the peer that are not finished here
  uint32_t extra = 0;                // credits granted beyond kFirstCredits
  uint32_t operations = 0;           // sends, controls and transfers that exist
  uint32_t named = 0;                // posted receives that name it
  bool is_probed = false;            // a probe is on its way
  bool is_known = false;             // a message has come from it
  bool is_blocked = false;           // resume() looks at `unsent`
  Instant last_message;              // when a message came last, or a probe was sent

  // The credits that the next message to the peer returns: from now on the peer may use them.
  uint16_t take_credits() noexcept;
  // The message was not sent after all.
  void untake_credits(uint16_t taken) noexcept;
};

}  // namespace weft::message
