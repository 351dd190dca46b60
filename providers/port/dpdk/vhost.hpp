// SPDX-License-Identifier: BSD-3-Clause
// A wire of virtio rings between two processes: net_vhost at one end, virtio_user at the other.
#pragma once

#include "providers/port/dpdk/options.hpp"

namespace weft::port::dpdk {

bool is_vhost(const Options& options);

// Both sides may be opened with the same string, as of a memif: "net_vhost" with dpdk.iface=SOCKET.
// Who comes first is the vhost, who finds one the virtio_user, with the rings that are fastest
// (packed, in order, a frame in one buffer) unless the user says otherwise: keys that only one of
// the two drivers knows fail at the other. A socket that a process has left behind is removed. With
// dpdk.client=1 it is the vhost of somebody else's socket.
void complete_vhost(Options& options);

// Held while the two ends find out who listens and until one does: DPDK binds only when a device is
// configured, and a vhost that comes too late removes the other's socket when it gives up. A lock
// on the socket's folder, which goes with its process; other devices have none.
class VhostTurn {
 public:
  explicit VhostTurn(const transport::PortOptions& options);
  ~VhostTurn();
  VhostTurn(const VhostTurn&) = delete;
  VhostTurn& operator=(const VhostTurn&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace weft::port::dpdk
