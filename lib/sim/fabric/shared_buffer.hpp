// SPDX-License-Identifier: BSD-3-Clause
// The shared buffer of the switches, PFC thresholds and ECN (HPCC simulator). A packet of class 3
// is accounted to its ingress port from its arrival until its serialisation begins: first in the
// port's reserve, then in the shared buffer, up to a threshold that shrinks as the shared buffer
// fills (dynamic threshold), then in the port's headroom, which absorbs what is still on the wire
// after a PAUSE. ECN marks by the bytes left behind in the egress queue.
//
// `in` is a Port with its one data class, or a ClassQueue of several: the same accounts of both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "lib/sim/fabric/settings.hpp"

namespace weft::sim::fabric {

class SharedBuffer {
 public:
  explicit SharedBuffer(const Settings& settings)
      : reserve_(settings.reserve),
        pause_at_(settings.pause_at),
        resume_offset_(settings.resume_offset),
        pfc_(settings.pfc) {}

  // Before the first packet: `node` has `bytes` of buffer; of these an ingress takes its share.
  void resize(size_t nodes) { switches_.resize(nodes); }
  void set_buffer(uint32_t node, uint64_t bytes) {
    switches_[node].capacity = static_cast<int64_t>(bytes);
  }
  void subtract_ingress(uint32_t node, uint32_t headroom) {
    switches_[node].capacity -= int64_t{headroom} + reserve_;
  }
  void clamp_capacity() {
    for (Switch& node : switches_) node.capacity = std::max<int64_t>(node.capacity, 0);
  }

  // True if a packet of `bytes` fits the reserve of an ingress without headroom in use: it changes
  // no shared state.
  template <class PortOrClass>
  bool fits_reserve(const PortOrClass& in, uint32_t bytes) const noexcept {
    return in.headroom_used == 0 && in.ingress_bytes + bytes <= reserve_;
  }
  // Accounts a packet that arrives. False: there is no room, the packet must be dropped.
  template <class PortOrClass>
  bool admit(PortOrClass& in, uint32_t bytes) noexcept;
  // The same packet leaves.
  template <class PortOrClass>
  void release(PortOrClass& in, uint32_t bytes) noexcept;
  // After admit(): true if a PAUSE must be sent now.
  template <class PortOrClass>
  bool begin_pause(PortOrClass& in) const noexcept;
  // After release(), when a packet of this ingress has left: true if a RESUME must be sent now.
  template <class PortOrClass>
  bool end_pause(PortOrClass& in) const noexcept;

  bool empty() const noexcept {
    return std::all_of(switches_.begin(), switches_.end(),
                       [](const Switch& node) { return node.shared_used == 0; });
  }
  // Bytes of the shared part in use at a switch.
  int64_t shared_used(uint32_t node) const noexcept { return switches_[node].shared_used; }

 private:
  struct Switch {
    int64_t capacity = 0;  // of the shared part: buffer - headrooms - reserves
    int64_t shared_used = 0;
  };
  template <class PortOrClass>
  int64_t threshold(const PortOrClass& in) const noexcept {
    if (pause_at_ != 0) return pause_at_;
    const Switch& node = switches_[in.node];
    return std::max<int64_t>(0, node.capacity - node.shared_used) >> in.threshold_shift;
  }
  template <class PortOrClass>
  uint32_t above_reserve(const PortOrClass& in) const noexcept {
    return in.ingress_bytes > reserve_ ? in.ingress_bytes - reserve_ : 0;
  }

  const uint32_t reserve_;
  const uint32_t pause_at_;
  const uint32_t resume_offset_;
  const bool pfc_;
  std::vector<Switch> switches_;  // by node
};

template <class PortOrClass>
bool SharedBuffer::admit(PortOrClass& in, uint32_t bytes) noexcept {
  WEFT_DCHECK(bytes > 0 && in.headroom_used <= in.headroom);
  const int64_t limit = threshold(in);
  const uint32_t after = in.ingress_bytes + bytes;
  if (after <= reserve_) {
    in.ingress_bytes = after;
    return true;
  }
  const uint32_t above = after - reserve_;
  if (above <= limit) {
    in.ingress_bytes = after;
    switches_[in.node].shared_used += std::min(bytes, above);
    WEFT_DCHECK(switches_[in.node].shared_used >= above);
    return true;
  }
  if (in.headroom_used + bytes > in.headroom) return false;
  in.headroom_used += bytes;
  return true;
}

template <class PortOrClass>
void SharedBuffer::release(PortOrClass& in, uint32_t bytes) noexcept {
  const uint32_t from_headroom = std::min(in.headroom_used, bytes);
  const uint32_t rest = bytes - from_headroom;
  WEFT_DCHECK(rest <= in.ingress_bytes);
  switches_[in.node].shared_used -= std::min(rest, above_reserve(in));
  in.headroom_used -= from_headroom;
  in.ingress_bytes -= rest;
  WEFT_DCHECK(switches_[in.node].shared_used >= above_reserve(in));
}

template <class PortOrClass>
bool SharedBuffer::begin_pause(PortOrClass& in) const noexcept {
  if (in.pausing || !pfc_) return false;
  if (in.headroom_used == 0 && int64_t{above_reserve(in)} < threshold(in)) return false;
  return in.pausing = true;
}

template <class PortOrClass>
bool SharedBuffer::end_pause(PortOrClass& in) const noexcept {
  if (!in.pausing || in.headroom_used != 0) return false;
  WEFT_DCHECK(pfc_);
  const int64_t above = above_reserve(in);
  if (above != 0 && above + resume_offset_ > threshold(in)) return false;
  in.pausing = false;
  return true;
}

// ECN (RED on the instantaneous queue): never up to kmin, always above kmax, linear up to `pmax`
// in between. `out`: the egress queue that the packet has just left.
template <class PortOrClass>
bool ecn_marks(const PortOrClass& out, double pmax, base::Random& random) noexcept {
  if (out.queue_bytes <= out.kmin || pmax <= 0) return false;
  WEFT_DCHECK(out.kmin <= out.kmax);
  const double over = double(out.queue_bytes - out.kmin);
  const double chance = out.queue_bytes > out.kmax ? 1 : pmax * over / (out.kmax - out.kmin);
  return chance >= 1 || static_cast<double>(random.next() >> 11) * 0x1p-53 < chance;
}

}  // namespace weft::sim::fabric
