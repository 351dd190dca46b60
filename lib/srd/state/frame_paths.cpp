// SPDX-License-Identifier: BSD-3-Clause
// See frame_paths.hpp.
#include "lib/srd/state/frame_paths.hpp"

#include <algorithm>

#include "lib/srd/state/path_set.hpp"

namespace weft::srd {

void FramePaths::start(Port& port, base::SecureRandom& random, uint32_t wanted, size_t burst) {
  WEFT_CHECK(addresses_.empty());
  addresses_.push_back(port.address());
  const std::span<const Gid> further = port.further_addresses();
  addresses_.insert(addresses_.end(), further.begin(), further.end());
  WEFT_CHECK(further.size() <= wire::kSrdMostRails);
  ports_per_address_ = std::clamp(wanted, 1u, kMostPaths);
  std::vector<std::vector<uint16_t>> found(addresses_.size());
  for (uint32_t rail = 0; rail < found.size(); ++rail) {
    std::vector<uint16_t>& ports = found[rail];
    const uint32_t enough = ports_per_address_;
    for (uint32_t i = 0; i < 16 * enough && ports.size() < enough; ++i) {
      const auto candidate = static_cast<uint16_t>(0xC000 + (random.next32() & 0x3FFF));
      const uint16_t got = port.source_port(candidate, rail);
      if (std::find(ports.begin(), ports.end(), got) == ports.end()) ports.push_back(got);
    }
    ports_per_address_ = std::min(ports_per_address_, static_cast<uint32_t>(ports.size()));
  }
  for (const std::vector<uint16_t>& ports : found)
    source_ports_.insert(source_ports_.end(), ports.begin(), ports.begin() + ports_per_address_);
  WEFT_CHECK(source_ports_.size() == addresses_.size() * ports_per_address_);
  paths_.resize(burst);
}

std::optional<uint8_t> FramePaths::local_index(const Gid& address) const noexcept {
  const auto at = std::find(addresses_.begin(), addresses_.end(), address);
  if (at == addresses_.end()) return std::nullopt;
  return static_cast<uint8_t>(at - addresses_.begin());
}

}  // namespace weft::srd
