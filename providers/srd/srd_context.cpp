// SPDX-License-Identifier: BSD-3-Clause
// See srd_context.hpp.
#include "providers/srd/srd_context.hpp"

namespace weft::srd_provider {

std::optional<Gid> SrdContext::peer_address(uint32_t number) const {
  if (driver_.forked()) return std::nullopt;
  for (const auto& driver : drivers_) {
    const driver::Holder hold(driver->lock());
    auto& machine = static_cast<srd::Engine&>(driver->machine());
    if (number - machine.first_peer() >= 1u << 16) continue;
    const srd::Peer* const peer = machine.peer(number - machine.first_peer());
    if (peer != nullptr) return peer->address;
  }
  return std::nullopt;
}

std::vector<PathReport> SrdContext::paths(const Gid& address, QpNum number) const {
  std::vector<PathReport> all;
  if (driver_.forked()) return all;
  for (const auto& driver : drivers_) {
    const driver::Holder hold(driver->lock());
    auto& machine = static_cast<srd::Engine&>(driver->machine());
    const std::vector<PathReport> some = machine.path_reports(address, number);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace weft::srd_provider
