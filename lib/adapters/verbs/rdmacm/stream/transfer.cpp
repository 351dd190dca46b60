// SPDX-License-Identifier: BSD-3-Clause
// The rsocket protocol over a queue pair: see socket.hpp.
#include <endian.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/stream/socket.hpp"
#include "lib/base/check.hpp"

namespace weft::rdmacm::stream {

namespace {

constexpr uint32_t kDataMask = (1u << 29) - 1;
constexpr uint32_t kControlRequests = 4;  // of both queues, for messages that carry no data
constexpr uint64_t kIsControl = 1ull << 63, kIsMapped = 1ull << 62, kIsKeepalive = 1ull << 61;

uint32_t immediate(Message message, uint32_t value) {
  return htobe32(static_cast<uint32_t>(message) << 29 | (value & kDataMask));
}

bool register_buffer(Socket& s, Buffer& buffer, size_t size, int access) {
  buffer.bytes.resize(size);
  buffer.region = ibv_reg_mr(s.id->pd, buffer.bytes.data(), size, access);
  return buffer.region != nullptr;
}

bool post_receive(Socket& s) {
  ibv_recv_wr wr{}, *bad = nullptr;
  return ibv_post_recv(s.id->qp, &wr, &bad) == 0;
}

bool create_queue_pair(Socket& s) {
  ibv_qp_init_attr attr{};
  attr.cap.max_send_wr = s.options.send_queue + kControlRequests;
  attr.cap.max_recv_wr = s.options.receive_queue + 2 * kControlRequests;
  attr.cap.max_send_sge = 1;
  attr.cap.max_recv_sge = 1;
  attr.cap.max_inline_data = std::max<uint32_t>(s.options.inline_bytes, sizeof(MappedBuffer));
  attr.qp_type = IBV_QPT_RC;
  ibv_comp_channel* const events = ibv_create_comp_channel(s.id->verbs);
  if (events == nullptr) return false;
  const auto depth = static_cast<int>(attr.cap.max_send_wr + attr.cap.max_recv_wr);
  ibv_cq* const cq = ibv_create_cq(s.id->verbs, depth, s.id, events, 0);
  if (cq == nullptr) return (void)ibv_destroy_comp_channel(events), false;
  // The id owns both from now on: rdma_destroy_qp() destroys them.
  s.id->send_cq = s.id->recv_cq = cq;
  s.id->send_cq_channel = s.id->recv_cq_channel = events;
  return rdma_create_qp(s.id, s.id->pd, &attr) == 0;
}

struct Write {
  uint64_t id;
  const void* data = nullptr;
  uint32_t length = 0;
  uint32_t key = 0;  // 0: inline
  RemoteBuffer to{};
  std::optional<uint32_t> immediate;
};

bool post(Socket& s, const Write& write) {
  ibv_sge sge{
      .addr = reinterpret_cast<uint64_t>(write.data), .length = write.length, .lkey = write.key};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = write.id;
  wr.sg_list = &sge;
  wr.num_sge = write.length != 0 ? 1 : 0;
  wr.opcode = write.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (write.key == 0 && write.length != 0) wr.send_flags |= IBV_SEND_INLINE;
  wr.imm_data = write.immediate.value_or(0);
  wr.wr.rdma.remote_addr = write.to.address;
  wr.wr.rdma.rkey = write.to.key;
  if (ibv_post_send(s.id->qp, &wr, &bad) != 0) return false;
  --s.requests_free;
  return true;
}

bool post_control(Socket& s, Write write) {
  write.id |= kIsControl;
  if (s.control_in_flight >= kControlRequests || s.requests_free == 0 || !post(s, write))
    return false;
  ++s.control_in_flight;
  return true;
}

RemoteBuffer in_order(const Socket& s, RemoteBuffer buffer) {
  if (!s.swaps_order) return buffer;
  return {__builtin_bswap64(buffer.address), __builtin_bswap32(buffer.key),
          __builtin_bswap32(buffer.length)};
}

// Grants the peer the half of the ring that the program has read, and credits.
void grant(Socket& s) {
  const uint32_t half = s.options.receive_buffer / 2;
  const bool has_room = s.ungranted >= half;
  const bool owes_credits = static_cast<int16_t>(s.consumed.used - s.consumed.limit) >= 0;
  if (!has_room && !owes_credits) return;
  const auto limit = static_cast<uint16_t>(s.consumed.used + s.options.receive_queue);
  Write write{.id = 0, .immediate = immediate(Message::credit, limit)};
  RemoteBuffer granted;
  if (has_room) {
    granted = in_order(s, {reinterpret_cast<uint64_t>(s.receive_ring.bytes.data()) + s.grant_at,
                           s.receive_ring.region->rkey, half});
    write.data = &granted;
    write.length = sizeof granted;
    write.to = {s.peer_list.address + s.peer_grant * sizeof granted, s.peer_list.key, 0};
  }
  if (!post_control(s, write)) return;  // again when a request is free
  s.consumed.limit = static_cast<uint16_t>(s.consumed.used + s.options.receive_queue / 2);
  if (!has_room) return;
  s.ungranted -= half;
  s.grant_at = (s.grant_at + half) % s.options.receive_buffer;
  s.peer_grant = (s.peer_grant + 1) % kGrants;
}

// What the peer may still write into the ring.
uint32_t granted(const Socket& s) {
  WEFT_CHECK(uint64_t{s.unread} + s.ungranted <= s.options.receive_buffer);
  return s.options.receive_buffer - s.unread - s.ungranted;
}

// A message of credits came with a grant, which lies in our memory.
void take_grant(Socket& s) {
  RemoteBuffer& written = s.of_peer().grants[s.grants.next];
  if (written.length == 0) return;
  s.grants.list[s.grants.next] = in_order(s, written);
  written.length = 0;
  s.grants.next = (s.grants.next + 1) % kGrants;
}

// `length`: of what the message wrote into our memory.
void on_message(Socket& s, uint32_t message, uint32_t length) {
  const uint32_t value = message & kDataMask;
  switch (static_cast<Message>(message >> 29)) {
    case Message::data:
      if (value > granted(s)) {
        s.phase = Phase::failed;
        s.error = EPROTO;
        s.may_send = s.may_receive = false;
        return;
      }
      s.message_lengths.push_back(value);
      s.unread += value;
      return;
    case Message::credit:
      s.sent.limit = static_cast<uint16_t>(value);
      if (length != 0) take_grant(s);
      return;
    case Message::iomap:
      return;  // the entry has been written
    case Message::control:
      if (static_cast<Control>(value) == Control::disconnect) {
        s.phase = Phase::disconnected;
        s.may_send = false;
      }
      if (static_cast<Control>(value) != Control::keepalive) s.may_receive = false;
      return;
  }
}

void on_completion(Socket& s, const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    if (s.phase == Phase::connected) {
      // A peer that has closed no longer takes grants; what it sent before can still be read.
      const bool is_first = wc.status != IBV_WC_WR_FLUSH_ERR;
      const bool of_data = is_first && (wc.wr_id & kIsControl) == 0;
      const bool of_keepalive = is_first && (wc.wr_id & kIsKeepalive) != 0;
      s.phase = of_data || of_keepalive ? Phase::failed : Phase::disconnected;
      s.error = of_keepalive ? ETIMEDOUT : ECONNRESET;
      s.may_send = s.may_receive = false;
    }
    s.requests_free = s.options.send_queue + kControlRequests;
    s.send_free = s.options.send_buffer;
    s.control_in_flight = 0;
    return;
  }
  if ((wc.opcode & IBV_WC_RECV) != 0) {
    on_message(s, be32toh(wc.imm_data), wc.byte_len);
    (void)post_receive(s);
    return;
  }
  ++s.requests_free;
  if ((wc.wr_id & kIsControl) != 0)
    --s.control_in_flight;
  else
    s.send_free += static_cast<uint32_t>(wc.wr_id & ~kIsMapped);
}

void keep_alive(Socket& s) {
  if (!s.options.keeps_alive || std::chrono::steady_clock::now() < s.next_keepalive) return;
  if (send_control(s, Control::keepalive)) begin_keepalive(s);
}

// The next part of the ring that is in one piece.
uint32_t ring_room(const Socket& s) {
  return std::min(s.send_free, s.options.send_buffer - s.send_at);
}

const std::byte* copy_to_ring(Socket& s, const std::byte* data, uint32_t length) {
  std::byte* const at = s.send_ring.bytes.data() + s.send_at;
  std::memcpy(at, data, length);
  s.send_at = (s.send_at + length) % s.options.send_buffer;
  s.send_free -= length;
  return at;
}

}  // namespace

