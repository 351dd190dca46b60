// SPDX-License-Identifier: BSD-3-Clause
// The af_packet port: RoCEv2 as raw frames on a network interface, with every header field set:
// roce+af_packet:eth0. Needs CAP_NET_RAW. The kernel keeps the interface and its addresses; a
// socket of this port holds UDP port 4791, so that the kernel does not answer "port unreachable".
#pragma once

#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

#include "lib/base/link_watch.hpp"
#include "lib/transport/port.hpp"
#include "providers/port/af_packet/ring.hpp"
#include "providers/port/ethernet/groups.hpp"
#include "providers/port/ethernet/interface.hpp"
#include "providers/port/ethernet/loop_back.hpp"
#include "providers/port/ethernet/neighbours.hpp"
#include "providers/port/ethernet/unresolved.hpp"

namespace weft::port {

class AfPacketPort final : public transport::Port {
 public:
  // `sender`: a raw socket that sends on the interface. `placeholder`: the socket that binds the
  // UDP port.
  AfPacketPort(const ethernet::Interface& interface, af_packet::Ring ring, int sender,
               int placeholder, uint16_t udp_port);
  ~AfPacketPort() override;

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
  static constexpr size_t kBurst = 64;

  struct Counters {
    uint64_t rx_frames = 0, tx_frames = 0;
    uint64_t rx_trains = 0;     // GSO super-packets received unsegmented
    uint64_t rx_foreign = 0;    // not for our address
    uint64_t rx_malformed = 0;  // invalid outer headers
    uint64_t rx_neighbour = 0, tx_neighbour = 0;
    uint64_t tx_errors = 0;  // refused by the kernel: too long, memory unmapped, link down
  };
  // The rest of the current packet: one frame, or GSO segments.
  struct Train {
    transport::Path path;
    const std::byte* bytes = nullptr;
    uint32_t left = 0;
    uint32_t segment = 0;
    uint16_t ip_id = 0;
  };

  bool change_membership(const Gid& group, bool join) const noexcept;
  bool next_train() noexcept;
  bool accept(const af_packet::Arrival& arrival) noexcept;
  void next_segment(transport::Frame& frame) noexcept;
  size_t send(std::span<const transport::TxFrame> frames, const wire::MacAddress& to) noexcept;
  bool send_resolved() noexcept;
  void update_time() noexcept;
  void send_neighbour_messages() noexcept;

  af_packet::Ring ring_;
  ethernet::Neighbours neighbours_;
  transport::Capabilities capabilities_;
  const uint16_t udp_port_;
  const int interface_;  // its index
  int sender_, placeholder_;
  ethernet::Groups groups_;
  base::LinkWatch watch_;
  Counters counters_;
  mutable uint64_t ring_drops_ = 0;
  Train train_;
  uint32_t polls_ = 0;
  size_t used_up_ = 0;  // ring slots of the lent frames, without the current one
  std::array<transport::Path, kBurst> paths_{};
  ethernet::LoopBack looped_;
  ethernet::Unresolved unresolved_;
  std::vector<mmsghdr> messages_;
  std::vector<iovec> pieces_;
  std::vector<std::array<std::byte, wire::kMaxOuterLength>> headers_;
};

// Errors: invalid_argument, not_found, permission_denied, address_in_use, io_error, no_memory.
Result<std::unique_ptr<transport::Port>> open_af_packet_port(const transport::PortOptions& options);

}  // namespace weft::port
