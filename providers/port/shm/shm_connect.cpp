// SPDX-License-Identifier: BSD-3-Clause
// Making links, from both ends. See rendezvous.hpp for the messages, shm_port.hpp for the whole.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <new>

#include "providers/port/shm/shm_port.hpp"

namespace weft::port {

using shm::Connect;
using shm::Handshake;
using shm::InLink;
using shm::OutLink;

namespace {
constexpr int64_t kRetryAfter = 1'000'000;  // between two attempts to reach an address, in ns
}

Connect ShmPort::connect(OutLink& link) noexcept {
  if (link.ring) return Connect::ok;
  Connect result = Connect::busy;
  try {
    result = link.gid == gid_ ? connect_to_self(link) : connect_to_peer(link);
  } catch (const std::bad_alloc&) {
    link.ring.reset();
  }
  if (result != Connect::ok) {
    unwatch(link.socket);
    link.mapping = {};
    link.retry_at_ns = shm::monotonic_ns() + kRetryAfter;
  }
  return result;
}

// Reserves room for one more incoming link, so that adding it cannot fail.
void ShmPort::reserve_link() {
  in_.reserve(in_.size() + 1);
  polled_.reserve(in_.size() + 1);
}

// Queue pairs of one device that send to each other: a link with both ends here. The sockets are
// for doorbells: a thread of the application sends while the progress thread sleeps.
Connect ShmPort::connect_to_self(OutLink& link) {
  WEFT_DCHECK(!link.ring && link.gid == gid_);
  shm::Descriptor memory;
  link.mapping = shm::create_ring_memory(options_.ring, memory);
  if (!link.mapping) return Connect::busy;
  auto in = std::make_unique<InLink>(link.mapping.data(), options_.ring);
  in->path.source = in->path.destination = gid_;
  in->pid = getpid();
  if (!shm::make_socket_pair(link.socket, in->socket)) return Connect::busy;
  reserve_link();
  if (!watch(link.socket.fd(), link) || !watch(in->socket.fd(), *in)) return Connect::busy;
  WEFT_DCHECK(in_.size() < in_.capacity() && polled_.size() < polled_.capacity());
  if (asleep_) in->ring.control().consumer_state.store(shm::kAsleep);
  polled_.push_back(in.get());
  in_.push_back(std::move(in));
  link.ring.emplace(link.mapping.data(), options_.ring);
  link.is_self = true;
  link.can_pull = capabilities_.by_reference;
  return Connect::ok;
}

Connect ShmPort::connect_to_peer(OutLink& link) {
  const Connect connected = shm::connect_to(options_.job, link.gid, link.socket);
  if (connected != Connect::ok) return connected;
  shm::Credentials peer;
  if (!shm::peer_credentials(link.socket.fd(), peer) || peer.uid != geteuid()) {
    ++counts_.rx_wrong_user;
    return Connect::refused;
  }
  link.pid = peer.pid;
  shm::Descriptor memory;
  link.mapping = shm::create_ring_memory(options_.ring, memory);
  if (!link.mapping) return Connect::busy;
  shm::Hello hello;
  hello.flags = barrier_ ? shm::kFlagBarrier : 0;
  hello.source = gid_;
  hello.destination = link.gid;
  hello.slots = options_.ring.slots;
  hello.data_bytes = options_.ring.data_bytes;
  hello.nonce_address = reinterpret_cast<uint64_t>(nonce_.data());
  hello.nonce = nonce_;
  if (!shm::send_hello(link.socket.fd(), hello, memory.fd())) return Connect::refused;
  if (!watch(link.socket.fd(), link)) return Connect::busy;
  link.ring.emplace(link.mapping.data(), options_.ring);
  // EOF on the socket means that the peer has exited, unless a forked child holds it open.
  if (peer.pid != 0)
    link.process.descriptor =
        shm::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  link.process.link = &link;
  if (link.process.descriptor) watch(link.process.descriptor.fd(), link.process);
  return Connect::ok;
}

bool ShmPort::watch(int descriptor, shm::Endpoint& endpoint) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &endpoint;
  return epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// Takes a descriptor out of the set before it is closed: a forked child may hold a copy, and then
// closing ours would leave it there, with a dangling pointer.
void ShmPort::unwatch(shm::Descriptor& descriptor) noexcept {
  if (descriptor) epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, descriptor.fd(), nullptr);
  descriptor.close();
}