bool prepare(Socket& s) {
  s.options.receive_buffer &= ~1u;
  constexpr int kWritten = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (!create_queue_pair(s) ||
      !register_buffer(s, s.send_ring, s.options.send_buffer, IBV_ACCESS_LOCAL_WRITE) ||
      !register_buffer(s, s.receive_ring, s.options.receive_buffer, kWritten) ||
      !register_buffer(s, s.peer, sizeof(PeerBuffers), kWritten))
    return false;
  s.send_free = s.options.send_buffer;
  s.requests_free = s.options.send_queue + kControlRequests;
  s.ungranted = s.grant_at = s.options.receive_buffer / 2;  // the first half is in own_data()
  s.consumed.limit = static_cast<uint16_t>(s.options.receive_queue / 2);
  begin_keepalive(s);
  for (uint32_t i = 0; i < s.options.receive_queue + 2 * kControlRequests; ++i)
    if (!post_receive(s)) return false;
  return true;
}

ConnectData own_data(const Socket& s) {
  const auto buffer = [](const Buffer& of, uint32_t length) {
    return RemoteBuffer{htobe64(reinterpret_cast<uint64_t>(of.bytes.data())),
                        htobe32(of.region->rkey), htobe32(length)};
  };
  ConnectData data;
  data.flags = std::endian::native == std::endian::big;
  data.credits = htobe16(static_cast<uint16_t>(s.options.receive_queue));
  data.mappings = static_cast<uint8_t>(s.options.mappings / kMappingUnit);
  data.list = buffer(s.peer, kGrants);
  data.buffer = buffer(s.receive_ring, s.options.receive_buffer / 2);
  return data;
}

