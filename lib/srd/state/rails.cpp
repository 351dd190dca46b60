// SPDX-License-Identifier: BSD-3-Clause
// See rails.hpp.
#include "lib/srd/state/rails.hpp"

#include <algorithm>

namespace weft::srd {

namespace {
constexpr Duration kRequestSpacing = Duration::from_ms(1);
}  // namespace

bool Rails::has_addresses(std::span<const Gid> list) const {
  return std::equal(list.begin(), list.end(), further_.begin(), further_.begin() + further_count_);
}

void Rails::set_addresses(std::span<const Gid> list) {
  further_count_ = static_cast<uint8_t>(std::min(list.size(), further_.size()));
  std::copy_n(list.begin(), further_count_, further_.begin());
}

bool Rails::uses_further_address() const {
  return std::any_of(routes_.begin(), routes_.begin() + joined_,
                     [](const Candidate& c) { return c.route.remote != 0; });
}

bool Rails::join(Route route) {
  WEFT_DCHECK(joined_ >= 1 && joined_ <= count_);
  for (Candidate& c : candidates()) {
    if (c.route != route) continue;
    std::swap(c, routes_[joined_++]);
    return true;
  }
  return false;
}

void Rails::restart(uint32_t locals, Instant now) {
  joined_ = 1;
  plan(locals, now);
}

void Rails::plan(uint32_t locals, Instant now) {
  count_ = joined_;
  const uint32_t remotes = further_count_ + 1u;
  Instant request_at = now;
  for (uint32_t shift = 0; shift < remotes; ++shift, request_at = request_at + kRequestSpacing) {
    for (uint32_t l = 0; l < locals && count_ < kMostRoutes; ++l) {
      const Route route{static_cast<uint8_t>(l), static_cast<uint8_t>((l + shift) % remotes)};
      const auto end = routes_.begin() + joined_;
      if (std::any_of(routes_.begin(), end, [&](const Candidate& c) { return c.route == route; }))
        continue;
      routes_[count_++] = {route, 0, request_at};
    }
  }
  WEFT_DCHECK(routes_[0].route == Route{} && count_ >= joined_);
}

}  // namespace weft::srd
