// SPDX-License-Identifier: BSD-3-Clause
// See port_bundle.hpp.
#include "providers/port/middleware/port_bundle.hpp"

#include <utility>

#include "lib/base/check.hpp"

namespace weft::middleware {

using transport::Frame;
using transport::TxFrame;

PortBundle::PortBundle(std::vector<std::unique_ptr<transport::Port>> ports) {
  WEFT_CHECK(!ports.empty());
  for (std::unique_ptr<transport::Port>& port : ports) members_.push_back({std::move(port)});
}

PortBundle::~PortBundle() {
  for (Member& member : members_) member.port.reset();
}

// In turns, so that none starves.
size_t PortBundle::receive(std::span<Frame> frames) noexcept {
  size_t filled = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const size_t at = turn_ + i < members_.size() ? turn_ + i : turn_ + i - members_.size();
    Member& member = members_[at];
    member.lent =
        filled < frames.size() && polls(at) ? member.port->receive(frames.subspan(filled)) : 0;
    filled += member.lent;
  }
  return filled;
}

void PortBundle::release(std::span<const Frame> frames) noexcept {
  size_t done = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const size_t at = turn_ + i < members_.size() ? turn_ + i : turn_ + i - members_.size();
    Member& member = members_[at];
    if (member.lent != 0) member.port->release(frames.subspan(done, member.lent));
    done += std::exchange(member.lent, 0);
  }
  if (++turn_ == members_.size()) turn_ = 0;
}

size_t PortBundle::transmit(std::span<const TxFrame> frames) noexcept {
  size_t taken = 0;
  while (taken < frames.size()) {
    const size_t at = port_of(frames[taken]);
    size_t end = taken + 1;
    while (end < frames.size() &&
           (frames[end].path == frames[taken].path || port_of(frames[end]) == at))
      ++end;
    const size_t given = end - taken;
    const size_t took = members_[at].port->transmit(frames.subspan(taken, given));
    taken += took;
    if (took == given) continue;
    blocked_ = at;
    break;
  }
  return taken;
}

void PortBundle::report_lost_peers(transport::LostPeers& lost) {
  for (Member& member : members_) member.port->report_lost_peers(lost);
}

void PortBundle::ask(const transport::Path& path, std::span<const std::byte> datagram) noexcept {
  TxFrame frame{};
  frame.path = &path;
  members_[port_of(frame)].port->ask(path, datagram);
}

std::optional<uint64_t> PortBundle::unread(const Gid& destination, QpNum number,
                                           bool in_memory) noexcept {
  for (Member& member : members_)
    if (const auto place = member.port->unread(destination, number, in_memory)) return place;
  return std::nullopt;
}

void PortBundle::attach(void* base, size_t size) noexcept {
  for (Member& member : members_) member.port->attach(base, size);
}

void PortBundle::detach(void* base, size_t size) noexcept {
  for (Member& member : members_) member.port->detach(base, size);
}

bool PortBundle::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].port->prepare_wait(descriptors, want_transmit && i == blocked_)) continue;
    while (i-- > 0) members_[i].port->finish_wait();
    return false;
  }
  return true;
}

void PortBundle::finish_wait() noexcept {
  for (Member& member : members_) member.port->finish_wait();
}

void PortBundle::append_counters(std::vector<Counter>& counters) const {
  std::vector<Counter> sums, some;
  for (const Member& member : members_) {
    some.clear();
    member.port->append_counters(some);
    transport::add_counters(sums, some);
  }
  counters.insert(counters.end(), sums.begin(), sums.end());
}

}  // namespace weft::middleware
