// SPDX-License-Identifier: BSD-3-Clause
// Frames become datagrams: heads that lie side by side become one piece, a train one datagram, and
// datagrams from one source port go to the kernel together.
#include "providers/port/udp/sender.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/base/log/log.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {
namespace {

constexpr uint32_t kTries = 16;  // ports next to the wanted one that are tried
constexpr uint8_t kDefaultHopLimit = 64;
constexpr uint8_t kStreakToAdapt = 8;

uint8_t class_of(const transport::TxFrame& frame) noexcept {
  return static_cast<uint8_t>((frame.path->traffic_class & 0xFC) | (frame.ecn & 3));
}

// Pieces of memory that the train has at most.
uint32_t pieces_of(std::span<const transport::TxFrame> train) noexcept {
  uint32_t pieces = 0;
  for (const transport::TxFrame& frame : train) pieces += frame.span_count + 2u;
  return pieces;
}

// Appends a control message whose value is `size` bytes; returns where the next one goes.
char* put_control(char* at, int level, int type, const void* value, size_t size) noexcept {
  cmsghdr header{};
  header.cmsg_level = level;
  header.cmsg_type = type;
  header.cmsg_len = CMSG_LEN(size);
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + CMSG_LEN(0), value, size);
  return at + CMSG_SPACE(size);
}

}  // namespace

Sender::Sender(const LocalAddress& local, const Limits& limits)
    : local_(local),
      limits_(limits),
      table_(std::bit_ceil(limits.ports * 2u), 0),
      headers_(kMessages),
      infos_(kMessages),
      iovecs_(kPieces),
      scratch_(new std::byte[kMostBytes]) {
  WEFT_CHECK(limits.ports >= 1 && limits.ports <= kSourcePorts);
  sockets_.reserve(limits.ports);  // pointers to them stay valid
}

// ---- source ports

uint16_t Sender::source_port(uint16_t wanted) noexcept {
  const uint32_t start =
      wanted >= kFirstSourcePort ? wanted - kFirstSourcePort : wanted % kSourcePorts;
  for (uint32_t i = 0; i < kTries; ++i) {
    const auto port = static_cast<uint16_t>(kFirstSourcePort + (start + i) % kSourcePorts);
    if (find(port) != nullptr) return port;
    if (sockets_.size() == limits_.ports) break;
    if (open(port) != nullptr) return port;
  }
  if (sockets_.empty()) return wanted;
  return sockets_[start % sockets_.size()].port;
}

Sender::Socket* Sender::find(uint16_t port) noexcept {
  if (current_ != nullptr && current_->port == port) return current_;
  const size_t mask = table_.size() - 1;
  for (size_t at = port & mask; table_[at] != 0; at = (at + 1) & mask)
    if (sockets_[table_[at] - 1].port == port) return &sockets_[table_[at] - 1];
  return nullptr;
}

Sender::Socket* Sender::open(uint16_t port) noexcept {
  if (sockets_.size() == limits_.ports) return nullptr;
  Descriptor held;
  if (limits_.hold && !(held = hold_port(local_.ipv4(), port))) return nullptr;
  Descriptor descriptor = open_transmit_socket(local_, port, limits_.buffer);
  if (!descriptor) return nullptr;
  WEFT_DCHECK(find(port) == nullptr && sockets_.size() < sockets_.capacity());
  sockets_.emplace_back();
  sockets_.back().held = std::move(held);
  sockets_.back().descriptor = std::move(descriptor);
  sockets_.back().port = port;
  const size_t mask = table_.size() - 1;
  size_t at = port & mask;
  while (table_[at] != 0) at = (at + 1) & mask;
  table_[at] = static_cast<uint16_t>(sockets_.size());
  return &sockets_.back();
}

// ---- sending

