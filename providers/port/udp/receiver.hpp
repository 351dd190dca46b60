// SPDX-License-Identifier: BSD-3-Clause
// The receiving half of the port: reads datagrams into a ring of buffers and cuts trains into
// frames. One message in is one system call, so is an empty poll.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <span>

#include "lib/transport/frame.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/group.hpp"
#include "providers/port/udp/message.hpp"
#include "providers/port/udp/sender_check.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

class Receiver {
 public:
  struct Counters {
    uint64_t frames = 0;
    uint64_t bytes = 0;
    uint64_t super_packets = 0;  // datagrams that held a train
    uint64_t truncated = 0;      // datagrams larger than a buffer, dropped
    uint64_t errors = 0;         // reads that failed otherwise
  };

  // `group` is null when the address is ours alone, `senders` when every datagram is accepted. They
  // outlive the receiver.
  Receiver(int socket, const LocalAddress& local, uint32_t batch, AddressGroup* group,
           SenderCheck* senders);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  // False if there was no memory for the buffers.
  bool usable() const noexcept { return memory_ != nullptr; }

  size_t receive(std::span<transport::Frame> frames) noexcept;
  // True if the last receive() left frames for the next one.
  bool pending() const noexcept { return next_ < filled_; }
  // Makes the next receive() read forwarded messages too: call before sleeping on both sockets.
  void expect_forwarded() noexcept;
  const Counters& counters() const noexcept { return counters_; }

 private:
  void fetch() noexcept;
  bool fetch_forwarded() noexcept;
  void adapt_depth(bool trains) noexcept;
  void parse(uint32_t i, uint32_t length) noexcept;
  size_t cut(std::span<transport::Frame> frames) noexcept;
  bool is_sender_accepted(const Message& message) noexcept;
  bool is_lone_and_ours(const Message& message) const noexcept;
  bool steer(Message& message) noexcept;

  static constexpr size_t kBufferBytes = 65536;  // a datagram is smaller, merged or not
  static constexpr size_t kControlBytes =
      CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(int));

  // What one read needs besides its buffer.
  struct Slot {
    Message message;
    SocketAddress name;
    iovec piece{};
    alignas(cmsghdr) char control[kControlBytes] = {};
  };

  int socket_;
  bool ipv4_;
  uint32_t batch_;      // messages that one call may read
  uint32_t depth_ = 1;  // messages that the next call reads
  uint32_t full_reads_ = 0;
  uint32_t filled_ = 0;          // messages read
  uint32_t next_ = 0;            // first of them with frames left
  uint32_t reads_left_ = 1;      // until forwarded messages are looked for in any case
  bool forwarded_last_ = false;  // the last read was one of forwarded messages
  AddressGroup* group_;
  SenderCheck* senders_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<mmsghdr[]> headers_;
  std::unique_ptr<Slot[]> slots_;
  Counters counters_;
};

}  // namespace weft::port::udp
