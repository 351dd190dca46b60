// SPDX-License-Identifier: BSD-3-Clause
// RCCC, the receiver's control of Ultra Ethernet 1.0 (a descendant of NDP and EQDS): a sender
// begins with a window of speculative credit, carries a credit request in each packet, and from the
// receiver's first answer on sends only what it is granted. The sender is a controller
// (rccc.cpp, kinds rccc, eqds and nscc+rccc); the receiver is one CreditPacer per host, which
// grants credit at just under the rate of the host's link, round robin, so that an incast's packets
// arrive one after the other for any number of senders.
//
// Structure and constants are those of the UEC simulator (uet-htsim).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/ring_queue.hpp"
#include "lib/congestion/controller.hpp"

namespace weft::congestion {

// Credit is counted in units of 256 B on the wire.
inline constexpr uint32_t kCreditUnit = 256;

// All times are the caller's: it calls grant() and comes back after Grant::next.
class CreditPacer {
 public:
  struct Rules {
    double bits_per_second = 0;  // of all grants together
    uint32_t grant_bytes = 0;    // of one grant
    uint32_t most_bytes = 0;     // granted ahead of the request of an idle sender
  };
  // `total`: what was granted to `sender` so far, in units; the wire carries this, so that the next
  // grant replaces a lost one.
  struct Grant {
    uint32_t sender = 0;
    uint32_t total = 0;
    Duration next;  // until the next grant may be made
  };

  explicit CreditPacer(const Rules& rules) : rules_(rules) {}

  // A new sender's number, of numbers() or less. Throws std::bad_alloc with no effect; no other
  // function throws.
  uint32_t add();
  // Numbers assigned so far, recycled ones included.
  size_t numbers() const { return senders_.size(); }
  // Units granted to the sender, in all.
  uint32_t granted(uint32_t sender) const { return senders_[sender].granted; }
  // Credit request: the sender asks for `total` units granted in all. Monotonic, modulo 2^32.
  void request_credit(uint32_t sender, uint32_t total);
  // A packet was trimmed: queues its sender for a grant even without a credit request.
  void ask(uint32_t sender);
  // The sender is done: no more grants.
  void remove(uint32_t sender);
  // The same, and its number may be assigned again: the caller does not use it any more.
  void recycle(uint32_t sender);
  // The next grant; none while no sender is queued: call again after request_credit() or ask().
  std::optional<Grant> grant();

 private:
  struct Sender {
    uint32_t requested = 0;  // units requested, in all
    uint32_t granted = 0;    // units, in all
    bool waiting = false;    // has a place in waiting_
    bool idle = false;       // has a place in idle_
    bool done = false;
    bool recycled = false;
  };
  Duration time_for(uint32_t units) const;
  bool idles(const Sender& sender) const;
  uint32_t units_per_grant() const { return rules_.grant_bytes / kCreditUnit; }

  Rules rules_;
  void end(uint32_t number);

  std::vector<Sender> senders_;
  std::vector<uint32_t> free_;
  base::RingQueue<uint32_t> waiting_;  // with a credit request, round robin
  base::RingQueue<uint32_t> idle_;     // without: slow grants while waiting_ is empty
};

// Parameters of rccc; in nscc+rccc they lie behind those of nscc.
enum RcccParameter : size_t { kFirstRtts = 1, kGrantBytes, kGrantShare, kRcccParameters };

// The receiver's rules for a preset of a credited kind.
CreditPacer::Rules credit_rules(const Preset& preset);
// The credit limit of a sender, and its initial, speculative credit.
int64_t most_credit(const Preset& preset);

}  // namespace weft::congestion