size_t Sender::transmit(std::span<const transport::TxFrame> frames) noexcept {
  WEFT_DCHECK(messages_ == 0 && pieces_ == 0);
  blocked_ = -1;
  if (frames.size() == 1 && is_plain(frames[0])) return transmit_plain(frames[0]);
  size_t taken = 0;   // by the kernel
  size_t queued = 0;  // in the batch
  while (taken + queued < frames.size()) {
    const size_t begin = taken + queued;
    const size_t end = train_end(frames, begin);
    const auto train = frames.subspan(begin, end - begin);
    const uint32_t pieces = pieces_of(train);
    const uint16_t port = frames[begin].path->source_port;
    Socket* socket = find(port);
    if (socket != current_ || messages_ == kMessages || pieces_ + pieces > kPieces) {
      const size_t sent = flush();
      taken += sent;
      if (sent < queued) return taken;
      queued = 0;
    }
    if (socket == nullptr) socket = open(port);
    if (socket == nullptr) {
      counters_.unknown_port += train.size();
      taken += train.size();
      continue;
    }
    current_ = socket;
    append(train, pieces > kPieces);
    queued += train.size();
  }
  taken += flush();
  WEFT_DCHECK(taken <= frames.size());
  if (!frames.empty() && current_ != nullptr) adapt_class(*current_, class_of(frames.back()));
  return taken;
}

// A frame that needs no batch: contiguous, with the socket's default traffic class.
bool Sender::is_plain(const transport::TxFrame& frame) const noexcept {
  return current_ != nullptr && current_->port == frame.path->source_port &&
         current_->traffic_class == class_of(frame) && frame.span_count == 0 &&
         frame.tail_length == 0 && frame.path->hop_limit == kDefaultHopLimit;
}

// The path of a small message, where every part of a microsecond counts.
size_t Sender::transmit_plain(const transport::TxFrame& frame) noexcept {
  WEFT_DCHECK(current_ != nullptr && current_->descriptor);
  const transport::Path& path = *frame.path;
  if (plain_to_ != path.destination || plain_port_ != path.destination_port) {
    plain_name_ = to_socket_address(path.destination, path.destination_port, local_.scope);
    plain_to_ = path.destination;
    plain_port_ = path.destination_port;
  }
  const int fd = current_->descriptor.fd();
  while (::sendto(fd, frame.head, frame.head_length, MSG_DONTWAIT, &plain_name_.generic,
                  plain_name_.length) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) {
      blocked_ = fd;
      return 0;
    }
    note_refusal(errno, plain_name_, frame.head_length);
    ++counters_.errors;
    return 1;
  }
  ++counters_.frames;
  counters_.bytes += frame.head_length;
  return 1;
}

// The first frame after `begin` that is not a segment of the same datagram. The engine forms
// trains; lengths are checked again because middleware may have dropped or cut a frame.
size_t Sender::train_end(std::span<const transport::TxFrame> frames, size_t begin) const noexcept {
  WEFT_DCHECK(begin < frames.size());
  const transport::TxFrame& first = frames[begin];
  const uint32_t segment = first.length();
  uint32_t bytes = segment;
  size_t end = begin + 1;
  while (end < frames.size() && end - begin < limits_.segments) {
    const transport::TxFrame& frame = frames[end];
    const uint32_t length = frame.length();
    const bool next = frame.ip_id == first.ip_id + (end - begin) && frame.path == first.path;
    if (!next || length > segment || bytes + length > kMostBytes) break;
    bytes += length;
    ++end;
    if (length < segment) break;
  }
  return end;
}

// `copy`: the pieces are too many for one call, so they are put together first.
void Sender::append(std::span<const transport::TxFrame> train, bool copy) noexcept {
  WEFT_DCHECK(!train.empty() && messages_ < kMessages && pieces_ < kPieces);
  WEFT_DCHECK(!copy || pieces_ == 0);
  iovec* const first = &iovecs_[pieces_];
  iovec* last = first - 1;
  uint32_t bytes = 0;
  const auto add = [&](const std::byte* data, uint32_t length) {
    if (length == 0) return;
    if (copy) {
      if (bytes + length > kMostBytes) return;  // no train is that long
      std::memcpy(&scratch_[bytes], data, length);
      data = &scratch_[bytes];
    }
    bytes += length;
    if (last >= first && static_cast<const std::byte*>(last->iov_base) + last->iov_len == data) {
      last->iov_len += length;
      return;
    }
    *++last = {const_cast<std::byte*>(data), length};
  };
  for (const transport::TxFrame& frame : train) {
    add(frame.head, frame.head_length);
    for (uint32_t i = 0; i < frame.span_count; ++i) add(frame.spans[i].data, frame.spans[i].length);
    add(frame.tail, frame.tail_length);
  }

  DatagramInfo& note = infos_[messages_];
  note.frames = static_cast<uint32_t>(train.size());
  note.bytes = bytes;
  const transport::Path& path = *train[0].path;
  note.name = to_socket_address(path.destination, path.destination_port, local_.scope);
  msghdr& header = headers_[messages_].msg_hdr;
  header.msg_name = &note.name.generic;
  header.msg_namelen = note.name.length;
  header.msg_iov = first;
  header.msg_iovlen = static_cast<size_t>(last + 1 - first);
  append_control(train[0], train.size() > 1 ? train[0].length() : 0);
  WEFT_DCHECK(pieces_ + header.msg_iovlen <= kPieces);
  pieces_ = copy ? kPieces : pieces_ + static_cast<uint32_t>(header.msg_iovlen);
  ++messages_;
}

