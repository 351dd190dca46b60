// SPDX-License-Identifier: BSD-3-Clause
// Connection set-up and authentication. A port listens on an abstract unix socket named after its
// user, job and address, so there is no file to leave behind. Ports that share an address have
// further names: of their slot, and of the services that they listen for. A sender connects and
// passes the memfd of a ring for that direction. SO_PEERCRED authenticates the peer: another user
// is refused, and a sender's address is accepted only if the same process listens there (//=
// threat:A31).
//
// The memory is a memfd that can neither shrink nor grow, so that no peer can turn our reads into
// SIGBUS by truncating it. The socket stays open: EOF means that the peer has closed, a byte is the
// doorbell for a sleeping peer.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/transport/shared_address.hpp"
#include "providers/port/shm/descriptor.hpp"
#include "providers/port/shm/ring.hpp"
#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::port::shm {

// What a name stands for: the last byte of a fixed prefix. 64 bits follow.
enum class NameOf : uint8_t {
  port = 'm',     // the address of a port: random bits
  slot = 's',     // a port that shares its address
  service = 'l',  // the port that listens for a service
  closed = 'c',   // one that did until a moment ago, by the lower 16 bits of the service
  host = 'h',     // a port beside a network port: a hash of the address and slot of that
};
Gid make_gid(uint64_t id, NameOf kind = NameOf::port) noexcept;
bool is_name_of(NameOf kind, const Gid& gid) noexcept;
// Of a slot that a port may have.
bool is_name_of_slot(const Gid& gid) noexcept;
// Of a port beside the network port at `address`; slot 0: that shares its address with none.
Gid name_beside(const Gid& address, transport::Slot slot) noexcept;
// The address that ports of our user in the job share. No socket has that name.
Gid shared_gid(std::string_view job) noexcept;

using Nonce = std::array<std::byte, 16>;

inline constexpr uint32_t kHelloMagic = 0x77736832;  // "wsh2": the number is the layout's version
inline constexpr uint32_t kReplyMagic = 0x77737731;

inline constexpr uint32_t kFlagBarrier = 1;  // has membarrier: it needs no fence from the peer
inline constexpr uint32_t kFlagCanPull = 2;  // read the nonce from the peer's memory

// Connector to listener, with the ring's memfd.
struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t flags = 0;
  Gid source;
  Gid destination;
  uint32_t slots = 0;
  uint32_t beside_slot = 0;  // if `source` is a name of NameOf::host: what it is the hash of
  Gid beside;
  uint64_t data_bytes = 0;
  uint64_t nonce_address = 0;  // of `nonce` in the connector's private memory
  Nonce nonce{};
};
// Listener to connector: the ring is mapped.
struct HandshakeReply {
  uint32_t magic = kReplyMagic;
  uint32_t flags = 0;
};

struct Credentials {
  pid_t pid = 0;  // 0 = not visible from our process namespace
  uid_t uid = 0;
};
// SO_PEERCRED of a unix socket. False: it failed.
bool peer_credentials(int socket, Credentials& out) noexcept;

// Listens at the name of `gid`. Error address_in_use: draw another one.
Result<Descriptor> listen_at(std::string_view job, const Gid& gid);

enum class Connect : uint8_t { ok, refused, busy };
// busy: the peer accepts too slowly or we are out of descriptors, try again.
Connect connect_to(std::string_view job, const Gid& gid, Descriptor& socket) noexcept;

// Two connected sockets of this process. False: no more descriptors.
bool make_socket_pair(Descriptor& one, Descriptor& other) noexcept;

bool send_hello(int socket, const Hello& hello, int memory) noexcept;
enum class Received : uint8_t { nothing, ok, refused };
Received receive_hello(int socket, Hello& hello, Descriptor& memory) noexcept;

// Rings a peer that sleeps. Never blocks.
void ring_doorbell(int socket) noexcept;

// New sealed memory for a ring; an empty mapping if there is none to be had.
Mapping create_ring_memory(const RingGeometry& geometry, Descriptor& memory) noexcept;
// Maps what a peer handed over, after proving that it cannot be truncated and is as large as it
// says.
Mapping map_ring_memory(const RingGeometry& geometry, const Descriptor& memory) noexcept;

// Copies from the memory of another process. 0, or the errno of the failure.
int pull_from(pid_t pid, void* destination, uint64_t address, size_t size) noexcept;
// The payload size from which a pull is faster than two copies on this machine, found by trying;
// 0 = never, up to the largest frame, or the kernel refuses.
uint32_t measure_pull_threshold() noexcept;
bool pull_permitted() noexcept;

int64_t monotonic_ns() noexcept;

// Makes every thread of every process that registered pass a memory barrier, so that those need
// none on their fast path (membarrier(2), expedited). False: not available.
bool register_barrier() noexcept;
void barrier_everywhere() noexcept;

}  // namespace weft::port::shm
