// SPDX-License-Identifier: BSD-3-Clause
// See rails_port.hpp. Frames keep their order, so one port that takes no more holds up the others;
// that is short, because a link that is down takes what it is given and loses it.
#include "providers/port/middleware/rails_port.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weft::middleware {

using transport::Capabilities;
using transport::Frame;
using transport::TxFrame;

namespace {

// What all can do.
Capabilities common(Capabilities a, const Capabilities& b) {
  a.max_mtu = std::min(a.max_mtu, b.max_mtu);
  a.active_mtu = std::min(a.active_mtu, b.active_mtu);
  a.burst = std::max(a.burst, b.burst);
  a.train_frames = std::min(a.train_frames, b.train_frames);
  a.train_bytes = std::min(a.train_bytes, b.train_bytes);
  a.integrity_bits = std::min(a.integrity_bits, b.integrity_bits);
  a.gather = a.gather && b.gather;
  a.signs = a.signs && b.signs;
  a.ecn = a.ecn && b.ecn;
  a.lossless = a.lossless && b.lossless;
  a.in_flight_limit = std::min(a.in_flight_limit, b.in_flight_limit);
  a.packet_overhead = std::max(a.packet_overhead, b.packet_overhead);
  a.by_reference = a.telemetry = false;
  return a;
}

transport::Port::QpnRange overlap(const transport::Port::QpnRange& a,
                                  const transport::Port::QpnRange& b) {
  const uint32_t first = std::max(a.first, b.first);
  const uint32_t end = std::min(a.first + a.count, b.first + b.count);
  return {first, end > first ? end - first : 0};
}

}  // namespace

Result<std::unique_ptr<transport::Port>> RailsPort::bundle(
    std::vector<std::unique_ptr<transport::Port>> ports) {
  QpnRange range = ports[0]->qpn_range();
  for (size_t i = 0; i < ports.size(); ++i) {
    range = overlap(range, ports[i]->qpn_range());
    for (size_t j = 0; j < i; ++j)
      if (ports[i]->address() == ports[j]->address())
        return Error{Code::invalid_argument, "rails: " + to_string(ports[i]->address()) +
                                                 " is there twice: name each once"};
  }
  if (range.count == 0)
    return Error{Code::invalid_argument,
                 "rails: no queue pair number reaches all addresses, because other processes share "
                 "them: close those, or list the addresses in the same order everywhere"};
  return std::unique_ptr<transport::Port>(new RailsPort(std::move(ports), range));
}

RailsPort::RailsPort(std::vector<std::unique_ptr<transport::Port>> ports, QpnRange range)
    : capabilities_(ports[0]->capabilities()), range_(range) {
  for (std::unique_ptr<transport::Port>& port : ports) {
    capabilities_ = common(capabilities_, port->capabilities());
    addresses_.push_back(port->address());
    epoll_event readable{};
    readable.events = EPOLLIN;
    if (const int fd = port->async_event_fd(); fd >= 0) {
      if (event_epoll_ < 0) event_epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
      (void)::epoll_ctl(event_epoll_, EPOLL_CTL_ADD, fd, &readable);
    }
    rails_.push_back({std::move(port)});
  }
}

RailsPort::~RailsPort() {
  if (event_epoll_ >= 0) ::close(event_epoll_);
}

bool RailsPort::all_down() const noexcept {
  return std::all_of(rails_.begin(), rails_.end(), [](const Rail& rail) { return rail.down; });
}

std::optional<EventType> RailsPort::next_event() noexcept {
  for (Rail& rail : rails_) {
    while (const std::optional<EventType> event = rail.port->next_event()) {
      const bool link = *event == EventType::port_error || *event == EventType::port_active;
      const bool before = all_down();
      if (link) rail.down = *event == EventType::port_error;
      if (!link || before != all_down()) return event;
    }
  }
  return {};
}

// In turns, so that none starves.
size_t RailsPort::receive(std::span<Frame> frames) noexcept {
  size_t filled = 0;
  for (size_t i = 0; i < rails_.size(); ++i) {
    Rail& rail = rails_[(turn_ + i) % rails_.size()];
    rail.lent = filled < frames.size() ? rail.port->receive(frames.subspan(filled)) : 0;
    filled += rail.lent;
  }
  return filled;
}

void RailsPort::release(std::span<const Frame> frames) noexcept {
  size_t at = 0;
  for (size_t i = 0; i < rails_.size(); ++i) {
    Rail& rail = rails_[(turn_ + i) % rails_.size()];
    if (rail.lent != 0) rail.port->release(frames.subspan(at, rail.lent));
    at += std::exchange(rail.lent, 0);
  }
  turn_ = (turn_ + 1) % rails_.size();
}

size_t RailsPort::rail_of(const TxFrame& frame) const noexcept {
  for (size_t i = 1; i < addresses_.size(); ++i)
    if (frame.path->source == addresses_[i]) return i;
  return 0;
}

size_t RailsPort::transmit(std::span<const TxFrame> frames) noexcept {
  size_t taken = 0;
  while (taken < frames.size()) {
    const size_t rail = rail_of(frames[taken]);
    size_t end = taken + 1;
    while (end < frames.size() && (frames[end].path == frames[taken].path ||
                                   frames[end].path->source == frames[taken].path->source))
      ++end;
    const size_t given = end - taken;
    const size_t took = rails_[rail].port->transmit(frames.subspan(taken, given));
    taken += took;
    if (took == given) continue;
    blocked_ = rail;
    break;
  }
  return taken;
}

void RailsPort::attach(void* base, size_t size) noexcept {
  for (Rail& rail : rails_) rail.port->attach(base, size);
}

void RailsPort::detach(void* base, size_t size) noexcept {
  for (Rail& rail : rails_) rail.port->detach(base, size);
}

bool RailsPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  for (size_t i = 0; i < rails_.size(); ++i) {
    if (rails_[i].port->prepare_wait(descriptors, want_transmit && i == blocked_)) continue;
    while (i-- > 0) rails_[i].port->finish_wait();
    return false;
  }
  return true;
}

void RailsPort::finish_wait() noexcept {
  for (Rail& rail : rails_) rail.port->finish_wait();
}

void RailsPort::append_counters(std::vector<Counter>& counters) const {
  std::vector<Counter> sums, some;
  for (const Rail& rail : rails_) {
    some.clear();
    rail.port->append_counters(some);
    transport::add_counters(sums, some);
  }
  counters.insert(counters.end(), sums.begin(), sums.end());
}

}  // namespace weft::middleware
