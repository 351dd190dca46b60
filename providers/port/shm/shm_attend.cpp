// SPDX-License-Identifier: BSD-3-Clause
// Events of connections: new peers, doorbells, closed peers. One epoll_wait() without events, made
// once in kPollConnectionsEvery (kPollConnectionsBeside) calls of receive() while no thread sleeps,
// and after every sleep. See shm_port.hpp.
#include <sys/epoll.h>
#include <sys/socket.h>

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

// Reads one message. -1: none, 0: the peer has closed.
ssize_t read_message(int socket, void* buffer, size_t size) noexcept {
  const ssize_t got = recv(socket, buffer, size, MSG_DONTWAIT);
  if (got >= 0) return got;
  return errno == EAGAIN || errno == EINTR ? -1 : 0;
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
        on_message(static_cast<InLink&>(endpoint));
        break;
      case Endpoint::Kind::out:
        on_message(static_cast<OutLink&>(endpoint));
        break;
      case Endpoint::Kind::process:
        process_ended(*static_cast<shm::ProcessWatch&>(endpoint).link);
        break;
    }
  }
  if (cleanup_due_) remove_ended();
}

// The sender has closed: frames that it published before are still received.
void ShmPort::drain(InLink& link) noexcept {
  events_.remove(link.socket);
  link.drain_until = link.ring.next() + (1u << 16);
  if (link.state == InLink::State::open) link.state = InLink::State::draining;
  cleanup_due_ = true;
}

// Doorbells of the sender. After it closes, published frames are still received.
void ShmPort::on_message(InLink& link) noexcept {
  char doorbell[8];
  for (int i = 0; i < 64 && link.socket; ++i) {
    const ssize_t got = read_message(link.socket.fd(), doorbell, sizeof doorbell);
    if (got < 0) return;
    if (got == 0) {
      drain(link);
    }
  }
}

void ShmPort::on_message(OutLink& link) noexcept {
  shm::HandshakeReply reply;
  for (int i = 0; i < 64 && link.socket; ++i) {
    const ssize_t got = read_message(link.socket.fd(), &reply, sizeof reply);
    if (got < 0) return;
    if (got == 0) {
      take_down(link, 1'000'000);
    } else if (got == sizeof reply && reply.magic == shm::kReplyMagic) {
      link.can_pull = capabilities_.by_reference && (reply.flags & shm::kFlagCanPull) != 0;
      link.barrier = barrier_ && (reply.flags & shm::kFlagBarrier) != 0;
    }
  }
}

// The process has exited, though a child may hold its sockets open.
void ShmPort::process_ended(OutLink& link) noexcept {
  if (!link.process.descriptor) return;
  for (auto& in : in_) {
    if (in->sender == link.gid && in->state == InLink::State::open) drain(*in);
  }
  take_down(link, 1'000'000);
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
