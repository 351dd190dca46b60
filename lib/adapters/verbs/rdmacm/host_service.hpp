// SPDX-License-Identifier: BSD-3-Clause
// Listeners on shared memory. Each process has an address of its own there, which no program knows
// beforehand: a destination that is an address of this host means the process that listens on the
// port. Listeners are found by the names of abstract sockets, which end with the process.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/adapters/verbs/rdmacm/contexts.hpp"
#include "weft/result.hpp"

namespace weft::rdmacm {

// A port of a device on which this process listens; the destructor ends that.
class HostService {
 public:
  // Error: address_in_use. Devices of other ports than shared memory have no host services: empty.
  static Result<HostService> listen(const Context& context, rdma_port_space space, uint16_t port);
  HostService() = default;
  HostService(HostService&& other) noexcept
      : claim_(std::exchange(other.claim_, -1)), address_(std::exchange(other.address_, -1)) {}
  HostService& operator=(HostService&& other) noexcept {
    std::swap(claim_, other.claim_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~HostService();

 private:
  int claim_ = -1;    // a socket whose name is the port's
  int address_ = -1;  // one whose name tells the address, too
};

// The address of the process that listens on the port of a device of shared memory.
std::optional<Gid> find_host_service(const Context& context, rdma_port_space space, uint16_t port);

}  // namespace weft::rdmacm
