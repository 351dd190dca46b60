// SPDX-License-Identifier: BSD-3-Clause
// How many messages one call reads adapts: one, for latency and because a train is a burst by
// itself; up to `batch` when lone datagrams queue up.
#include "providers/port/udp/receiver.hpp"

#include <netinet/udp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "lib/base/check.hpp"

namespace weft::port::udp {

// Forwarded messages are announced in the table of the group. Their socket is also read once in
// this many reads of the main one: what others than members sent must not remain there.
constexpr uint32_t kForwardedEvery = 128;
constexpr uint32_t kFullReadsToGrow = 8;

Receiver::Receiver(int socket, const LocalAddress& local, uint32_t batch, AddressGroup* group,
                   SenderCheck* senders)
    : socket_(socket),
      ipv4_(local.ipv4()),
      batch_(batch),
      group_(group),
      senders_(senders),
      headers_(new mmsghdr[batch]()),
      slots_(new Slot[batch]) {
  // Mapped, not allocated: a page takes memory when a datagram first reaches it.
  void* memory = ::mmap(nullptr, batch * kBufferBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  for (uint32_t i = 0; i < batch; ++i) {
    Slot& slot = slots_[i];
    slot.message.bytes = memory_ + i * kBufferBytes;
    slot.message.path.destination = local.gid;
    slot.message.path.destination_port = local.port;
    slot.message.path.source = local.gid;  // of the right family; the rest is overwritten
    slot.piece = {slot.message.bytes, kBufferBytes};
    msghdr& header = headers_[i].msg_hdr;
    header.msg_name = &slot.name.generic;
    header.msg_iov = &slot.piece;
    header.msg_iovlen = 1;
    header.msg_control = slot.control;
  }
}

Receiver::~Receiver() {
  if (memory_ != nullptr) ::munmap(memory_, batch_ * kBufferBytes);
}

size_t Receiver::receive(std::span<transport::Frame> frames) noexcept {
  if (!pending()) fetch();
  return cut(frames);
}

void Receiver::fetch() noexcept {
  WEFT_DCHECK(!pending() && depth_ >= 1 && depth_ <= batch_);
  next_ = filled_ = 0;
  if (group_ != nullptr && (--reads_left_ == 0 || group_->has_forwarded()) && fetch_forwarded())
    return;
  for (uint32_t i = 0; i < depth_; ++i) {
    headers_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6);
    headers_[i].msg_hdr.msg_controllen = kControlBytes;
  }
  bool failed;
  if (depth_ == 1) {
    const ssize_t n = ::recvmsg(socket_, &headers_[0].msg_hdr, MSG_DONTWAIT);
    failed = n < 0;
    headers_[0].msg_len = static_cast<unsigned>(n);
    filled_ = failed ? 0 : 1;
  } else {
    const int n = ::recvmmsg(socket_, headers_.get(), depth_, MSG_DONTWAIT, nullptr);
    failed = n < 0;
    filled_ = failed ? 0 : static_cast<uint32_t>(n);
  }
  if (failed) {
    if (errno == EAGAIN) {
      if (group_ != nullptr) group_->on_empty();
    } else if (errno != EINTR) {
      ++counters_.errors;
    }
    depth_ = 1;
    full_reads_ = 0;
    return;
  }
  WEFT_DCHECK(filled_ >= 1 && filled_ <= depth_);
  bool trains = false;
  for (uint32_t i = 0; i < filled_; ++i) {
    parse(i, headers_[i].msg_len);
    trains |= slots_[i].message.segment < slots_[i].message.length;
  }
  adapt_depth(trains);
}

// A second message in one call pays off only if it is there: an empty attempt inside recvmmsg costs
// half a system call.
void Receiver::adapt_depth(bool trains) noexcept {
  if (trains || filled_ < depth_) {
    depth_ = 1;
    full_reads_ = 0;
  } else if (++full_reads_ >= kFullReadsToGrow || depth_ > 1) {
    depth_ = std::min(depth_ * 2, batch_);
  }
}

// In turns with the main socket. False: that one is to be read.
bool Receiver::fetch_forwarded() noexcept {
  WEFT_DCHECK(group_ != nullptr && filled_ == 0);
  reads_left_ = 1;  // more may wait
  if (std::exchange(forwarded_last_, false)) return false;
  forwarded_last_ = group_->receive(slots_[0].message, kBufferBytes);
  if (!forwarded_last_) reads_left_ = kForwardedEvery;
  filled_ = forwarded_last_ ? 1 : 0;
  // The member that sent it on may not check senders.
  Message& message = slots_[0].message;
  if (forwarded_last_ && message.length != 0 && !is_sender_accepted(message)) message.length = 0;
  return forwarded_last_;
}

void Receiver::expect_forwarded() noexcept {
  WEFT_DCHECK(group_ != nullptr);
  reads_left_ = 1;
  group_->before_sleep();
}

void Receiver::parse(uint32_t i, uint32_t length) noexcept {
  const msghdr& header = headers_[i].msg_hdr;
  Slot& slot = slots_[i];
  Message& message = slot.message;
  message.length = message.segment = length;
  message.offset = message.ours_until = 0;
  message.next_id = 0;
  message.path.traffic_class = 0;
  if (header.msg_flags & MSG_TRUNC) {
    ++counters_.truncated;
    message.length = 0;
    return;
  }
  if (ipv4_)
    std::memcpy(message.path.source.bytes.data() + 12, &slot.name.v4.sin_addr, 4);
  else
    std::memcpy(message.path.source.bytes.data(), &slot.name.v6.sin6_addr, 16);
  message.path.source_port = port_of(slot.name);
  for (const cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header), const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      int segment;
      std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
      if (segment > 0) message.segment = static_cast<uint32_t>(segment);
    } else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_TOS) ||
               (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
      int value = *CMSG_DATA(c);  // one byte for IPv4, an int for IPv6
      if (!ipv4_) std::memcpy(&value, CMSG_DATA(c), sizeof value);
      message.path.traffic_class = static_cast<uint8_t>(value);
    }
  }
  if (message.segment < length) ++counters_.super_packets;
  const bool probe =
      length == AddressGroup::kProbeLength && group_ != nullptr && group_->take_probe(message);
  // Probes come from the port that members receive at, which they do not hold on all addresses.
  if (probe || !is_sender_accepted(message)) message.length = 0;
}

