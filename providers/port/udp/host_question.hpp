// SPDX-License-Identifier: BSD-3-Clause
// Asks the host of a peer whether a process has the peer's UDP port. The host says that none has by
// ICMP (port unreachable). Anyone may send such a message, so it counts only if it quotes a
// datagram that was sent from here and that no one else could know: one with a nonce, from a socket
// that sends nothing else. The sockets of frames take no ICMP at all.
//= threat:A08 a forged message has no effect
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/transport/lost_peers.hpp"
#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "weft/units.hpp"

namespace weft::port::udp {

class HostQuestion {
 public:
  struct Counters {
    uint64_t asked = 0;
    uint64_t unreachable = 0;  // ports that no process has
    uint64_t unbelieved = 0;   // messages that do not quote what was asked, or say something else
  };
  // To the same address, no sooner than this after the last one.
  static constexpr Duration kInterval = Duration::from_ms(5);

  // The socket is opened at once, so that a device takes the same descriptors whatever its peers
  // do.
  explicit HostQuestion(const LocalAddress& local) noexcept;

  // Nothing is asked where there is no socket left.
  void ask(const Gid& to, uint16_t port, std::span<const std::byte> datagram, Instant now) noexcept;
  // Whether read() may find something. In every call of Port::receive().
  bool waits() const noexcept { return waits_; }
  // Takes what hosts have said since. A call of it for each kPolls while nothing is said, but after
  // expect().
  void read(Instant now, transport::LostPeers* lost) noexcept;
  // A thread has slept on fd().
  void expect() noexcept { polls_ = 0; }
  // An error is pending there when something was said; -1: there is no socket.
  int fd() const noexcept { return socket_.fd(); }
  const Counters& counters() const noexcept { return counters_; }

 private:
  static constexpr uint32_t kPolls = 16;
  static constexpr Duration kAnswer = Duration::from_s(1);  // is not waited for longer
  static constexpr size_t kMostBytes = 32;
  // What was asked last; the oldest one makes room.
  struct Asked {
    Gid to;
    Instant at;
    uint32_t length = 0;  // 0: answered, or never used
    std::array<std::byte, kMostBytes> bytes{};
  };

  bool read_one(transport::LostPeers* lost) noexcept;
  void believe(const Gid& from, std::span<const std::byte> quoted,
               transport::LostPeers* lost) noexcept;

  LocalAddress local_;
  Descriptor socket_;
  bool waits_ = false;
  uint32_t polls_ = 0;  // calls of read() until the kernel is asked
  Instant last_;
  std::array<Asked, 16> asked_;
  Counters counters_;
};

}  // namespace weft::port::udp
