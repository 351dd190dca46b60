// SPDX-License-Identifier: BSD-3-Clause
// Virtio rings between two processes: net_vhost at one end, virtio_user at the other.
#pragma once

#include "providers/port/dpdk/options.hpp"

namespace weft::port::dpdk {

bool is_vhost(const Options& options);

// Both sides may be opened with the same string, as of a memif: "net_vhost" with dpdk.iface=SOCKET.
// The first becomes the vhost, the second the virtio_user, with the fastest rings (packed, in
// order, one buffer per frame) unless the device string says otherwise; keys of only one of the two
// drivers fail at the other. Removes a stale socket file. With dpdk.client=1 it is a vhost that
// connects to the socket of another program.
void complete_vhost(Options& options);

// Lock held from the choice of vhost or virtio_user until the vhost listens: DPDK binds only when a
// device is configured, and a second vhost would remove the first one's socket when it fails. A
// file lock on the socket's folder, released with the process; other drivers take none.
class VhostSetupLock {
 public:
  explicit VhostSetupLock(const transport::PortOptions& options);
  ~VhostSetupLock();
  VhostSetupLock(const VhostSetupLock&) = delete;
  VhostSetupLock& operator=(const VhostSetupLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace weft::port::dpdk
