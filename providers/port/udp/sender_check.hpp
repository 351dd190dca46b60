// SPDX-License-Identifier: BSD-3-Clause
// Which datagrams of this host are the peer's: those from a UDP source port that a user holds who
// may send for their source address. (//= threat:A31)
//
// An unprivileged process may send from any address of the host (IP_PKTINFO), so the source address
// of a datagram says nothing of its sender. The source port does: a process that binds a port on
// all addresses, without SO_REUSEADDR, keeps every other user from binding it on any address. Each
// socket that a weft device sends from is held so for its life (hold_port()). The receiver asks the
// kernel once who holds a port. If that is the user of the receiver, it binds the port too, which
// the kernel permits within one user: from then on no other user can have it, even when the sender
// has ended, and the kernel is not asked again. Another user's port counts for the addresses where
// that user has our UDP port, those of root for all. It is asked for again every kLent, and nothing
// is accepted from it until the kernel has said so again: after its sender has ended another user
// may have it for that long, and no longer. An address stays that of the first user that was seen
// there as long as the device lives: after that user's device has ended, another user who takes the
// address does not pass for it.
//
// A datagram whose port is not known yet waits for no question beyond the budget: it is dropped, as
// if it was lost, and its port is queued. Each port has one place in the queue, so that a flood
// from new ports, of which a process has a bounded number, delays others by one round.
//
// Senders of other hosts cannot be looked up and are not checked.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "providers/port/udp/socket_users.hpp"
#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::port::udp {

class SenderCheck {
 public:
  struct Counters {
    uint64_t refused = 0;  // datagrams
    uint64_t lookups = 0;  // questions to the kernel
  };
  static constexpr uint32_t kBurst = 128;              // lookups of one queue that need not wait
  static constexpr uint32_t kLookupsPerSecond = 1000;  // of unknown ports, otherwise
  // Of ports that are lent: so many that 100 ports of other users are never late.
  static constexpr uint32_t kRenewalsPerSecond = 4000;
  static constexpr Duration kLent = Duration::from_ms(25);
  static constexpr Duration kRefused = Duration::from_ms(10);

  // `receives`: the socket that is bound to the UDP port of `local`. Errors: not_supported (the
  // kernel does not say whose sockets are), io_error (nor which addresses this host has),
  // no_memory.
  static Result<std::unique_ptr<SenderCheck>> open(const LocalAddress& local, int receives);

  bool accepts(const Gid& source, uint16_t port) noexcept {
    if (!is_of_this_host(source)) return true;
    const auto index = static_cast<uint16_t>(port - kFirstSourcePort);
    if (index < kSourcePorts && is_held_[index]) {
      if (source != ours_) note_ours(source);
      return true;
    }
    return look(source, port);
  }

  // The addresses of this host may have changed: lists them if the kernel says so. Called when a
  // path is made, which is before the packets of a local peer matter.
  void look_at_addresses();
  // Ports of our user that we hold.
  uint32_t held() const noexcept { return static_cast<uint32_t>(held_.size()); }
  const Counters& counters() const noexcept { return counters_; }

 private:
  // Of a port that is not held: the addresses that it is lent for.
  struct Entry {
    struct Lease {
      Gid source;
      Instant until;    // to be asked again
      bool any_source;  // for all addresses
      bool used;
    };
    Lease* find(const Gid& source) noexcept;
    void lend(const Gid& source, bool any_source, Instant until) noexcept;

    std::array<Lease, 4> leases;  // devices of one user may have the same source port
    Gid wanted;                   // the address that it is to be asked about for
    Instant refused_until;
  };
  // Which user was first seen at an address; full, it takes no more.
  class Owners {
   public:
    Owners();
    // False: that is another user.
    bool note(const Gid& address, uint32_t user) noexcept;
    bool has_another(const Gid& address, uint32_t user) const noexcept;

   private:
    static constexpr uint32_t kSize = 1024, kMost = kSize / 2;
    struct Owner {
      Gid address;
      uint32_t user;
      bool used;
    };
    uint32_t place_of(const Gid& address) const noexcept;
    std::unique_ptr<Owner[]> owners_;
    uint32_t count_ = 0;
  };
  // Ports to ask about.
  struct Queue {
    std::array<uint64_t, kSourcePorts / 64> wanted{};
    uint32_t count = 0;
    uint32_t cursor = 0;
    uint32_t tokens = kBurst;
    Instant refilled{};

    void add(uint32_t index) noexcept;
    uint32_t take() noexcept;
    void refill(Instant now, uint32_t per_second) noexcept;
  };
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };

  SenderCheck(const LocalAddress& local, uint32_t user);
  bool is_of_this_host(const Gid& source) noexcept {
    if (all_of_this_host_) return true;
    if (source == elsewhere_) return false;
    return is_listed(source);
  }
  bool is_listed(const Gid& source) noexcept;
  bool look(const Gid& source, uint16_t port) noexcept;
  void serve(Queue& queue, Instant now) noexcept;
  bool have_addresses_changed() noexcept;
  void resolve(uint32_t index, Instant now) noexcept;
  bool hold(uint16_t port) noexcept;
  void note_ours(const Gid& source) noexcept;
  bool may_send_for(uint32_t user, const Gid& source) noexcept;
  bool refuse() noexcept { return ++counters_.refused, false; }

  LocalAddress local_;
  bool all_of_this_host_;  // only processes of this host reach our address
  uint32_t user_;          // that of our sockets
  SocketUsers users_;
  Gid ours_;  // the last source that is a peer of our user
  Owners our_addresses_, others_addresses_;
  Gid elsewhere_;                  // the last source that is not of this host
  Descriptor changes_;             // from the kernel, to the addresses of this host
  std::vector<Gid> here_;          // addresses of this host
  std::optional<Instant> looked_;  // for changes, when
  bool stale_ = false;             // there were some since here_ was listed
  std::array<bool, kSourcePorts> is_held_{};
  std::unique_ptr<Entry[], Free>
      entries_;                   // pages of it take memory when a port is refused or lent
  std::vector<Descriptor> held_;  // reserved: never grows
  Queue first_, again_;           // unknown and refused ports; those that were lent
  Counters counters_;
};

}  // namespace weft::port::udp
