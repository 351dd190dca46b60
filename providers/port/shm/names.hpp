// SPDX-License-Identifier: BSD-3-Clause
// The names at which a port listens, by which its peers find it: that of its address, or, where
// several ports share an address, that of its slot and of the services that it listens for.
// Requests of connections go to the name of their service. A port that has stopped to listen keeps
// another name for a moment, as its device drops requests for the service that long
// (lib/roce/cm/closed_services.hpp); the next listener may be of another port space, so that name
// has the lower 16 bits only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/transport/shared_address.hpp"
#include "providers/port/shm/link.hpp"
#include "weft/result.hpp"

namespace weft::port::shm {

class Names {
 public:
  Names(std::string job, bool shares, EpollSet& events)
      : job_(std::move(job)), shares_(shares), events_(events) {}

  // Listens at an address of its own, or at a slot. Errors: no_memory (all slots are taken),
  // io_error.
  Result<void> claim(base::SecureRandom& random);
  // Listens as the port beside the network port at `address`. Errors: address_in_use, io_error.
  Result<void> claim_beside(const Gid& address, transport::Slot slot);

  // In the paths of frames.
  const Gid& gid() const noexcept { return gid_; }
  // Where it listens, and what its peers know it by: gid(), or the name of its slot.
  const Gid& own() const noexcept { return own_; }
  // The address of those that share one.
  const Gid& shared() const noexcept { return shared_; }
  // 0: gid() is not shared.
  transport::Slot slot() const noexcept { return slot_; }
  // Listens as the port beside a network port.
  bool beside() const noexcept { return is_name_of(NameOf::host, own_); }
  transport::Port::QpnRange qpn_range() const noexcept {
    return shares_ ? transport::qpn_range_of(slot_) : transport::Port::QpnRange{};
  }

  // Only of an address that is shared. Errors: address_in_use names the process that listens.
  Result<void> claim_service(uint64_t service);
  void release_service(uint64_t service);
  // Closes the names of services that closed a moment ago. True: there were some.
  bool forget_closed() noexcept { return !closed_.empty() && forget_closed(kMoment); }
  bool listens_at(const Gid& name) const noexcept;
  // Whose frames come from the port that says `hello`; nothing: not a peer of this kind of port.
  std::optional<Sender> sender_of(const Hello& hello) const noexcept;

  static Gid of_service(uint64_t service) noexcept { return make_gid(service, NameOf::service); }
  static Gid of_closed(uint64_t service) noexcept {
    return make_gid(service & 0xFFFF, NameOf::closed);
  }

 private:
  struct Closed {
    std::unique_ptr<Listener> listener;
    int64_t at_ns = 0;
  };
  static constexpr int64_t kMoment = 3'000'000'000;  // as cm::kBetweenListeners
  static constexpr size_t kMostClosed = 64;          // as cm::ClosedServices

  Result<std::unique_ptr<Listener>> listen(const Gid& name);
  bool forget_closed(int64_t older_than_ns) noexcept;

  const std::string job_;
  const bool shares_;
  EpollSet& events_;
  Gid gid_, own_, shared_;
  transport::Slot slot_ = 0;
  std::unique_ptr<Listener> listener_;
  std::map<uint64_t, std::unique_ptr<Listener>> services_;
  std::vector<Closed> closed_;  // the oldest first
};

}  // namespace weft::port::shm
