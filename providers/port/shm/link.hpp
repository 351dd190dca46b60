// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a link. A link has one direction: its sender made the ring and connected. Answers
// take the receiver's own link back, so two ports that connect to each other at the same time make
// two links, as they need, and nothing has to be arbitrated.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/full_fence.hpp"
#include "lib/transport/frame.hpp"
#include "lib/transport/shared_address.hpp"
#include "providers/port/shm/descriptor.hpp"
#include "providers/port/shm/rendezvous.hpp"
#include "providers/port/shm/ring.hpp"

namespace weft::port::shm {

// What an epoll event points at.
struct Endpoint {
  enum class Kind : uint8_t { listener, handshake, in, out, process };
  explicit Endpoint(Kind k) : kind(k) {}
  Kind kind;
};

// What a port waits for.
class EpollSet {
 public:
  bool open() noexcept;
  int fd() const noexcept { return epoll_.fd(); }
  bool add(int descriptor, Endpoint& endpoint) noexcept;
  // Takes a descriptor out of the set before it is closed: a forked child may hold a copy, and then
  // closing ours would leave it there, with a dangling pointer.
  void remove(Descriptor& descriptor) noexcept;

 private:
  Descriptor epoll_;
};

// A socket that peers connect to.
struct Listener : Endpoint {
  explicit Listener(const Gid& its_name) : Endpoint(Kind::listener), name(its_name) {}
  Gid name;
  Descriptor socket;
};

// Whose frames a link carries.
struct Sender {
  Gid address;
  transport::Slot slot = 0;  // 0: it shares its address with none
};

// An accepted connection that is not authenticated yet.
struct Handshake : Endpoint {
  explicit Handshake(const Gid& at) : Endpoint(Kind::handshake), listener(at) {}
  Gid listener;  // whose connection it is
  Descriptor socket;
  Credentials peer;
  Hello hello;
  Descriptor memory;
  bool complete = false;  // `hello` is received
  bool done = false;      // admitted or refused
};

// The link that `sender` sends to us on.
struct InLink final : Endpoint, transport::RemoteMemory {
  InLink(std::byte* memory, const RingGeometry& geometry)
      : Endpoint(Kind::in), ring(memory, geometry) {}
  bool pull(void* destination, uint64_t address, size_t size) noexcept override;

  enum class State : uint8_t {
    open,
    draining,  // the sender has closed: published frames are still received
    cut,       // nothing more is received
  };
  RingConsumer ring;
  State state = State::open;
  Gid sender;    // the name of its socket
  Gid listener;  // that of ours that it has connected to
  pid_t pid = 0;
  uint64_t denied = 0;       // pulls that the kernel refused
  uint64_t drain_until = 0;  // ring position at which a draining link ends at the latest
  transport::Path path;
  Descriptor socket;
  Mapping mapping;
};

// pidfd of a process that we send to; readable when it has exited.
struct ProcessWatch : Endpoint {
  ProcessWatch() : Endpoint(Kind::process) {}
  struct OutLink* link = nullptr;
  Descriptor descriptor;
};

// The link that we send to `gid` on.
struct OutLink : Endpoint {
  explicit OutLink(const Gid& name) : Endpoint(Kind::out), gid(name) {}

  // Whether the peer is gone, and what is left to do before that is reported.
  enum class End : uint8_t {
    no,
    perhaps,  // its end of the link is closed: it is gone if no one listens there
    closed,   // no one does
    exited,   // its process has ended
  };

  // Whether a frame is for the port at its end. Of a link to the listener of a service: no, each
  // request looks for its listener.
  bool takes(const transport::TxFrame& frame) const noexcept {
    return frame.path->destination == address &&
           (slot == 0 || (frame.head_length > transport::kQpnTopByte &&
                          transport::slot_by_queue_pair(frame.head) == slot));
  }

  // After frames were published: wakes the peer if it sleeps. True: it rang.
  bool announce() noexcept;

  Gid gid;                           // the name of the peer's socket
  Gid address;                       // the destination of the frames that it takes
  transport::Slot slot = 0;          // of a peer that shares its address
  std::optional<RingProducer> ring;  // empty: down, no such peer
  bool unannounced = false;          // frames were published since the doorbell was last considered
  bool barrier = false;              // the peer barriers before it sleeps, and reaches us
  bool can_pull = false;             // the peer can read our memory
  bool blocked = false;              // the last frame did not fit
  bool is_self = false;
  bool watched = false;  // the process watch is in the epoll set
  bool refused = false;  // the last attempt to connect was: no one listens there
  End end = End::no;     // since the link went down
  pid_t pid = 0;
  int64_t retry_at_ns = 0;       // down: when to connect again
  int64_t blocked_since_ns = 0;  // of the ring position `blocked_at`
  uint64_t blocked_at = 0;
  Descriptor socket;
  Mapping mapping;
  ProcessWatch process;
};

// Either the peer sees our frames when it looks once more before it sleeps, or we see its flag
// here: that takes a barrier on both sides, or an expedited one on its side.
inline bool OutLink::announce() noexcept {
  if (!unannounced) return false;
  unannounced = false;
  WEFT_DCHECK(ring && socket);
  if (barrier) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    base::full_fence();
  }
  auto& consumer = ring->control().consumer_state;
  uint32_t state = consumer.load(std::memory_order_relaxed);
  if (state == kAwake) return false;
  if (state == kAwakeBriefly) {
    base::full_fence();
    state = consumer.load(std::memory_order_relaxed);
  }
  if (state != kAsleep || !consumer.compare_exchange_strong(state, kAwakeBriefly)) return false;
  ring_doorbell(socket.fd());
  return true;
}

}  // namespace weft::port::shm
