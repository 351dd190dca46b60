// SPDX-License-Identifier: BSD-3-Clause
// Messages of an endpoint beside those of lib/message (own_wire.hpp), in order to each peer. What
// finds no room in the queue pair waits. Answers that wait are bounded: a peer has kQuestions
// answers to come at most, and beyond kMostAnswers of all peers they are short.
#pragma once

#include <optional>
#include <vector>

#include "lib/adapters/fi/rdm/peers.hpp"
#include "lib/adapters/fi/rdm/send_queue.hpp"
#include "lib/message/list.hpp"

namespace weft::fi {

// A message until its SEND has ended.
struct OwnMessage : message::Link<0> {
  message::Peer to = 0;
  std::vector<std::byte> bytes;
  std::optional<uint32_t> atomic;  // number of the atomic that it asks for
  std::optional<uint64_t> key;     // that it asks for
  bool is_answer = false;
};

// One thread at a time.
class OwnMessages {
 public:
  // `memory` gives access to all memory of the process.
  OwnMessages(SendQueue& queue, Peers& peers, LKey memory) noexcept
      : queue_(queue), peers_(peers), memory_(memory) {}
  // What it asks for is set in the result. Throws std::bad_alloc.
  OwnMessage& send(message::Peer to, std::vector<std::byte> bytes);
  // Answers a question, whose sender may_ask().
  void answer(message::Peer to, std::vector<std::byte> bytes);
  // False: the peer has sent more questions than it may without an answer.
  bool may_ask(message::Peer from) const noexcept;
  // Whether answers are to be short.
  bool has_many() const noexcept;
  // The SEND has ended.
  void give(OwnMessage& ended) noexcept;
  // Sends what waits. False: there is no room.
  bool retry() noexcept;

 private:
  OwnMessage& make(message::Peer to, std::vector<std::byte> bytes);
  void submit(OwnMessage& own) noexcept;
  bool post(OwnMessage& own) noexcept;
  void count_answers(const OwnMessage& own, int change) noexcept;

  SendQueue& queue_;
  Peers& peers_;
  const LKey memory_;
  message::Pool<OwnMessage> pool_;
  message::List<OwnMessage, 0> unsent_;
  size_t unsent_answers_ = 0;
};

}  // namespace weft::fi
