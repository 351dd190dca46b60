// SPDX-License-Identifier: BSD-3-Clause
// Listeners on shared memory. Each process has an address of its own there, which no program knows
// beforehand: a destination that is an address of this host means the process that listens on the
// port. Listeners are found by the names of abstract sockets, which end with the process. The name
// of one that has closed tells so for a moment: the program may be between two listens, and its
// device drops a request until the next one (lib/roce/cm/closed_services.hpp).
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lib/adapters/verbs/rdmacm/contexts.hpp"
#include "weft/result.hpp"

namespace weft::rdmacm {

// A port of a device on which this process listens; the destructor ends that.
class HostService {
 public:
  // Error: address_in_use. Devices of other ports than shared memory have no host services: empty.
  static Result<HostService> listen(const Context& context, rdma_port_space space, uint16_t port);
  HostService() = default;
  HostService(HostService&& other) noexcept { swap(other); }
  HostService& operator=(HostService&& other) noexcept { return swap(other), *this; }
  ~HostService();

 private:
  void swap(HostService& other) noexcept;

  int claim_ = -1;    // a socket whose name is the port's
  int address_ = -1;  // one whose name tells the address, too
  std::string closed_name_, gid_;
};

// The address of the process that listens on the port of a device of shared memory, or did until a
// moment ago.
std::optional<Gid> find_host_service(const Context& context, rdma_port_space space, uint16_t port);

}  // namespace weft::rdmacm
