// SPDX-License-Identifier: BSD-3-Clause
// Sockets, credentials and the exchange of ring memory. See rendezvous.hpp.
#include "providers/port/shm/rendezvous.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lib/base/kernel/socket.hpp"

namespace weft::port::shm {

namespace {

constexpr std::array<uint8_t, 7> kGidPrefix = {0xFD, 'w', 'e', 'f', 't', 's', 'h'};

// "\0weft-shm/UID/JOB/m0123456789abcdef"
socklen_t abstract_name(std::string_view job, const Gid& gid, sockaddr_un& out) noexcept {
  out = {};
  out.sun_family = AF_UNIX;
  uint64_t id = 0;
  for (size_t i = 8; i < 16; ++i) id = id << 8 | gid.bytes[i];
  const int length = std::snprintf(
      out.sun_path + 1, sizeof out.sun_path - 1, "weft-shm/%u/%.*s/%c%016llx", geteuid(),
      static_cast<int>(job.size()), job.data(), gid.bytes[7], static_cast<unsigned long long>(id));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

int new_socket() noexcept {
  return base::kernel_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK);
}

}  // namespace

Gid make_gid(uint64_t id, NameOf kind) noexcept {
  Gid gid;
  std::copy(kGidPrefix.begin(), kGidPrefix.end(), gid.bytes.begin());
  gid.bytes[7] = static_cast<uint8_t>(kind);
  for (size_t i = 0; i < 8; ++i) gid.bytes[8 + i] = static_cast<uint8_t>(id >> (56 - 8 * i));
  return gid;
}

bool is_name_of(NameOf kind, const Gid& gid) noexcept {
  return std::equal(kGidPrefix.begin(), kGidPrefix.end(), gid.bytes.begin()) &&
         gid.bytes[7] == static_cast<uint8_t>(kind);
}

bool is_name_of_slot(const Gid& gid) noexcept {
  const transport::Slot slot = gid.bytes[15];
  return slot >= transport::kFirstSlot && slot <= transport::kLastSlot &&
         gid == make_gid(slot, NameOf::slot);
}

namespace {
constexpr uint64_t kFnvBasis = 0xCBF29CE484222325u;  // FNV-1a
uint64_t fnv(uint64_t hash, uint8_t byte) noexcept { return (hash ^ byte) * 0x100000001B3u; }
}  // namespace

Gid shared_gid(std::string_view job) noexcept {
  uint64_t hash = kFnvBasis ^ geteuid();
  for (const char c : job) hash = fnv(hash, static_cast<uint8_t>(c));
  return make_gid(hash);
}

Gid name_beside(const Gid& address, transport::Slot slot) noexcept {
  uint64_t hash = fnv(kFnvBasis, slot);
  for (const uint8_t byte : address.bytes) hash = fnv(hash, byte);
  return make_gid(hash, NameOf::host);
}

bool peer_credentials(int socket, Credentials& out) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  out = {credentials.pid, credentials.uid};
  return true;
}

Result<Descriptor> listen_at(std::string_view job, const Gid& gid) {
  Descriptor socket(new_socket());
  sockaddr_un name;
  const socklen_t length = abstract_name(job, gid, name);
  const char* step = "socket";
  if (socket) {
    step = "bind";
    if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&name), length) == 0) {
      step = "listen";
      if (listen(socket.fd(), 4096) == 0) return socket;
    }
  }
  const int error = errno;
  return Error{error == EADDRINUSE ? Code::address_in_use : Code::io_error,
               std::string("shm: cannot claim an address: ") + step + ": " + std::strerror(error)};
}

Connect connect_to(std::string_view job, const Gid& gid, Descriptor& socket) noexcept {
  Descriptor made(new_socket());
  if (!made) return Connect::busy;
  sockaddr_un name;
  const socklen_t length = abstract_name(job, gid, name);
  if (connect(made.fd(), reinterpret_cast<sockaddr*>(&name), length) != 0)
    return errno == EAGAIN || errno == EINTR ? Connect::busy : Connect::refused;
  socket = std::move(made);
  return Connect::ok;
}

bool make_socket_pair(Descriptor& one, Descriptor& other) noexcept {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return false;
  one = Descriptor(ends[0]);
  other = Descriptor(ends[1]);
  return true;
}

bool send_hello(int socket, const Hello& hello, int memory) noexcept {
  iovec data{const_cast<Hello*>(&hello), sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof memory);
  std::memcpy(CMSG_DATA(header), &memory, sizeof memory);
  return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof hello;
}

// A peer that sends more than one descriptor loses the others: there is room for one, and the
// kernel closes the rest.
Received receive_hello(int socket, Hello& hello, Descriptor& memory) noexcept {
  iovec data{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Received::nothing : Received::refused;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    if (h->cmsg_len >= CMSG_LEN(sizeof fd)) std::memcpy(&fd, CMSG_DATA(h), sizeof fd);
    memory = Descriptor(fd);
  }
  const bool whole = got == sizeof hello && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && memory && hello.magic == kHelloMagic ? Received::ok : Received::refused;
}

void ring_doorbell(int socket) noexcept {
  const char doorbell = 0;
  // A full socket buffer is fine: then the peer has a doorbell to read already.
  (void)!send(socket, &doorbell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Mapping create_ring_memory(const RingGeometry& geometry, Descriptor& memory) noexcept {
  Descriptor made(memfd_create("weft-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made || ftruncate(made.fd(), static_cast<off_t>(geometry.bytes())) != 0 ||
      fcntl(made.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return {};
  Mapping mapping = map_ring_memory(geometry, made);
  memory = std::move(made);
  return mapping;
}

//= threat:A13
Mapping map_ring_memory(const RingGeometry& geometry, const Descriptor& memory) noexcept {
  const int seals = fcntl(memory.fd(), F_GET_SEALS);
  struct stat status {};
  struct statfs system {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memory.fd(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != geometry.bytes() ||
      fstatfs(memory.fd(), &system) != 0 || system.f_type != TMPFS_MAGIC)
    return {};
  void* address =
      mmap(nullptr, geometry.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0);
  Mapping mapping(address, geometry.bytes());
  // The slots now, not one page fault after the other under the first frames.
  if (mapping)
    (void)madvise(mapping.data(), geometry.bytes() - geometry.data_bytes, MADV_POPULATE_WRITE);
  return mapping;
}

}  // namespace weft::port::shm
