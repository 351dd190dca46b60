// SPDX-License-Identifier: BSD-3-Clause
// What is sent: a message is a request that was posted, or the answer to one of the peer's. It is
// cut into packets as it is sent; each packet has a record in its peer's flight (flight.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/line.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/wire/srd_headers.hpp"
#include "weft/wr.hpp"

namespace weft::srd {

struct Peer;
struct QueuePair;

struct Message {
  enum class State : uint8_t {
    free,
    queued,     // in its peer's line, perhaps sent in part
    sent,       // waits for acknowledgements, or for the answer
    cancelled,  // waits until nothing of it is in flight, then tells the receiver
    aborting,   // the receiver is being told
    resting,    // the peer had no receive: waits until `resume_at`
  };

  uint32_t id = 0;  // on the wire: generation and index, so that an old one names nobody
  State state = State::free;
  wire::SrdOpcode kind{};
  Opcode opcode{};  // of a request
  Status status = Status::success;
  bool signaled = false;
  bool solicited = false;
  bool has_immediate = false;
  bool is_inline = false;
  bool ordered = false;   // a SEND
  bool in_turn = false;   // a WRITE_ADD that waits for those before it
  bool retry = false;     // cancelled to be sent again
  bool answered = false;  // READ and atomics: all of the answer is here
  uint8_t detail = 0;     // element type, or the reason of a failure
  uint8_t reason = 0;     // of the last refusal
  uint8_t sge_count = 0;
  uint8_t traffic_class = 0;  // of its packets, without ECN
  uint8_t rests = 0;          // times that the peer had no receive
  uint16_t unacked = 0;       // packets
  uint32_t slot = 0;          // of the queue pair
  uint32_t length = 0;        // bytes
  uint32_t cursor = 0;        // bytes sent
  uint32_t received = 0;      // READ: bytes of the answer
  uint32_t rkey = 0;
  uint32_t domain = 0;      // answers: whose memory is read
  uint32_t request_id = 0;  // answers: the peer's name of its request
  // EF and AF41 (RFC 4594: telephony, and conferences) go before all others to the same peer. -1:
  // not urgent. Answers to READs never are.
  int urgency() const noexcept {
    return traffic_class == 46 << 2 ? 0 : traffic_class == 34 << 2 ? 1 : -1;
  }
  QpNum dest, source;
  Peer* peer = nullptr;
  QueuePair* qp = nullptr;  // null: an answer, or the queue pair is gone
  uint64_t wr_id = 0;
  uint64_t address = 0;
  uint64_t operand = 0;  // compare or add; the value of an atomic's answer
  uint64_t swap = 0;
  uint64_t immediate = 0;
  uint32_t order = 0;           // of an ordered SEND
  uint64_t first_sequence = 0;  // READ and atomics: of the request
  const Sge* sges = nullptr;
  std::byte* inline_data = nullptr;
  Instant resume_at;
  base::LineLink<Message> line;  // of its peer's
  Message* next_free = nullptr;
  Message* next_all = nullptr;  // of all that the peer has
  Message* previous_all = nullptr;

  bool answer() const {
    return kind == wire::SrdOpcode::read_response || kind == wire::SrdOpcode::atomic_response ||
           kind == wire::SrdOpcode::failure;
  }
  bool wants_answer() const {
    return kind == wire::SrdOpcode::read_request || kind == wire::SrdOpcode::compare_swap ||
           kind == wire::SrdOpcode::fetch_add;
  }
  // Bytes that travel with it.
  uint32_t payload() const { return wants_answer() ? 0 : length; }
  bool takes_receive() const {
    return kind == wire::SrdOpcode::send || (kind == wire::SrdOpcode::write && has_immediate);
  }
  // For the peer to have a receive, now or as soon as it is taken back.
  bool waits() const { return state == State::resting || retry; }
  // The receiver keeps state between its packets.
  bool assembled(uint32_t mtu) const { return payload() > mtu && takes_receive(); }
};

using MessageLine = base::Line<Message, &Message::line>;

// Messages by name, at addresses that do not change. Grows in chunks: for requests when queue pairs
// are created (reserve), for answers when more are in progress than ever before, up to a bound.
class MessagePool {
 public:
  // `seed`: names of one process are not those of the next.
  explicit MessagePool(uint32_t seed) : first_name_(seed & ~kIndexMask) {}

  // Room for `n` more that are certain to be there.
  void reserve(uint32_t n) {
    while (capacity() < reserved_ + n + lent_free_) grow();
    reserved_ += n;
  }
  void unreserve(uint32_t n) { reserved_ -= n; }

  // One of the reserved ones. Null if they are lent to others (adopt) and there is no memory.
  Message* take_reserved() noexcept { return take(); }
  // Another one, or null if kMostAnswers are lent, or if there is no memory.
  Message* take_answer() noexcept {
    if (lent_free_ >= kMostAnswers) return nullptr;
    ++lent_free_;
    if (provide()) return take();
    --lent_free_;
    return nullptr;
  }
  void give_reserved(Message& m) { give(m); }
  void give_answer(Message& m) {
    --lent_free_;
    give(m);
  }
  // A request that its queue pair left behind counts as an answer until it is done.
  void adopt() noexcept {
    ++lent_free_;
    (void)provide();
  }

  Message* find(uint32_t id) {
    const uint32_t index = id & kIndexMask;
    if (index >= capacity()) return nullptr;
    Message& m = at(index);
    return m.id == id && m.state != Message::State::free ? &m : nullptr;
  }
  // Gives `m` another name: for another attempt.
  void rename(Message& m) { m.id += kGeneration; }

 private:
  static constexpr uint32_t kChunk = 64;
  static constexpr uint32_t kIndexBits = 20;
  static constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
  static constexpr uint32_t kGeneration = 1u << kIndexBits;
  static constexpr uint32_t kMostAnswers = 16384;

  uint32_t capacity() const { return static_cast<uint32_t>(chunks_.size()) * kChunk; }
  Message& at(uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  void grow() {
    const uint32_t first = capacity();
    std::unique_ptr<Message[]> chunk(new Message[kChunk]);
    chunks_.push_back(std::move(chunk));
    for (uint32_t i = kChunk; i-- > 0;) {
      Message& m = chunks_.back()[i];
      m.id = first_name_ + first + i;
      m.next_free = free_;
      free_ = &m;
    }
  }
  // For all that are reserved or lent.
  bool provide() noexcept {
    return base::memory_permitting([this] {
      while (capacity() < reserved_ + lent_free_) grow();
    });
  }
  Message* take() noexcept {
    if (free_ == nullptr) return nullptr;
    Message& m = *free_;
    free_ = m.next_free;
    const uint32_t id = m.id + kGeneration;
    m = Message{};
    m.id = id;
    m.state = Message::State::queued;
    return &m;
  }
  void give(Message& m) {
    m.state = Message::State::free;
    m.next_free = free_;
    free_ = &m;
  }

  const uint32_t first_name_;
  std::vector<std::unique_ptr<Message[]>> chunks_;
  Message* free_ = nullptr;
  uint32_t reserved_ = 0;
  uint32_t lent_free_ = 0;  // answers and adopted ones
};

}  // namespace weft::srd
