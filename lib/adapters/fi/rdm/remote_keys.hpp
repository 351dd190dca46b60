// SPDX-License-Identifier: BSD-3-Clause
// Keys that programs have chosen for their regions, as peers have told what they stand for. A peer
// is asked when a key of it is used first; what the key stands for may change when the region is
// closed: then a READ or WRITE is refused, and the peer is asked again.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "lib/adapters/fi/rdm/limits.hpp"
#include "lib/message/list.hpp"
#include "lib/message/match.hpp"
#include "weft/wr.hpp"

namespace weft::fi {

// A READ or WRITE of the program, until it has completed.
struct Request : message::Link<0> {
  message::Peer peer = 0;
  Opcode opcode = Opcode::read;
  std::array<iovec, kIovLimit> pieces{};
  size_t count = 0;
  uint64_t address = 0, key = 0, data = 0;
  bool is_inline = false;    // the queue pair copies the bytes
  bool was_refused = false;  // its key has been asked for once more
  void* context = nullptr;
  uint64_t flags = 0;  // of its completion
  bool reports = true;
  std::vector<std::byte> copy;  // of what was injected
};

// One thread at a time.
class RemoteKeys {
 public:
  struct Key {
    bool is_known = false;
    bool is_asked = false;
    RKey rkey;
    uint64_t base = 0;  // of addresses in the region
    bool counts_events = false;
    message::List<Request, 0> waiting;
  };
  // Throws std::bad_alloc.
  Key& at(message::Peer peer, uint64_t key) { return keys_[{peer, key}]; }
  // Null: it was not used.
  Key* find(message::Peer peer, uint64_t key) noexcept {
    const auto found = keys_.find({peer, key});
    return found == keys_.end() ? nullptr : &found->second;
  }
  void forget(message::Peer peer, uint64_t key) noexcept { keys_.erase({peer, key}); }
  // The keys of a peer.
  std::vector<uint64_t> of(message::Peer peer) const {
    std::vector<uint64_t> keys;
    for (auto at = keys_.lower_bound({peer, 0}); at != keys_.end() && at->first.first == peer; ++at)
      keys.push_back(at->first.second);
    return keys;
  }

 private:
  std::map<std::pair<message::Peer, uint64_t>, Key> keys_;
};

}  // namespace weft::fi