bool accept_peer_data(Socket& s, const void* bytes, size_t length) {
  ConnectData data;
  if (bytes == nullptr || length < sizeof data) return false;
  std::memcpy(&data, bytes, sizeof data);
  if (data.version != 1) return false;
  const auto buffer = [](const RemoteBuffer& from) {
    return RemoteBuffer{be64toh(from.address), be32toh(from.key), be32toh(from.length)};
  };
  s.swaps_order = (data.flags & 1) != (std::endian::native == std::endian::big);
  s.sent.limit = be16toh(data.credits);
  s.peer_list = buffer(data.list);
  s.peer_mappings = data.mappings * kMappingUnit;
  s.grants.list[0] = buffer(data.buffer);
  return s.peer_list.length == kGrants;
}

void progress(Socket& s) {
  if (s.id == nullptr || s.id->qp == nullptr) return;
  ibv_wc completions[16];
  for (;;) {
    const int n = ibv_poll_cq(s.id->send_cq, 16, completions);
    if (n <= 0) break;
    for (int i = 0; i < n; ++i) on_completion(s, completions[i]);
  }
  if (s.phase != Phase::connected) return;
  grant(s);
  keep_alive(s);
}

bool can_send(Socket& s) {
  return s.phase == Phase::connected && s.may_send && s.sent.used != s.sent.limit &&
         s.grants.list[s.grants.current].length != 0 && ring_room(s) != 0 &&
         s.requests_free > kControlRequests;
}