void ShmPort::accept_peers() noexcept {
  for (int i = 0; i < 16; ++i) {
    const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno != EMFILE && errno != ENFILE) return;
      // Out of descriptors: accept and close, or the listener would stay readable.
      spare_.close();
      shm::Descriptor refused_socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      refused_socket.close();
      spare_ = shm::Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      return;
    }
    shm::Descriptor socket(fd);
    shm::Credentials peer;
    if (!shm::peer_credentials(fd, peer) || peer.uid != geteuid()) {
      ++counts_.rx_wrong_user;
      continue;
    }
    try {
      auto handshake = std::make_unique<Handshake>();
      handshake->socket = std::move(socket);
      handshake->peer = peer;
      if (!watch(fd, *handshake)) continue;
      handshakes_.push_back(std::move(handshake));
    } catch (const std::bad_alloc&) {
      return;
    }
    advance_handshake(*handshakes_.back());
    cleanup_due_ |= handshakes_.size() > kMaxHandshakes;
  }
}

// Continues the handshake of an unauthenticated connection.
void ShmPort::advance_handshake(Handshake& handshake) noexcept {
  if (!handshake.complete) {
    const shm::Received got =
        shm::receive_hello(handshake.socket.fd(), handshake.hello, handshake.memory);
    if (got == shm::Received::nothing) return;
    handshake.complete = got == shm::Received::ok;
    if (!handshake.complete) {
      ++counts_.rx_bad_hello;
      handshake.done = true;
    }
  }
  cleanup_due_ = true;
  if (handshake.done) return;
  try {
    admit(handshake);
  } catch (const std::bad_alloc&) {
    handshake.done = true;
  }
}

//= threat:A31
void ShmPort::admit(Handshake& handshake) {
  const shm::Hello& hello = handshake.hello;
  const shm::RingGeometry geometry{hello.slots, hello.data_bytes};
  handshake.done = true;
  if (hello.destination != gid_ || hello.source == gid_ || !shm::is_shm_gid(hello.source) ||
      !geometry.valid()) {
    ++counts_.rx_bad_hello;
    return;
  }
  // Connect to the listener at the claimed address, which acknowledgements need anyway.
  OutLink* back = route(hello.source);
  if (back == nullptr) return;
  const Connect connected = connect(*back);
  if (connected == Connect::busy) {
    handshake.done = false;
    return;
  }
  // A peer that we were connected to may have exited meanwhile: its published frames still count.
  const bool known =
      back->pid == handshake.peer.pid && (connected == Connect::ok || back->pid != 0);
  if (!known) {
    ++counts_.rx_impostors;
    return;
  }
  shm::Mapping memory = shm::map_ring_memory(geometry, handshake.memory);
  if (!memory) {
    ++counts_.rx_bad_hello;
    return;
  }
  auto link = std::make_unique<InLink>(memory.data(), geometry);
  link->mapping = std::move(memory);
  link->path.source = hello.source;
  link->path.destination = gid_;
  link->pid = handshake.peer.pid;
  reserve_link();
  // Before the peer may send on it: a thread may sleep already, and another one be here.
  if (asleep_) link->ring.control().consumer_state.store(shm::kAsleep);

  shm::HandshakeReply reply;
  reply.flags = barrier_ ? shm::kFlagBarrier : 0;
  shm::Nonce seen{};
  if (options_.by_reference != shm::ByReference::never && link->pid != 0 &&
      shm::pull_from(link->pid, seen.data(), hello.nonce_address, seen.size()) == 0 &&
      seen == hello.nonce)
    reply.flags |= shm::kFlagCanPull;
  const int fd = handshake.socket.fd();
  epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
  const bool alive = send(fd, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof reply &&
                     watch(fd, *link);
  link->socket = std::move(handshake.socket);
  if (!alive) drain(*link);
  polled_.push_back(link.get());
  in_.push_back(std::move(link));
}

}  // namespace weft::port
