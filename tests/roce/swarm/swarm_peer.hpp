// SPDX-License-Identifier: BSD-3-Clause
// One end of a swarm connection: an application that posts random requests and looks at its queues
// now and then, and the model that knows what must come of them. It checks every byte that arrives,
// that each request completes once and in order, and that errors are those that may happen.
#pragma once

#include <deque>
#include <optional>
#include <stdexcept>
#include <string>

#include "lib/base/random.hpp"
#include "tests/roce/swarm/swarm_atomics.hpp"
#include "tests/roce/swarm/swarm_config.hpp"

namespace weft::test {

// What the model found wrong.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void expect(bool holds, const char* what) {
  if (!holds) throw Violation(what);
}

// A station's memory, cut up: a pool of random bytes that all peers send from and none changes,
// words for atomics, and slots.
struct Land {
  static constexpr uint32_t kWords = 4;
  Station* station = nullptr;
  size_t pool_size = 0;
  size_t words = 0;  // offset of the words: kWords for FetchAdd, kWords for CmpSwap
  size_t used = 0;   // end of what is given away
  AddedWord added[kWords];
  SwappedWord swapped[kWords];

  void lay_out(Station& owner, size_t pool, uint64_t seed);
  size_t take(size_t size);
};

// A place for the bytes of one request or receive, with guards on both sides.
struct Slot {
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kFree{0xA5}, kFence{0xFA};
  Land* land = nullptr;
  size_t offset = 0;  // of the space, behind the first guard
  size_t space = 0;
  uint32_t users = 0;
  std::byte* at(size_t shift) const { return land->station->at(offset + shift); }
};

class SlotPool {
 public:
  void create(Land& land, uint32_t count, size_t space);
  Slot* take();  // nullptr: all are in use
  // The guards must be whole.
  void give(Slot* slot);
  void give_all();
  uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }

 private:
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
};

struct Traffic {
  uint64_t packets = 0;  // posted, about
  uint64_t requests = 0;
  uint64_t completions = 0;
  uint64_t failures = 0;  // requests that completed in error, flushed ones not counted
  uint64_t connections = 0;
};

class SwarmPeer {
 public:
  // `type`: RC, or the end of XRC that this is.
  SwarmPeer(const SwarmConnection& config, QpType type, Land& home, Land& there, uint64_t seed,
            bool faulty, Traffic& traffic);

  void join(SwarmPeer& other) { other_ = &other; }
  Endpoint& endpoint() { return *endpoint_; }
  void open();
  // One look at the queues; posts if `posting`. Throws Violation. Returns whether anything
  // happened.
  bool act(bool posting);
  // Posts one signaled request; false if there is no room yet. An XRC target has nothing to post.
  bool post_last() { return !asks() || post_request(true); }
  bool broken() const { return broken_; }
  bool idle() const { return requests_.empty(); }
  // Moves the queue pair to ERR: all that is posted must be flushed now.
  void flush();
  // After both ends were flushed: checks what failed requests left behind, destroys the queue pair.
  void close();
  std::string describe() const;

 private:
  struct Request {
    uint64_t id = 0;
    Opcode opcode = Opcode::send;
    bool signaled = true;
    bool failed = false;
    Status wanted = Status::success;  // not success: it must fail, best with this
    uint32_t size = 0;
    size_t source = 0;          // offset in the pool the bytes come from
    Slot* slot = nullptr;       // where they go: remote for WRITE, local for READ and atomics
    size_t shift = 0;           // in the slot
    Slot* read_from = nullptr;  // a READ of what an earlier WRITE wrote
    uint64_t message = 0;       // number among those that consume a receive
    uint32_t word = 0;
    uint64_t first = 0, second = 0;  // addend; or expected and new value
    bool consumes() const {
      return opcode <= Opcode::send_with_invalidate || opcode == Opcode::write_with_imm;
    }
  };
  struct Receive {
    uint64_t id;
    Slot* slot;
    size_t shift;
    uint32_t space;
  };
  // A message that the other end will send us, in order.
  struct Incoming {
    Opcode opcode;
    uint32_t size, imm;
    size_t source;
    uint64_t number, after_request;
    bool bad;
  };

  static constexpr uint32_t kXrcDomain = 1;  // one for all targets of a station
  bool asks() const { return type_ != QpType::xrc_target; }
  bool answers() const { return type_ != QpType::xrc_initiator; }
  bool poll_sent();
  bool poll_received();
  void on_sent(const Completion& c);
  void on_received(const Completion& c);
  void succeed(const Request& r);
  void fail(Request& r, Status status);
  void check_failed(const Request& r);
  void check_written_before(const Incoming& m);
  void release(const Request& r);
  void post_receives();
  bool post_request(bool last);
  Opcode draw_opcode();
  uint32_t draw_size();
  bool prepare(Request& r, SendRequest& wr);
  bool prepare_transfer(Request& r, SendRequest& wr);
  void prepare_atomic(Request& r, SendRequest& wr);
  void spoil(Request& r, SendRequest& wr);
  std::span<const Sge> cut(std::byte* at, uint32_t size, bool inlined);

  const SwarmConnection& config_;
  const QpType type_;
  Land& home_;
  Land& there_;
  base::Random random_;
  const bool faulty_;
  Traffic& traffic_;
  SwarmPeer* other_ = nullptr;
  std::optional<Endpoint> endpoint_;
  std::unique_ptr<transport::SharedReceives> pool_;  // of an XRC target
  SlotPool write_slots_;                             // in the other's memory
  SlotPool local_slots_;                             // for READs and atomics
  SlotPool receive_slots_;
  std::deque<Request> requests_;
  std::vector<Request> leftovers_;  // failed
  std::deque<Receive> receives_;
  std::deque<Incoming> incoming_;
  uint64_t next_id_ = 1;
  uint64_t next_receive_ = 1;
  uint64_t messages_ = 0;   // sent by us that consume a receive
  uint64_t delivered_ = 0;  // received by us
  bool broken_ = false;     // the connection is of no more use
  bool failed_ = false;     // a request has failed
  bool spoiled_ = false;    // a request was made to fail, here or there
  Sge sges_[4];
};

}  // namespace weft::test
