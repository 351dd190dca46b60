// SPDX-License-Identifier: BSD-3-Clause
// A stream rsocket: a byte stream over an RC queue pair of rdma_cm, by the rsocket protocol
// (librdmacm/docs/rsocket of rdma-core): data is written into the peer's buffer with an immediate
// that says how much; freed halves of the buffer and credits are granted the same way.
//
// Threads: `lock` is held by each call, and released while it sleeps.
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace weft::rdmacm::stream {

// Types of messages: the upper 3 bits of the immediate.
enum class Message : uint32_t { data = 0, credit = 4, iomap = 6, control = 7 };
// Control messages.
enum class Control : uint32_t { disconnect = 0, keepalive = 1, shutdown = 2 };

// A remote buffer, as it is written into the peer's memory.
struct RemoteBuffer {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t length = 0;
};
static_assert(sizeof(RemoteBuffer) == 16);

// A buffer that the peer maps at an offset (riomap).
struct MappedBuffer {
  uint64_t offset = 0;
  RemoteBuffer buffer;
};
static_assert(sizeof(MappedBuffer) == 24);

inline constexpr uint32_t kGrants = 2;  // entries of a list of receive buffers
inline constexpr uint32_t kMostMappings = 128;
inline constexpr uint32_t kMappingUnit = 8;  // mappings are counted in

// What a peer writes to us: where its receive buffers are, and its mapped buffers.
struct PeerBuffers {
  RemoteBuffer grants[kGrants];
  MappedBuffer mapped[kMostMappings];
};

struct Options {
  uint32_t send_queue = 384, receive_queue = 384;
  uint32_t send_buffer = 1 << 17, receive_buffer = 1 << 17;
  uint32_t inline_bytes = 64;
  uint32_t mappings = 0;
  bool reuses_address = false, no_delay = false, ipv6_only = false, keeps_urgent_inline = false;
  // After so long without one, a call on the socket sends a message that asks for nothing: a peer
  // that is gone does not acknowledge it.
  bool keeps_alive = false;
  uint32_t keepalive_s = 7200, keepalive_interval_s = 75, keepalive_probes = 9;
  int linger_s = -1;         // -1: off
  int descriptor_flags = 0;  // FD_CLOEXEC, as the program has set it
};

enum class Phase : uint8_t {
  idle,
  bound,
  listening,
  resolving_address,
  resolving_route,
  connecting,
  connected,
  disconnected,  // what was received may still be read
  failed,        // `error` says why
};

// Memory that is registered.
struct Buffer {
  std::vector<std::byte> bytes;
  ibv_mr* region = nullptr;
};

// A mapping of ours that the peer may write to.
struct OwnMapping {
  void* start;
  uint64_t offset;
  ibv_mr* region;
  uint32_t index;
};

// Sequence numbers of data messages.
struct Credits {
  uint16_t used = 0, limit = 0;
};

// The peer's grants as far as their messages have arrived: it writes the next one at any time.
struct Grants {
  RemoteBuffer list[kGrants];
  uint32_t current = 0;         // the one that is being filled
  uint32_t next = 1 % kGrants;  // the one that comes next
};

struct Socket {
  ~Socket();

  std::mutex lock;
  Options options;
  Phase phase = Phase::idle;
  int error = 0;
  bool nonblocking = false;
  bool may_receive = true, may_send = true;
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;

  // Sending: the ring of bytes that the device still reads.
  Buffer send_ring;
  uint32_t send_at = 0, send_free = 0;
  uint32_t requests_free = 0;
  Credits sent;
  Buffer peer;  // PeerBuffers
  Grants grants;
  bool swaps_order = false;  // the peer has the other byte order

  // Receiving: the ring that the peer fills.
  Buffer receive_ring;
  uint32_t read_at = 0, unread = 0, ungranted = 0, grant_at = 0;
  std::deque<uint32_t> message_lengths;
  Credits consumed;        // granted again at `limit`
  RemoteBuffer peer_list;  // where our grants are written
  uint32_t peer_mappings = 0, peer_grant = 1 % kGrants;
  uint32_t control_in_flight = 0;
  std::chrono::steady_clock::time_point next_keepalive{};  // while options.keeps_alive
  std::vector<OwnMapping> mappings;

  PeerBuffers& of_peer() { return *reinterpret_cast<PeerBuffers*>(peer.bytes.data()); }
};

// What connect and accept exchange as private data; integers are big-endian.
struct ConnectData {
  uint8_t version = 1;
  uint8_t flags = 0;  // 1: the sender's memory is big-endian
  uint16_t credits = 0;
  uint8_t reserved[3] = {};
  uint8_t mappings = 0;  // in units of 8
  RemoteBuffer list;
  RemoteBuffer buffer;
};
static_assert(sizeof(ConnectData) == 40);

// transfer.cpp
// Creates buffers and the queue pair, and posts the receives. False: errno says why.
bool prepare(Socket& socket);
ConnectData own_data(const Socket& socket);
// False: it is not of this protocol.
bool accept_peer_data(Socket& socket, const void* data, size_t length);
// Handles completions, and grants what the program has read.
void progress(Socket& socket);
bool can_send(Socket& socket);
// Sends up to `length` bytes, for which there must be room (can_send()); returns how many.
size_t send_some(Socket& socket, const std::byte* data, size_t length);
size_t receive_some(Socket& socket, std::byte* data, size_t length, bool peeks);
bool send_control(Socket& socket, Control control);
// The time to the next keepalive message begins anew.
void begin_keepalive(Socket& socket);
bool all_sent(const Socket& socket);
// Tells the peer of a mapping; null `region`: that it ended.
bool send_mapping(Socket& socket, const OwnMapping& mapping, uint32_t length);
// Writes into a mapped buffer of the peer; returns how many bytes, 0: no room, -1: no such mapping.
ssize_t write_mapped(Socket& socket, const std::byte* data, size_t length, uint64_t offset);

// connect.cpp
// Handles events of the connection manager.
void progress_connection(Socket& socket);

// poll.cpp
// Sleeps until the socket may have something to do; `hold` is released meanwhile. False: EINTR.
bool sleep(Socket& socket, std::unique_lock<std::mutex>& hold);
// Asks for a wake-up by the descriptors of the socket. False: there is something to do already.
bool arm(Socket& socket);

// socket.cpp
std::shared_ptr<Socket> find(int fd);
// A socket in a new channel, whose descriptor names it; null: errno says why.
std::shared_ptr<Socket> create();
void add(const std::shared_ptr<Socket>& socket);

}  // namespace weft::rdmacm::stream
