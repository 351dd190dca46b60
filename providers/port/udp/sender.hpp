// SPDX-License-Identifier: BSD-3-Clause
// The sending half of the port: a pool of unconnected sockets, one per source port in use, and the
// batch of datagrams that one call hands to the kernel. A train is one datagram with UDP_SEGMENT.
// The sockets stay unconnected: a connected one increments its IPv4 identification.
#pragma once

#include <netinet/udp.h>
#include <sys/socket.h>

#include <memory>
#include <span>
#include <vector>

#include "lib/transport/frame.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"

namespace weft::port::udp {

class Sender {
 public:
  // Bytes of one datagram: what IPv6 and IPv4 packets hold.
  static constexpr uint32_t kMostBytes = 65535 - 40 - 8;

  struct Counters {
    uint64_t frames = 0;
    uint64_t bytes = 0;
    uint64_t trains = 0;        // datagrams of more than one frame
    uint64_t errors = 0;        // frames that the kernel refused: dropped
    uint64_t unknown_port = 0;  // frames with a source port outside the pool: dropped
  };
  struct Limits {
    uint32_t ports = 16;
    uint32_t buffer = 4 << 20;  // per socket
    uint32_t segments = 1;      // frames of a train; 1: each frame is a datagram
    bool hold = false;          // each port on all addresses: no other user can have it
  };

  Sender(const LocalAddress& local, const Limits& limits);

  // Opens the socket for `wanted` if the pool has room; else names one that is open.
  uint16_t source_port(uint16_t wanted) noexcept;
  // As Port::transmit.
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept;
  // The socket that last had no room, or -1.
  int blocked() const noexcept { return blocked_; }
  // Becomes 1 when a device cannot segment (GSO).
  uint32_t segments() const noexcept { return limits_.segments; }
  void unblock() noexcept { blocked_ = -1; }
  const Counters& counters() const noexcept { return counters_; }

 private:
  struct Socket {
    Descriptor held;  // the port, on all addresses
    Descriptor descriptor;
    uint16_t port = 0;
    uint8_t traffic_class = 0;  // what datagrams without a control message carry
    uint8_t last_other = 0;     // the differing class of recent frames
    uint8_t streak = 0;         // consecutive frames with it
  };

  Socket* find(uint16_t port) noexcept;
  Socket* open(uint16_t port) noexcept;
  bool is_plain(const transport::TxFrame& frame) const noexcept;
  size_t transmit_plain(const transport::TxFrame& frame) noexcept;
  size_t train_end(std::span<const transport::TxFrame> frames, size_t begin) const noexcept;
  void append(std::span<const transport::TxFrame> train, bool copy) noexcept;
  void append_control(const transport::TxFrame& first, uint32_t segment) noexcept;
  size_t flush() noexcept;
  void adapt_class(Socket& socket, uint8_t traffic_class) noexcept;
  void note_refusal(int error, const SocketAddress& to, uint32_t bytes) noexcept;

  static constexpr uint32_t kMessages = 16;
  static constexpr uint32_t kPieces = 1024;  // the kernel's limit for one datagram
  static constexpr uint32_t kControlBytes = 3 * CMSG_SPACE(sizeof(int));

  // What append() needs to know of a datagram after it is sent.
  struct DatagramInfo {
    SocketAddress name;
    uint32_t frames = 0;
    uint32_t bytes = 0;
    alignas(cmsghdr) char control[kControlBytes] = {};
  };

  LocalAddress local_;
  Limits limits_;
  std::vector<Socket> sockets_;  // never moves: reserved for limits_.ports
  std::vector<uint16_t> table_;  // open addressing by port: index + 1 into sockets_
  Socket* current_ = nullptr;    // the socket of the batch
  uint32_t messages_ = 0;
  uint32_t pieces_ = 0;
  int blocked_ = -1;
  bool said_too_long_ = false;
  SocketAddress plain_name_;  // where the last plain frame went, as the kernel wants it
  Gid plain_to_;
  uint16_t plain_port_ = 0;
  std::vector<mmsghdr> headers_;
  std::vector<DatagramInfo> infos_;
  std::vector<iovec> iovecs_;
  std::unique_ptr<std::byte[]> scratch_;  // one datagram of more than kPieces pieces is copied here
  Counters counters_;
};

}  // namespace weft::port::udp
