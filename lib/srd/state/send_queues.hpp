// SPDX-License-Identifier: BSD-3-Clause
// The messages of one peer that have packets to send for the first time, and the order in which
// they are served: urgent traffic classes first, then short messages and long ones in alternation.
// Ordered SENDs beyond the window of kOrderWindow and ordered WRITE_ADDs behind another wait in
// queues of their own, and so do READs and atomics beyond those that the peer takes at once.
#pragma once

#include "lib/srd/state/message.hpp"
#include "lib/srd/state/order.hpp"

namespace weft::srd {

struct SendQueues {
  MessageLine urgent[2];      // by Message::urgency()
  MessageLine small;          // messages of a few packets
  MessageLine round_robin;    // at most kMostTurns long messages, served in turn
  MessageLine bulk;           // long messages that wait for a place there
  MessageLine later;          // ordered messages beyond the window
  MessageLine adds;           // ordered WRITE_ADDs that wait for `adding`
  MessageLine reads;          // READs and atomics beyond kMostReads
  uint32_t reads_begun = 0;   // READs and atomics that have not ended, but those that wait there
  Message* adding = nullptr;  // the ordered WRITE_ADD in progress
  OrderSet order;             // numbers of ordered messages that have ended
  uint32_t next_order = 0;    // of the next ordered message
  uint32_t round_robin_count = 0;
  uint32_t round_robin_packets = 0;  // of the message that is served now
  uint32_t small_run = 0;            // packets of short messages since a long one was served
  uint32_t urgent_run = 0;           // packets of urgent messages since one of another

  static constexpr uint32_t kMostTurns = 8;
  // A receiver refuses more responses in progress (Receiver::kMostResponses) as busy, and counts
  // one until we have acknowledged it: some fewer are in flight.
  static constexpr uint32_t kMostReads = 192;

  // The queue of a message that does not wait behind long ones.
  MessageLine& quick(const Message& m) { return m.urgency() < 0 ? small : urgent[m.urgency()]; }
  bool has_urgent() const { return !urgent[0].empty() || !urgent[1].empty(); }
  // No new packet waits to be sent.
  bool empty() const {
    return !has_urgent() && small.empty() && round_robin.empty() && bulk.empty();
  }
  bool beyond_window(const Message& m) const { return m.ordered && !order.within(m.order); }

  void assign_order(Message& m) noexcept {
    if (m.ordered) m.order = next_order++;
  }
  // Queues a message by its class, its length and its number among ordered ones.
  void push(Message& m, uint32_t mtu) noexcept;
  // Takes a message out of the queue that it is in.
  void remove(Message& m) noexcept;
  // The message whose packet is sent next, or null. Counts the packet.
  Message* next() noexcept;
  // The message has ended, with success or not. True: others have come into the window.
  bool end_order(const Message& m, uint32_t mtu) noexcept;
  // An ordered WRITE_ADD was executed or never will be. True: the next one is queued.
  bool end_add(const Message& m, uint32_t mtu) noexcept;
  // A READ or atomic has ended. True: another one has begun.
  bool end_read(Message& m, uint32_t mtu) noexcept;
  // Bytes that wait, with a packet of `mtu` bytes more for each message; looks at `most` messages
  // and counts those in `looked`.
  uint64_t backlog(uint32_t mtu, int most, int& looked) const noexcept;
  // All queues; the numbers of ordered messages start again.
  void clear() noexcept;
};

}  // namespace weft::srd
