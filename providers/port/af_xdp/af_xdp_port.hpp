// SPDX-License-Identifier: BSD-3-Clause
// The af_xdp port: RoCEv2 frames between an interface and the umem of this process, bypassing the
// kernel's stack: roce+af_xdp:eth0. An XDP program redirects frames to our address and UDP port
// from the interface's queue; all others go to the kernel. Needs CAP_NET_RAW, CAP_NET_ADMIN and
// CAP_BPF.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "lib/base/link_watch.hpp"
#include "lib/transport/port.hpp"
#include "providers/port/af_xdp/neighbour_socket.hpp"
#include "providers/port/af_xdp/open.hpp"
#include "providers/port/af_xdp/redirect.hpp"
#include "providers/port/af_xdp/socket.hpp"
#include "providers/port/ethernet/groups.hpp"
#include "providers/port/ethernet/interface.hpp"
#include "providers/port/ethernet/loop_back.hpp"
#include "providers/port/ethernet/neighbours.hpp"
#include "providers/port/ethernet/unresolved.hpp"

namespace weft::port {

class AfXdpPort final : public transport::Port {
 public:
  struct Parts {
    ethernet::Interface interface;
    std::unique_ptr<af_xdp::Socket> socket;
    af_xdp::Redirect redirect;
    af_xdp::NeighbourSocket neighbours;
    int placeholder = -1;  // socket that binds the UDP port
    uint16_t udp_port = 0;
  };
  explicit AfXdpPort(Parts parts);
  ~AfXdpPort() override;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return neighbours_.self().address; }
  Result<void> join(const Gid& group) override;
  void leave(const Gid& group) noexcept override;
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void finish_wait() noexcept override;
  int async_event_fd() const noexcept override { return watch_.fd(); }
  std::optional<EventType> next_event() noexcept override { return watch_.next(); }
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  static constexpr size_t kBurst = af_xdp::Socket::kMostArrivals;

  struct Counters {
    uint64_t rx_frames = 0, tx_frames = 0;
    uint64_t rx_foreign = 0;    // to a group that is not joined
    uint64_t rx_malformed = 0;  // invalid outer headers
    uint64_t rx_neighbour = 0, tx_neighbour = 0;
    uint64_t tx_unreadable = 0;  // payload memory unmapped
    uint64_t tx_too_long = 0;    // more than a buffer holds
  };

  bool accept(const af_xdp::Socket::Arrival& arrival, transport::Frame& frame,
              transport::Path& path) noexcept;
  uint32_t fill(std::byte* begin, const transport::TxFrame& frame,
                const wire::MacAddress& to) noexcept;
  size_t on_idle_poll() noexcept;
  bool send_resolved() noexcept;
  const wire::MacAddress* find(const Gid& destination) noexcept;
  void poll_neighbours() noexcept;

  const ethernet::Interface interface_;
  // Destroyed before the socket that it redirects to.
  std::unique_ptr<af_xdp::Socket> socket_;
  af_xdp::Redirect redirect_;
  af_xdp::NeighbourSocket neighbour_socket_;
  ethernet::Neighbours neighbours_;
  transport::Capabilities capabilities_;
  const uint16_t udp_port_;
  const int placeholder_;
  ethernet::Groups groups_;
  ethernet::LoopBack looped_;
  ethernet::Unresolved unresolved_;
  base::LinkWatch watch_;
  Counters counters_;
  uint32_t idle_ = 0, busy_ = 0;  // polls
  wire::MacAddress group_mac_{};  // of the last group passed to find()
  size_t lent_ = 0;
  std::array<af_xdp::Socket::Arrival, kBurst> arrivals_{};
  std::array<transport::Path, kBurst> paths_{};
  std::array<uint32_t, kBurst> lengths_{};
};

}  // namespace weft::port