bool Receiver::is_sender_accepted(const Message& message) noexcept {
  return senders_ == nullptr || senders_->accepts(message.path.source, message.path.source_port);
}

// The usual case of steer(), for small messages: one frame, to a queue pair of this member.
bool Receiver::is_lone_and_ours(const Message& message) const noexcept {
  return message.segment >= message.length &&
         transport::names_queue_pair(message.bytes, message.length) &&
         transport::slot_by_queue_pair(message.bytes) == group_->slot();
}

size_t Receiver::cut(std::span<transport::Frame> frames) noexcept {
  size_t n = 0;
  while (next_ < filled_ && n < frames.size()) {
    Message& message = slots_[next_].message;
    if (message.offset >= message.length) {
      ++next_;
      continue;
    }
    const bool unknown = group_ != nullptr && message.offset >= message.ours_until;
    if (unknown && !is_lone_and_ours(message) && !steer(message)) continue;
    const uint32_t length = std::min(message.segment, message.length - message.offset);
    // In its place: what is made beside it and copied waits for all stores before it.
    ::new (&frames[n++])
        transport::Frame{.path = &message.path,
                         .bytes = message.bytes + message.offset,
                         .length = length,
                         .ip_id = message.next_id++,
                         .ip_id_known = !ipv4_,
                         .ecn = static_cast<uint8_t>(message.path.traffic_class & 3)};
    counters_.bytes += length;
    message.offset += length;
  }
  WEFT_DCHECK(n <= frames.size() && next_ <= filled_);
  counters_.frames += n;
  if (next_ + 1 == filled_ && slots_[next_].message.offset >= slots_[next_].message.length)
    ++next_;  // nothing pending
  return n;
}

// Looks at the run of frames from the offset on that are for one slot. True: they are ours; false:
// they were sent on to their owner and are behind the offset now.
bool Receiver::steer(Message& message) noexcept {
  WEFT_DCHECK(group_ != nullptr && message.segment != 0 && message.offset < message.length);
  const auto length_at = [&](uint32_t offset) {
    return std::min(message.segment, message.length - offset);
  };
  const auto slot_at = [&](uint32_t offset) {
    return group_->owner_of(message.bytes + offset, length_at(offset));
  };
  const udp::Slot slot = slot_at(message.offset);
  uint32_t end = message.offset;
  uint16_t count = 0;
  for (; end < message.length && slot_at(end) == slot; ++count)
    end += std::min(message.segment, message.length - end);
  if (slot != group_->slot() &&
      transport::names_queue_pair(message.bytes + message.offset, length_at(message.offset))) {
    group_->on_foreign_frame(slot);
    if (next_ + 1 == filled_ && end >= message.length) group_->look_whether_empty();
  }
  if (slot == group_->slot() || !group_->forward(slot, message, end - message.offset)) {
    WEFT_DCHECK(end > message.offset && end <= message.length);
    message.ours_until = end;
    return true;
  }
  message.offset = end;
  message.next_id = static_cast<uint16_t>(message.next_id + count);
  return false;
}

}  // namespace weft::port::udp
