// SPDX-License-Identifier: BSD-3-Clause
// Events of connections: new peers, doorbells, closed peers. One epoll_wait() without events, made
// once in kPollConnectionsEvery (kPollConnectionsBeside) calls of receive() while no thread sleeps,
// and after every sleep. See shm_port.hpp.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "providers/port/shm/shm_port.hpp"

namespace weft::port {

using shm::Endpoint;
using shm::Handshake;
using shm::InLink;
using shm::OutLink;

namespace {

constexpr size_t kMaxDownLinks = 4096;
constexpr int64_t kMillisecond = 1'000'000;

// Reads one message. -1: none, 0: the peer has closed.
ssize_t read_message(int socket, void* buffer, size_t size) noexcept {
  const ssize_t got = recv(socket, buffer, size, MSG_DONTWAIT);
  if (got >= 0) return got;
  return errno == EAGAIN || errno == EINTR ? -1 : 0;
}

// False: the sender has closed.
bool take_doorbells(InLink& link) noexcept {
  char doorbell[8];
  for (int i = 0; i < 64 && link.socket; ++i) {
    const ssize_t got = read_message(link.socket.fd(), doorbell, sizeof doorbell);
    if (got <= 0) return got < 0;
  }
  return true;
}

// False: the peer has closed.
bool take_replies(OutLink& link, bool by_reference, bool barrier) noexcept {
  shm::HandshakeReply reply;
  for (int i = 0; i < 64 && link.socket; ++i) {
    const ssize_t got = read_message(link.socket.fd(), &reply, sizeof reply);
    if (got <= 0) return got < 0;
    if (got != sizeof reply || reply.magic != shm::kReplyMagic) continue;
    link.can_pull = by_reference && (reply.flags & shm::kFlagCanPull) != 0;
    link.barrier = barrier && (reply.flags & shm::kFlagBarrier) != 0;
  }
  return true;
}

// Also of one that no one has waited for yet.
bool has_exited(pid_t pid) noexcept {
  if (pid == 0) return false;  // in another namespace of process ids
  const shm::Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{process.fd(), POLLIN, 0};
  return process ? poll(&ended, 1, 0) > 0 : errno == ESRCH;
}

// The peer at the end of `link` is gone.
void report(OutLink& link, bool in_memory, transport::LostPeers* lost) noexcept {
  const bool exited = std::exchange(link.end, OutLink::End::no) == OutLink::End::exited;
  link.refused = true;
  if (lost == nullptr || link.address == Gid{}) return;
  lost->add(
      {.address = link.address,
       .slot = link.slot,
       .in_memory = in_memory,
       .sign = exited ? transport::PeerSign::process_ended : transport::PeerSign::device_closed});
}

}  // namespace

void ShmPort::poll_connections() noexcept {
  calls_left_ = names_.beside() ? kPollConnectionsBeside : kPollConnectionsEvery;
  if (!std::exchange(awake_briefly_, false) && !asleep_)  // no thread has slept lately
    for (InLink* link : polled_)
      link->ring.control().consumer_state.store(shm::kAwake, std::memory_order_relaxed);
  cleanup_due_ |= names_.forget_closed();
  epoll_event events[64];
  // Events wake a thread that sleeps. A doorbell that is taken here would not, and no other follows
  // it.
  const int count = asleep_ ? 0 : epoll_wait(events_.fd(), events, 64, 0);
  for (int i = 0; i < count; ++i) {
    auto& endpoint = *static_cast<Endpoint*>(events[i].data.ptr);
    switch (endpoint.kind) {
      case Endpoint::Kind::listener:
        accept_peers(static_cast<shm::Listener&>(endpoint));
        break;
      case Endpoint::Kind::handshake:
        advance_handshake(static_cast<Handshake&>(endpoint));
        break;
      case Endpoint::Kind::in:
        if (!take_doorbells(static_cast<InLink&>(endpoint))) drain(static_cast<InLink&>(endpoint));
        break;
      case Endpoint::Kind::out:
        if (auto& link = static_cast<OutLink&>(endpoint);
            !take_replies(link, capabilities_.by_reference, barrier_))
          on_end(link, OutLink::End::perhaps);
        break;
      case Endpoint::Kind::process:
        on_end(*static_cast<shm::ProcessWatch&>(endpoint).link, OutLink::End::exited);
        break;
    }
  }
  if (cleanup_due_) remove_ended();
  if (ends_) report_ended();
}

// The sender has closed: frames that it published before are still received.
void ShmPort::drain(InLink& link) noexcept {
  events_.remove(link.socket);
  link.drain_until = link.ring.next() + (1u << 16);
  if (link.state == InLink::State::open) link.state = InLink::State::draining;
  cleanup_due_ = true;
}

// The peer has closed its end of the link, or its process has exited, though a child may hold its
// sockets open.
void ShmPort::on_end(OutLink& link, OutLink::End end) noexcept {
  if (!link.ring) return;
  if (!link.is_self) {
    link.end = end;
    ends_ = true;
  }
  take_down(link, kMillisecond);
}

// Peers that are gone: once what they sent has been received, that is reported.
void ShmPort::report_ended() noexcept {
  using End = OutLink::End;
  ends_ = false;
  for (auto& [gid, link] : out_) {
    const bool first = link->end == End::perhaps;
    // Cut links, and those to the listener of a service, are made again when they are needed.
    if (first) {
      const bool gone = link->address != Gid{} && connect(*link) == shm::Connect::refused;
      link->end = gone ? End::closed : End::no;
    }
    if (link->end == End::no) continue;
    bool wait = false;
    // An exiting process closes its sockets a moment before that can be seen.
    if (link->end == End::closed && has_exited(link->pid)) link->end = End::exited;
    if (link->end == End::closed) wait = shm::monotonic_ns() < link->retry_at_ns;
    for (auto& in : in_) {
      if (in->sender != link->gid || in->pid != link->pid) continue;
      if (in->state == InLink::State::open && (first || link->end == End::exited)) drain(*in);
      wait = wait || in->state != InLink::State::open;
    }
    ends_ = ends_ || wait;
    if (!wait) report(*link, names_.beside(), lost_);
  }
  if (ends_) calls_left_ = 1;
}

// Frees closed links and finished handshakes. No frame is lent while this runs.
void ShmPort::remove_ended() noexcept {
  cleanup_due_ = false;
  for (auto& handshake : handshakes_)
    if (handshake->complete && !handshake->done) advance_handshake(*handshake);
  size_t too_many = handshakes_.size() - std::min(handshakes_.size(), kMaxHandshakes);
  std::erase_if(handshakes_, [&](const auto& handshake) {
    const bool remove = handshake->done || too_many != 0;
    too_many -= too_many != 0 && remove;
    if (remove) events_.remove(handshake->socket);
    return remove;
  });

  // Peers that sent requests for a service which has no listener here any more look for the next.
  for (auto& link : in_)
    if (link->state == InLink::State::open && !names_.listens_at(link->listener)) drain(*link);
  const auto ended = [this](const std::unique_ptr<InLink>& link) {
    counts_.pulls_denied += std::exchange(link->denied, 0);
    if (link->state == InLink::State::open) return false;
    const bool more = link->state == InLink::State::draining && link->ring.ready() &&
                      link->ring.next() < link->drain_until;
    cleanup_due_ |= more;
    if (!more) events_.remove(link->socket);
    return !more;
  };
  std::erase_if(in_, ended);
  polled_.clear();
  for (auto& link : in_) polled_.push_back(link.get());
  touched_count_ = 0;

  if (out_.size() <= kMaxDownLinks) return;
  last_out_ = nullptr;
  std::erase_if(out_, [](const auto& entry) { return !entry.second->ring; });
}

}  // namespace weft::port

namespace weft::port::shm {

bool EpollSet::open() noexcept {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  return static_cast<bool>(epoll_);
}

bool EpollSet::add(int descriptor, Endpoint& endpoint) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &endpoint;
  return epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void EpollSet::remove(Descriptor& descriptor) noexcept {
  if (descriptor) epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, descriptor.fd(), nullptr);
  descriptor.close();
}

bool InLink::pull(void* destination, uint64_t address, size_t size) noexcept {
  const int error = pull_from(pid, destination, address, size);
  if (error == 0) return true;
  if (error == EPERM || error == ENOSYS) {
    ++denied;
    ring.control().refuses_references.store(1, std::memory_order_relaxed);
  }
  return false;
}

}  // namespace weft::port::shm
