// SPDX-License-Identifier: BSD-3-Clause
// A Switch in the simulated network: hosts send to it through links, it delivers to hosts. It is
// polled every 100 ns while frames are inside; the times in its telemetry are exact.
#pragma once

#include <vector>

#include "lib/sim/frames/network.hpp"
#include "lib/sim/frames/switch.hpp"

namespace weft::sim {

class SwitchNode final : public Node, public EventHandler {
 public:
  // Host i is on port i.
  SwitchNode(Network& network, std::unique_ptr<Switch> device, std::vector<Host*> hosts)
      : events_(network.events()),
        pool_(network.pool()),
        device_(std::move(device)),
        hosts_(std::move(hosts)) {}

  Switch& device() noexcept { return *device_; }
  uint64_t strays() const noexcept {
    return strays_;
  }  // frames whose source or destination is not connected

  void arrive(Packet* packet, Instant now) override {
    const uint32_t in = port_of(packet->path.source), out = port_of(packet->path.destination);
    if (in == hosts_.size() || out == hosts_.size()) {
      ++strays_;
      return pool_.give(packet);
    }
    device_->receive(in, out, packet, now);
    schedule_poll();
  }

  void on_event(Instant now, uint64_t) override {
    polling_ = false;
    device_->run(now);
    for (PacketQueue& departed = device_->departed(); !departed.empty();) {
      Packet* const packet = departed.pop();
      hosts_[port_of(packet->path.destination)]->arrive(packet, now);
    }
    if (device_->inside() != 0) schedule_poll();
  }

 private:
  static constexpr Duration kPoll = Duration::from_ns(100);

  uint32_t port_of(const Gid& address) const noexcept {
    uint32_t i = 0;
    while (i < hosts_.size() && hosts_[i]->address() != address) ++i;
    return i;
  }
  void schedule_poll() {
    if (polling_) return;
    polling_ = true;
    events_.schedule(events_.now() + kPoll, *this, 0);
  }

  EventQueue& events_;
  PacketPool& pool_;
  std::unique_ptr<Switch> device_;
  std::vector<Host*> hosts_;
  bool polling_ = false;
  uint64_t strays_ = 0;
};

}  // namespace weft::sim
