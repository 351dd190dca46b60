// SPDX-License-Identifier: BSD-3-Clause
// What is sent: a message is a posted request, or the response to a request of the peer. It is cut
// into packets as it is sent; each packet has a record in the flight of its peer (flight.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/line.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/wire/srd_headers.hpp"
#include "weft/units.hpp"
#include "weft/wr.hpp"

namespace weft::srd {

struct Peer;
struct QueuePair;

struct Message {
  enum class State : uint8_t {
    free,
    queued,     // in a queue of its peer, perhaps sent in part
    sent,       // waits for acknowledgements, or for the response
    cancelled,  // waits until none of its packets is in flight; then an abort may follow
    aborting,   // an abort packet is queued or in flight
    rnr_wait,   // the peer had no receive: waits until `rnr.resume_at`
  };
  // The posted request; not of a response.
  struct Request {
    uint64_t id = 0;    // of the work request
    uint32_t slot = 0;  // of the queue pair's send queue
    Opcode opcode{};
    bool signaled = false;
    bool begun = false;  // a READ or atomic that is counted in SendQueues::reads_begun
  };
  // The operation's memory at the peer, and its operands. Of a READ response: the local memory that
  // the peer reads, by the peer's rkey.
  struct Target {
    uint64_t address = 0;
    uint64_t operand = 0;  // compare or add; the value in an atomic response
    uint64_t swap = 0;
    uint64_t immediate = 0;
    uint32_t rkey = 0;
    uint32_t queue_key = 0;  // of the queue pair whose receive it takes
  };
  struct Local {  // the request's local memory
    const Sge* sges = nullptr;
    std::byte* inline_data = nullptr;
    uint32_t domain = 0;
    uint8_t sge_count = 0;
    bool is_inline = false;
  };
  struct Rnr {
    Instant resume_at;
    uint8_t tries = 0;   // times that the peer had no receive
    bool retry = false;  // cancelled, to be sent again under another id
  };

  uint32_t id = 0;  // on the wire: generation and index, so that an old id finds no message
  State state = State::free;
  wire::SrdOpcode kind{};
  Status status = Status::success;
  bool solicited = false;
  bool has_immediate = false;
  bool ordered = false;        // a SEND
  bool ordered_add = false;    // a WRITE_ADD
  bool responded = false;      // READ and atomics: the whole response has arrived
  uint8_t detail = 0;          // element type, or the reason of a failure
  uint8_t refusal_reason = 0;  // of the last refusal
  uint8_t traffic_class = 0;   // of its packets, without ECN
  uint16_t unacked = 0;        // packets with a record that is not acknowledged
  uint32_t length = 0;         // bytes
  uint32_t cursor = 0;         // bytes sent
  uint32_t received = 0;       // READ: bytes of the response
  uint32_t peer_message = 0;   // responses: id of the peer's request
  uint32_t order = 0;          // number of an ordered SEND
  QpNum dest, source;
  Peer* peer = nullptr;
  QueuePair* qp = nullptr;  // null: a response, or the queue pair has gone to ERR or is destroyed
  uint64_t first_sequence = 0;  // READ and atomics: of the request packet
  Request request;
  Target target;
  Local local;
  Rnr rnr;
  base::LineLink<Message> line;  // of a queue of its peer
  Message* older = nullptr;  // list of all messages of the peer; of a free one: the next free one
  Message* newer = nullptr;

