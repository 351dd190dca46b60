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

// Reserves room for one more incoming link, so that adding it cannot fail.
void reserve_link(std::vector<std::unique_ptr<InLink>>& in, std::vector<InLink*>& polled) {
  in.reserve(in.size() + 1);
  polled.reserve(in.size() + 1);
}

}  // namespace

Connect ShmPort::connect(OutLink& link) noexcept {
  if (link.ring) return Connect::ok;
  Connect result = Connect::busy;
  try {
    result = link.gid == names_.own() ? connect_to_self(link) : connect_to_peer(link);
  } catch (const std::bad_alloc&) {
    link.ring.reset();
  }
  link.refused = result == Connect::refused;
  if (result != Connect::ok) {
    events_.remove(link.socket);
    link.mapping = {};
    link.retry_at_ns = shm::monotonic_ns() + kRetryAfter;
  }
  return result;
}

// Queue pairs of one device that send to each other: a link with both ends here. The sockets are
// for doorbells: a thread of the application sends while the progress thread sleeps.
Connect ShmPort::connect_to_self(OutLink& link) {
  WEFT_DCHECK(!link.ring && link.gid == names_.own());
  shm::Descriptor memory;
  link.mapping = shm::create_ring_memory(options_.ring, memory);
  if (!link.mapping) return Connect::busy;
  auto in = std::make_unique<InLink>(link.mapping.data(), options_.ring);
  in->path.source = in->path.destination = names_.gid();
  in->path.in_memory = names_.beside();
  in->sender = in->listener = names_.own();
  in->pid = getpid();
  if (!shm::make_socket_pair(link.socket, in->socket)) return Connect::busy;
  reserve_link(in_, polled_);
  if (!events_.add(link.socket.fd(), link) || !events_.add(in->socket.fd(), *in))
    return Connect::busy;
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
  hello.source = names_.own();
  hello.destination = link.gid;
  hello.slots = options_.ring.slots;
  hello.beside = names_.gid();
  hello.beside_slot = names_.slot();
  hello.data_bytes = options_.ring.data_bytes;
  hello.nonce_address = reinterpret_cast<uint64_t>(nonce_.data());
  hello.nonce = nonce_;
  if (!shm::send_hello(link.socket.fd(), hello, memory.fd())) return Connect::refused;
  if (!events_.add(link.socket.fd(), link)) return Connect::busy;
  link.ring.emplace(link.mapping.data(), options_.ring);
  // EOF on the socket means that the peer has exited, unless a forked child holds it open.
  if (peer.pid != 0)
    link.process.descriptor =
        shm::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  link.process.link = &link;
  if (link.process.descriptor) events_.add(link.process.descriptor.fd(), link.process);
  return Connect::ok;
}

void ShmPort::accept_peers(const shm::Listener& listener) noexcept {
  for (int i = 0; i < 16; ++i) {
    const int fd = accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno != EMFILE && errno != ENFILE) return;
      // Out of descriptors: accept and close, or the listener would stay readable.
      spare_.close();
      shm::Descriptor refused_socket(accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC));
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
      auto handshake = std::make_unique<Handshake>(listener.name);
      handshake->socket = std::move(socket);
      handshake->peer = peer;
      if (!events_.add(fd, *handshake)) continue;
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
  const std::optional<shm::Sender> sender = names_.sender_of(hello);
  if (hello.destination != handshake.listener || !names_.listens_at(handshake.listener) ||
      hello.source == names_.own() || !sender || !geometry.valid()) {
    ++counts_.rx_bad_hello;
    return;
  }
  // Connect to the listener at the claimed address, which acknowledgements need anyway.
  OutLink* back = route_to(hello.source, sender->address, sender->slot);
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
  link->path.source = sender->address;
  link->path.destination = names_.gid();
  link->path.in_memory = names_.beside();
  link->sender = hello.source;
  link->listener = handshake.listener;
  link->pid = handshake.peer.pid;
  reserve_link(in_, polled_);
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
  epoll_ctl(events_.fd(), EPOLL_CTL_DEL, fd, nullptr);
  const bool alive = send(fd, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof reply &&
                     events_.add(fd, *link);
  link->socket = std::move(handshake.socket);
  if (!alive) drain(*link);
  polled_.push_back(link.get());
  in_.push_back(std::move(link));
}

}  // namespace weft::port
