// SPDX-License-Identifier: BSD-3-Clause
// See srd_context.hpp.
#include "providers/srd/srd_context.hpp"

namespace weft::srd {

std::optional<Gid> SrdContext::peer_address(uint32_t index) const {
  if (driver_.forked()) return std::nullopt;
  driver::Holder hold(driver_.lock());
  const engine::srd::Peer* const peer = machine_.peer(index);
  if (peer == nullptr) return std::nullopt;
  return peer->address;
}

std::vector<PathReport> SrdContext::paths(const Gid& address, QpNum number) const {
  if (driver_.forked()) return {};
  driver::Holder hold(driver_.lock());
  return machine_.paths(address, number);
}

}  // namespace weft::srd