  // EF and AF41 (RFC 4594: telephony, and conferences) go before all others to the same peer. -1:
  // not urgent. READ responses never are.
  int urgency() const noexcept {
    return traffic_class == 46 << 2 ? 0 : traffic_class == 34 << 2 ? 1 : -1;
  }
  bool is_response() const {
    return kind == wire::SrdOpcode::read_response || kind == wire::SrdOpcode::atomic_response ||
           kind == wire::SrdOpcode::failure;
  }
  bool expects_response() const {
    return kind == wire::SrdOpcode::read_request || kind == wire::SrdOpcode::compare_swap ||
           kind == wire::SrdOpcode::fetch_add;
  }
  // Bytes in its packets.
  uint32_t payload_length() const { return expects_response() ? 0 : length; }
  bool consumes_receive() const {
    return kind == wire::SrdOpcode::send || (kind == wire::SrdOpcode::write && has_immediate);
  }
  // Waits for the peer to have a receive, or will when its packets are filled.
  bool awaits_receive() const { return state == State::rnr_wait || rnr.retry; }
  // The receiver keeps an assembly of it.
  bool needs_assembly(uint32_t mtu) const { return payload_length() > mtu && consumes_receive(); }
};

using MessageLine = base::Line<Message, &Message::line>;

// Messages by id, at stable addresses. Grows in chunks: for requests when queue pairs are created
// (reserve), for responses when more are in progress than ever before, up to a bound.
class MessagePool {
 public:
  // `seed`: two processes at one address use different ids.
  explicit MessagePool(uint32_t seed) : first_id_(seed & ~kIndexMask) {}

  // Room for `n` more that take_reserved() will find.
  void reserve(uint32_t n) {
    while (capacity() < reserved_ + n + unreserved_) grow();
    reserved_ += n;
  }
  void unreserve(uint32_t n) {
    WEFT_DCHECK(n <= reserved_);
    reserved_ -= n;
  }
  // Null if the reserved ones are in use by detached requests and there is no memory.
  Message* take_reserved() noexcept { return take(); }
  // Null if kMostResponses are in use, or if there is no memory.
  Message* take_response() noexcept {
    if (unreserved_ >= kMostResponses) return nullptr;
    ++unreserved_;
    if (provide()) return take();
    --unreserved_;
    return nullptr;
  }
  void give_reserved(Message& m) { give(m); }
  void give_response(Message& m) {
    WEFT_DCHECK(unreserved_ > 0);
    --unreserved_;
    give(m);
  }
  // A request whose queue pair was reset or destroyed counts as a response until it ends.
  void detach() noexcept {
    ++unreserved_;
    (void)provide();
  }

  Message* find(uint32_t id) {
    const uint32_t index = id & kIndexMask;
    if (index >= capacity()) return nullptr;
    Message& m = at(index);
    return m.id == id && m.state != Message::State::free ? &m : nullptr;
  }
  // A new id, for another attempt.
  void renew_id(Message& m) { m.id += kGeneration; }

 private:
  static constexpr uint32_t kChunk = 64;
  static constexpr uint32_t kIndexBits = 20;
  static constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
  static constexpr uint32_t kGeneration = 1u << kIndexBits;
  static constexpr uint32_t kMostResponses = 16384;

  uint32_t capacity() const { return static_cast<uint32_t>(chunks_.size()) * kChunk; }
  Message& at(uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  void grow() {
    const uint32_t first = capacity();
    std::unique_ptr<Message[]> chunk(new Message[kChunk]);
    chunks_.push_back(std::move(chunk));
    for (uint32_t i = kChunk; i-- > 0;) {
      Message& m = chunks_.back()[i];
      m.id = first_id_ + first + i;
      m.older = free_;
      free_ = &m;
    }
  }
  // Capacity for all that are reserved or in use.
  bool provide() noexcept {
    return base::memory_permitting([this] {
      while (capacity() < reserved_ + unreserved_) grow();
    });
  }
  Message* take() noexcept {
    if (free_ == nullptr) return nullptr;
    Message& m = *free_;
    WEFT_DCHECK(m.state == Message::State::free);
    free_ = m.older;
    const uint32_t id = m.id + kGeneration;
    m = Message{};
    m.id = id;
    m.state = Message::State::queued;
    return &m;
  }
  void give(Message& m) {
    WEFT_DCHECK(m.state != Message::State::free && !m.line.listed && m.unacked == 0);
    m.state = Message::State::free;
    m.older = free_;
    free_ = &m;
  }

  const uint32_t first_id_;
  std::vector<std::unique_ptr<Message[]>> chunks_;
  Message* free_ = nullptr;
  uint32_t reserved_ = 0;
  uint32_t unreserved_ = 0;  // responses and detached requests
};

}  // namespace weft::srd
