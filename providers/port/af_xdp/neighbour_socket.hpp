// SPDX-License-Identifier: BSD-3-Clause
// ARP and Neighbour Discovery beside an AF_XDP socket: the XDP program leaves them to the kernel,
// and a raw socket that sees nothing else listens in on them and speaks for us.
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
  // Lets `neighbours` hear what has come, at most a few messages, and says what they have to say.
  // How many were heard; `said` grows.
  size_t exchange(ethernet::Neighbours& neighbours, uint64_t& said) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace weft::port::af_xdp
