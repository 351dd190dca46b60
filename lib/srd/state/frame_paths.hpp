// SPDX-License-Identifier: BSD-3-Clause
// The addresses of this endpoint, the UDP source ports of each, and the transport::Path objects of
// the frames of one burst.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/port.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::srd {

class FramePaths {
 public:
  // `wanted` different source ports for each address, or as many as the port has for all of them;
  // bursts of up to `burst` frames.
  void start(Port& port, base::SecureRandom& random, uint32_t wanted, size_t burst);

  // The first is the primary, by which peers know this endpoint.
  const std::vector<Gid>& addresses() const noexcept { return addresses_; }
  uint32_t address_count() const noexcept { return static_cast<uint32_t>(addresses_.size()); }
  bool multi_homed() const noexcept { return addresses_.size() > 1; }
  // Which of our addresses; nothing: none.
  std::optional<uint8_t> local_index(const Gid& address) const noexcept;
  // To one address of a peer, from all of ours.
  uint32_t count() const noexcept { return static_cast<uint32_t>(source_ports_.size()); }
  uint32_t ports_per_address() const noexcept { return ports_per_address_; }
  uint16_t source_port(uint8_t local, uint32_t path) const noexcept {
    WEFT_DCHECK(local < addresses_.size());
    return source_ports_[local * ports_per_address_ +
                         (path < ports_per_address_ ? path : path % ports_per_address_)];
  }

  size_t burst() const noexcept { return paths_.size(); }
  void begin_burst() noexcept { used_ = 0; }
  bool has_room() const noexcept { return used_ < paths_.size(); }
  // Valid until begin_burst(). Consecutive frames of the same path share one object, so that they
  // can form a train. Needs has_room().
  const Path& of(const Gid& to, uint8_t local, uint16_t source_port, uint8_t traffic_class,
                 bool in_memory) noexcept {
    if (used_ != 0) {
      const Path& last = paths_[used_ - 1];
      if (last.source_port == source_port && last.destination == to &&
          last.traffic_class == traffic_class && last.source == addresses_[local] &&
          last.in_memory == in_memory)
        return last;
    }
    WEFT_DCHECK(has_room());
    Path& path = paths_[used_++];
    path.source = addresses_[local];
    path.destination = to;
    path.source_port = source_port;
    path.destination_port = wire::kSrdUdpPort;
    path.traffic_class = traffic_class;
    path.in_memory = in_memory;
    return path;
  }

 private:
  std::vector<Gid> addresses_;
  uint32_t ports_per_address_ = 1;
  std::vector<uint16_t> source_ports_;  // of the first address, then of the next
  std::vector<Path> paths_;
  size_t used_ = 0;
};

}  // namespace weft::srd