// Only what differs from the socket's own settings: a lone frame usually needs nothing.
void Sender::append_control(const transport::TxFrame& first, uint32_t segment) noexcept {
  DatagramInfo& note = infos_[messages_];
  msghdr& header = headers_[messages_].msg_hdr;
  const bool v4 = local_.ipv4();
  char* at = note.control;
  if (segment != 0) {
    const auto size = static_cast<uint16_t>(segment);
    at = put_control(at, SOL_UDP, UDP_SEGMENT, &size, sizeof size);
  }
  if (class_of(first) != current_->traffic_class) {
    const int value = class_of(first);
    at = put_control(at, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &value, sizeof value);
  }
  if (first.path->hop_limit != kDefaultHopLimit) {
    const int value = first.path->hop_limit;
    at = put_control(at, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, &value, sizeof value);
  }
  WEFT_DCHECK(static_cast<size_t>(at - note.control) <= sizeof note.control);
  header.msg_controllen = static_cast<size_t>(at - note.control);
  header.msg_control = header.msg_controllen != 0 ? note.control : nullptr;
}

// Hands the batch to the kernel; returns how many frames it took. A datagram that the kernel
// refuses (no route, too long, a firewall) is taken and lost; one that it has no room for is not.
size_t Sender::flush() noexcept {
  WEFT_DCHECK(messages_ == 0 || current_ != nullptr);
  size_t frames = 0;
  uint32_t done = 0;
  while (done < messages_) {
    const int fd = current_->descriptor.fd();
    int n;
    if (messages_ - done == 1)
      n = ::sendmsg(fd, &headers_[done].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
    else
      n = ::sendmmsg(fd, &headers_[done], messages_ - done, MSG_DONTWAIT);
    for (int i = 0; i < n; ++i, ++done) {
      const DatagramInfo& note = infos_[done];
      frames += note.frames;
      counters_.frames += note.frames;
      counters_.bytes += note.bytes;
      counters_.trains += note.frames > 1;
    }
    if (n > 0 || errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) {
      blocked_ = fd;
      break;
    }
    // EIO: the device below cannot segment. From now on each frame is a datagram.
    if (errno == EIO && infos_[done].frames > 1) limits_.segments = 1;
    note_refusal(errno, infos_[done].name, infos_[done].bytes / infos_[done].frames);
    counters_.errors += infos_[done].frames;
    frames += infos_[done].frames;
    ++done;
  }
  messages_ = pieces_ = 0;
  return frames;
}

// Said once: the engine only sees that the peer does not answer.
void Sender::note_refusal(int error, const SocketAddress& to, uint32_t bytes) noexcept {
  if (error != EMSGSIZE || said_too_long_) return;
  said_too_long_ = true;
  base::log(base::Subsystem::port, LogLevel::warning, [&] {
    return "udp: packets of " + std::to_string(bytes) + " bytes from " + text_of(local_.gid) +
           " do not fit the route to " + text_of(to_gid(to)) +
           ": open the devices of both sides with a smaller udp.mtu (1024 fits Ethernet), or raise "
           "the MTU of the interfaces";
  });
}

// A class that stays for a while becomes the socket's own: no control message any more.
void Sender::adapt_class(Socket& socket, uint8_t traffic_class) noexcept {
  if (traffic_class == socket.traffic_class) {
    socket.streak = 0;
    return;
  }
  socket.streak = traffic_class == socket.last_other ? static_cast<uint8_t>(socket.streak + 1) : 0;
  socket.last_other = traffic_class;
  if (socket.streak < kStreakToAdapt) return;
  const int value = traffic_class;
  const bool v4 = local_.ipv4();
  if (::setsockopt(socket.descriptor.fd(), v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
                   &value, sizeof value) == 0)
    socket.traffic_class = traffic_class;
  socket.streak = 0;
}

}  // namespace weft::port::udp
