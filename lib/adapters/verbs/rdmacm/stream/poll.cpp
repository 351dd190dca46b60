// SPDX-License-Identifier: BSD-3-Clause
// Waiting for rsockets and other descriptors together. An rsocket is watched by two descriptors:
// its event channel's and its completion channel's, which is armed before each sleep.
#include <fcntl.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/adapters/verbs/rdmacm/datagram/calls.hpp"
#include "lib/adapters/verbs/rdmacm/stream/calls.hpp"

namespace weft::rdmacm::stream {

namespace {

// Another thread may take the event that this one sleeps for.
constexpr int kLongestSleepMs = 10;

void take_completion_event(Socket& s) {
  ibv_comp_channel* const events = s.id->send_cq_channel;
  (void)fcntl(events->fd, F_SETFL, O_NONBLOCK);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(events, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
}

short events_of(Socket& s, short wanted) {
  progress_connection(s);
  progress(s);
  short found = 0;
  if (s.phase == Phase::listening) {
    pollfd p{s.channel->fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1 ? static_cast<short>(wanted & POLLIN) : found;
  }
  if (s.phase < Phase::connected) return 0;
  const bool ended = s.phase != Phase::connected;
  if (s.unread != 0 || ended || !s.may_receive) found |= POLLIN;
  if (can_send(s) || ended || !s.may_send) found |= POLLOUT;
  found = static_cast<short>(found & wanted);
  // As for TCP: while there is something to read, the end is not told.
  if (s.phase == Phase::disconnected && s.unread == 0) found |= POLLHUP;
  if (s.phase == Phase::failed) found |= POLLERR;
  return found;
}

using Clock = std::chrono::steady_clock;

// One look at a datagram socket: 1 if it has an event. Empty: it is none.
std::optional<int> look_at_datagram(pollfd& p, std::vector<pollfd>& others) {
  return datagram::with_datagram("rpoll", p.fd, [&](datagram::Socket& s) {
    p.revents = datagram::events_of(s, p.events);
    if (p.revents == 0 && !datagram::arm(s)) p.revents = datagram::events_of(s, p.events);
    datagram::append_descriptors(s, others);
    return static_cast<int>(p.revents != 0);
  });
}

// One look at all; fills `revents` and returns how many have some.
int look(pollfd* fds, nfds_t count, std::vector<pollfd>& others) {
  int ready = 0;
  others.clear();
  for (nfds_t i = 0; i < count; ++i) {
    fds[i].revents = 0;
    if (const auto ready_now = look_at_datagram(fds[i], others)) {
      ready += *ready_now;
      continue;
    }
    const std::shared_ptr<Socket> socket = fds[i].fd >= 0 ? find(fds[i].fd) : nullptr;
    if (socket == nullptr) {
      others.push_back(fds[i]);
      continue;
    }
    const std::lock_guard hold(socket->lock);
    fds[i].revents = events_of(*socket, fds[i].events);
    if (fds[i].revents == 0 && !arm(*socket)) fds[i].revents = events_of(*socket, fds[i].events);
    ready += fds[i].revents != 0;
    others.push_back({socket->channel->fd, POLLIN, 0});
    if (socket->id->qp != nullptr) others.push_back({socket->id->send_cq_channel->fd, POLLIN, 0});
  }
  return ready;
}

// The events of descriptors that are no rsockets.
int copy_others(pollfd* fds, nfds_t count, const std::vector<pollfd>& others) {
  int ready = 0;
  for (nfds_t i = 0; i < count; ++i) {
    if (fds[i].fd >= 0 && (find(fds[i].fd) != nullptr || datagram::is_datagram(fds[i].fd)))
      continue;
    for (const pollfd& other : others)
      if (other.fd == fds[i].fd && other.events == fds[i].events) fds[i].revents = other.revents;
    ready += fds[i].revents != 0;
  }
  return ready;
}

int poll_all(pollfd* fds, nfds_t count, int timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  std::vector<pollfd> others;
  for (bool polled = timeout_ms == 0;; polled = true) {
    int ready = look(fds, count, others);
    if (ready == 0 && !polled) spin([&] { return (ready = look(fds, count, others)) != 0; });
    int sleep_ms = kLongestSleepMs;
    if (timeout_ms >= 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() +
          1;
      sleep_ms = static_cast<int>(std::clamp<int64_t>(left, 0, kLongestSleepMs));
    }
    if (poll(others.data(), others.size(), ready != 0 || timeout_ms == 0 ? 0 : sleep_ms) < 0 &&
        ready == 0)
      return -1;
    ready += copy_others(fds, count, others);
    if (ready != 0 || (timeout_ms >= 0 && Clock::now() >= deadline)) return ready;
  }
}

}  // namespace

bool arm(Socket& s) {
  if (s.id->qp == nullptr) return true;
  take_completion_event(s);
  if (ibv_req_notify_cq(s.id->send_cq, 0) != 0) return false;
  const uint32_t free_before = s.requests_free, unread_before = s.unread;
  const uint16_t limit_before = s.sent.limit;
  const uint32_t next_grant_before = s.grants.next;
  const Phase phase_before = s.phase;
  progress(s);
  return s.requests_free == free_before && s.unread == unread_before &&
         s.sent.limit == limit_before && s.grants.next == next_grant_before &&
         s.phase == phase_before;
}

bool sleep(Socket& s, std::unique_lock<std::mutex>& hold) {
  if (!arm(s)) return true;
  pollfd p[2] = {{s.channel->fd, POLLIN, 0}, {-1, POLLIN, 0}};
  if (s.id->qp != nullptr) p[1].fd = s.id->send_cq_channel->fd;
  hold.unlock();
  const bool interrupted = poll(p, 2, kLongestSleepMs) < 0 && weft_verbs_signals_end_calls();
  hold.lock();
  return !interrupted;
}

}  // namespace weft::rdmacm::stream

using namespace weft::rdmacm;
using namespace weft::rdmacm::stream;

int rpoll(pollfd* fds, nfds_t nfds, int timeout) {
  return guarded("rpoll", [&] { return poll_all(fds, nfds, timeout); });
}

int rselect(int nfds, fd_set* readfds, fd_set* writefds, fd_set* exceptfds, timeval* timeout) {
  return guarded("rselect", [&] {
    std::vector<pollfd> fds;
    const auto is_in = [](int fd, const fd_set* set) {
      return set != nullptr && FD_ISSET(fd, set);
    };
    for (int fd = 0; fd < nfds; ++fd) {
      const int events = (is_in(fd, readfds) ? POLLIN : 0) | (is_in(fd, writefds) ? POLLOUT : 0) |
                         (is_in(fd, exceptfds) ? POLLPRI : 0);
      if (events != 0) fds.push_back({fd, static_cast<short>(events), 0});
    }
    const int timeout_ms =
        timeout == nullptr
            ? -1
            : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
    const int ready = poll_all(fds.data(), fds.size(), timeout_ms);
    if (ready < 0) return ready;
    int bits = 0;
    const auto keep = [&](const pollfd& p, fd_set* set, int events) {
      if (set == nullptr || !FD_ISSET(p.fd, set)) return;
      if ((p.revents & events) == 0)
        FD_CLR(p.fd, set);
      else
        ++bits;
    };
    for (const pollfd& p : fds) {
      keep(p, readfds, POLLIN | POLLHUP | POLLERR);
      keep(p, writefds, POLLOUT | POLLERR);
      keep(p, exceptfds, POLLPRI);
    }
    return bits;
  });
}
