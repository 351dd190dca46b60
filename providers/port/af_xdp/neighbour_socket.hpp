// SPDX-License-Identifier: BSD-3-Clause
// ARP and Neighbour Discovery beside an AF_XDP socket: the XDP program passes them to the kernel,
// and a filtered raw socket receives copies and sends our messages.
#pragma once

#include <utility>

#include "providers/port/ethernet/neighbours.hpp"
#include "weft/result.hpp"

namespace weft::port::af_xdp {

class NeighbourSocket {
 public:
  NeighbourSocket() = default;
  NeighbourSocket(NeighbourSocket&& other) noexcept { std::swap(fd_, other.fd_); }
  NeighbourSocket& operator=(NeighbourSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~NeighbourSocket();

  // `interface`: its index. Errors: permission_denied, io_error.
  static Result<NeighbourSocket> open(int interface);

  int fd() const noexcept { return fd_; }
  // Passes received messages (a bounded number) to `neighbours` and sends its queued ones. Returns
  // how many were received; adds those sent to `sent`.
  size_t exchange(ethernet::Neighbours& neighbours, uint64_t& sent) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace weft::port::af_xdp
