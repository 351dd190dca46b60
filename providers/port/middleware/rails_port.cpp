// SPDX-License-Identifier: BSD-3-Clause
// See rails_port.hpp. A port that takes no more holds up the others for a short time only: a link
// that is down takes what it is given and loses it.
#include "providers/port/middleware/rails_port.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weft::middleware {

using transport::Capabilities;

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
  a.asks = a.asks && b.asks;
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
    : PortBundle(std::move(ports)), capabilities_(port(0).capabilities()), range_(range) {
  for (size_t i = 0; i < port_count(); ++i) {
    capabilities_ = common(capabilities_, port(i).capabilities());
    addresses_.push_back(port(i).address());
    epoll_event readable{};
    readable.events = EPOLLIN;
    if (const int fd = port(i).async_event_fd(); fd >= 0) {
      if (event_epoll_ < 0) event_epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
      (void)::epoll_ctl(event_epoll_, EPOLL_CTL_ADD, fd, &readable);
    }
  }
  down_.resize(port_count());
}

RailsPort::~RailsPort() {
  if (event_epoll_ >= 0) ::close(event_epoll_);
}

bool RailsPort::all_down() const noexcept {
  return std::all_of(down_.begin(), down_.end(), [](uint8_t down) { return down != 0; });
}

std::optional<EventType> RailsPort::next_event() noexcept {
  for (size_t i = 0; i < port_count(); ++i) {
    while (const std::optional<EventType> event = port(i).next_event()) {
      const bool link = *event == EventType::port_error || *event == EventType::port_active;
      const bool before = all_down();
      if (link) down_[i] = *event == EventType::port_error;
      if (!link || before != all_down()) return event;
    }
  }
  return {};
}

size_t RailsPort::port_of(const transport::TxFrame& frame) const noexcept {
  for (size_t i = 1; i < addresses_.size(); ++i)
    if (frame.path->source == addresses_[i]) return i;
  return 0;
}

}  // namespace weft::middleware