size_t send_some(Socket& s, const std::byte* data, size_t length) {
  RemoteBuffer& to = s.grants.list[s.grants.current];
  const auto part = static_cast<uint32_t>(std::min<size_t>({length, to.length, ring_room(s)}));
  const std::byte* const copied = copy_to_ring(s, data, part);
  if (!post(s, {.id = part,
                .data = copied,
                .length = part,
                .key = s.send_ring.region->lkey,
                .to = to,
                .immediate = immediate(Message::data, part)})) {
    s.phase = Phase::failed;
    s.error = ECONNRESET;
    return 0;
  }
  ++s.sent.used;
  to.address += part;
  to.length -= part;
  if (to.length == 0) s.grants.current = (s.grants.current + 1) % kGrants;
  return part;
}

size_t receive_some(Socket& s, std::byte* data, size_t length, bool peeks) {
  const uint32_t size = s.options.receive_buffer;
  const auto part = static_cast<uint32_t>(std::min<size_t>(length, s.unread));
  const uint32_t first = std::min(part, size - s.read_at);
  std::memcpy(data, s.receive_ring.bytes.data() + s.read_at, first);
  std::memcpy(data + first, s.receive_ring.bytes.data(), part - first);
  if (peeks) return part;
  s.read_at = (s.read_at + part) % size;
  s.unread -= part;
  s.ungranted += part;
  for (uint32_t left = part; left != 0;) {
    WEFT_CHECK(!s.message_lengths.empty());  // they are `unread` bytes together
    uint32_t& of_message = s.message_lengths.front();
    const uint32_t taken = std::min(left, of_message);
    left -= taken;
    of_message -= taken;
    if (of_message != 0) continue;
    s.message_lengths.pop_front();
    ++s.consumed.used;
  }
  if (s.phase == Phase::connected) grant(s);
  return part;
}

bool send_control(Socket& s, Control control) {
  return post_control(s,
                      {.id = control == Control::keepalive ? kIsKeepalive : 0,
                       .immediate = immediate(Message::control, static_cast<uint32_t>(control))});
}

void begin_keepalive(Socket& s) {
  s.next_keepalive = std::chrono::steady_clock::now() + std::chrono::seconds(s.options.keepalive_s);
}

bool all_sent(const Socket& s) {
  return s.send_free == s.options.send_buffer && s.control_in_flight == 0;
}

bool send_mapping(Socket& s, const OwnMapping& mapping, uint32_t length) {
  const MappedBuffer entry{
      mapping.offset, in_order(s, {reinterpret_cast<uint64_t>(mapping.start),
                                   mapping.region != nullptr ? mapping.region->rkey : 0, length})};
  const uint64_t at = s.peer_list.address + s.peer_list.length * sizeof(RemoteBuffer) +
                      mapping.index * sizeof entry;
  return post_control(s, {.id = 0,
                          .data = &entry,
                          .length = sizeof entry,
                          .to = {at, s.peer_list.key, 0},
                          .immediate = immediate(Message::iomap, mapping.index)});
}

ssize_t write_mapped(Socket& s, const std::byte* data, size_t length, uint64_t offset) {
  for (const MappedBuffer& entry : s.of_peer().mapped) {
    const RemoteBuffer buffer = in_order(s, entry.buffer);
    if (buffer.length == 0 || offset < entry.offset || offset - entry.offset >= buffer.length)
      continue;
    const uint64_t skipped = offset - entry.offset;
    const auto part =
        static_cast<uint32_t>(std::min<uint64_t>({length, buffer.length - skipped, ring_room(s)}));
    if (part == 0 || s.requests_free <= kControlRequests) return 0;
    const std::byte* const copied = copy_to_ring(s, data, part);
    const bool posted = post(s, {.id = kIsMapped | part,
                                 .data = copied,
                                 .length = part,
                                 .key = s.send_ring.region->lkey,
                                 .to = {buffer.address + skipped, buffer.key, 0}});
    return posted ? static_cast<ssize_t>(part) : -1;
  }
  return -1;
}

}  // namespace weft::rdmacm::stream
