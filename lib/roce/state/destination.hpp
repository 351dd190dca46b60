// SPDX-License-Identifier: BSD-3-Clause
// State that all queue pairs to one address share: the window, so that go-back-N cannot overflow
// the receiver's socket buffer however many queue pairs there are (docs/design.md). Queue pairs
// that find the window full wait in FIFO order.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/roce/state/queue_pair.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/port.hpp"
#include "lib/transport/window.hpp"

namespace weft::roce {

struct Destination {
  Gid address;
  uint32_t users = 0;            // queue pairs that point here
  uint32_t packet_overhead = 0;  // bytes of the window that a packet takes besides its payload
  Window window;
  base::Line<QueuePair, &QueuePair::window_wait> waiting;
};

// Owns the destinations of an engine: one for each remote address, while a queue pair uses it.
class Destinations {
 public:
  Destination* acquire(const Gid& address, const Capabilities& port) {
    for (const std::unique_ptr<Destination>& d : all_) {
      if (d->address == address) return ++d->users, d.get();
    }
    std::unique_ptr<Destination> d(new Destination);
    d->address = address;
    d->users = 1;
    d->packet_overhead = port.packet_overhead;
    d->window = Window::of(port.in_flight_limit);
    all_.push_back(std::move(d));
    return all_.back().get();
  }
  // The queue pair no longer has a destination.
  void release(QueuePair& qp) noexcept {
    WEFT_DCHECK(!qp.window_wait.listed && qp.req.in_flight == 0);
    Destination* const d = qp.destination;
    qp.destination = nullptr;
    if (d == nullptr || --d->users != 0) return;
    WEFT_DCHECK(d->waiting.empty() && d->window.in_flight == 0);
    const auto owns = [d](const std::unique_ptr<Destination>& p) { return p.get() == d; };
    all_.erase(std::find_if(all_.begin(), all_.end(), owns));
  }
  const std::vector<std::unique_ptr<Destination>>& all() const noexcept { return all_; }

 private:
  std::vector<std::unique_ptr<Destination>> all_;
};

}  // namespace weft::roce
