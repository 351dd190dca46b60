// SPDX-License-Identifier: BSD-3-Clause
// One end of a swarm connection of UC or UD: it sends messages that carry their number, and knows
// what may come of them. Each that arrives is whole, is one that was sent to us and could be
// delivered, and lies where its receive is. Without reordering and duplication on the network it
// comes once, and UC keeps the order; with them a message of one packet may come as often and as
// late as its packet does (IBTA 9.8.3, 9.8.4: the receiver knows only what begins a message).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/roce/swarm/swarm_peer.hpp"

namespace weft::test {

// Receives of one queue pair, or of a station's pool that queue pairs of both services share.
class SwarmReceives {
 public:
  SwarmReceives(Land& land, uint32_t count, uint32_t space);
  void post_to(Endpoint& endpoint) { endpoint_ = &endpoint; }
  void share(roce::Engine& engine);
  transport::SharedReceives* pool() { return pool_.get(); }
  void refill();
  // What a completion with this id used.
  Slot* take(uint64_t id);
  void give(Slot* slot) { slots_.give(slot); }
  uint32_t space() const { return space_; }
  // No receive has been lost: those that have not completed wait in the pool.
  void check_end();

 private:
  Land& land_;
  const uint32_t space_;
  SlotPool slots_;
  std::map<uint64_t, Slot*> posted_;
  uint64_t next_id_ = 1;
  Endpoint* endpoint_ = nullptr;
  std::unique_ptr<transport::SharedReceives> pool_;
};

class UnreliablePeer {
 public:
  // `orderly`: the network has no faults, so nothing comes late or twice.
  UnreliablePeer(const SwarmConnection& config, Land& home, Land& there, uint64_t seed,
                 bool orderly, Traffic& traffic);

  void open(UnreliablePeer& other, SwarmReceives* shared);
  Endpoint& endpoint() { return *endpoint_; }
  bool act(bool posting);
  bool idle() const { return requests_.empty(); }
  // ERR, and then nothing.
  void close();

  // For the sums of a whole run.
  uint64_t missing() const { return good_ - arrived_; }
  uint64_t again() const { return again_; }
  uint64_t refused() const { return refused_; }  // of the datagrams with a wrong Q_Key

 private:
  struct Message {
    Opcode opcode;
    uint32_t size;
    size_t source;  // of what follows the label
    bool bad;
    bool arrived = false;
  };
  struct Label {
    uint64_t number, from;
  };
  bool datagrams() const { return config_.qp.type == QpType::ud; }
  bool poll_sent();
  bool poll_received();
  void on_received(const Completion& c);
  void check(const Completion& c, const Slot* slot);
  bool post();
  Slot* target_of(uint64_t number) { return targets_[number % targets_.size()]; }

  const SwarmConnection& config_;
  Land& home_;
  Land& there_;
  base::Random random_;
  const bool orderly_;
  Traffic& traffic_;
  const uint64_t identity_;
  UnreliablePeer* other_ = nullptr;
  std::optional<Endpoint> endpoint_;
  QpNum number_;  // also after it is destroyed
  std::unique_ptr<SwarmReceives> own_receives_;
  SwarmReceives* receives_ = nullptr;
  SlotPool label_slots_, target_slots_;
  std::vector<Slot*> targets_;  // of WRITEs, in the other's memory
  struct Request {
    uint64_t number;
    Slot* label;
  };
  std::deque<Request> requests_;
  std::vector<Message> messages_;
  uint64_t next_ = 0;  // without reordering, no message before this can come
  uint64_t good_ = 0, arrived_ = 0, again_ = 0, refused_ = 0;
};

}  // namespace weft::test
