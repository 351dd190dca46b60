// SPDX-License-Identifier: BSD-3-Clause
// The dpdk port: RoCEv2 frames through DPDK's drivers, physical and virtual, past the kernel.
// `where` is a PCI address or a virtual driver: roce+dpdk:net_memif,dpdk.socket=/run/m.sock. The
// port owns the whole interface: it answers ARP and Neighbour Discovery itself. The ports of a
// device with several engines have an RX and a TX queue each, and hand over frames of other
// engines.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/link_watch.hpp"
#include "lib/transport/port.hpp"
#include "providers/port/dpdk/device.hpp"
#include "providers/port/dpdk/open.hpp"
#include "providers/port/ethernet/groups.hpp"
#include "providers/port/ethernet/neighbours.hpp"
#include "providers/port/ethernet/unresolved.hpp"

struct rte_mbuf;

namespace weft::port {

class DpdkPort final : public transport::Port {
 public:
  DpdkPort(std::shared_ptr<dpdk::Device> device, uint16_t queue, const dpdk::Options& options,
           int timer);
  ~DpdkPort() override;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return neighbours_.self().address; }
  QpnRange qpn_range() const noexcept override;
  const std::shared_ptr<dpdk::Device>& device() const noexcept { return device_; }
  // The device is in all-multicast mode already.
  Result<void> join(const Gid& group) override {
    groups_.add(group);
    return {};
  }
  void leave(const Gid& group) noexcept override { groups_.remove(group); }
  void forget(QpNum number) noexcept override {
    if (device_->steering() != nullptr) device_->steering()->forget(number);
  }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void finish_wait() noexcept override;
  int async_event_fd() const noexcept override { return watch_ ? watch_->fd() : -1; }
  std::optional<EventType> next_event() noexcept override {
    return watch_ ? watch_->next() : std::nullopt;
  }
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  static constexpr uint16_t kBurst = 64;
  static constexpr uint32_t kLongestFrame = 4352;       // with all headers
  static constexpr uint32_t kPollsPerClockRead = 1024;  // between reads of the clock

  struct Counters {
    uint64_t rx_frames = 0, tx_frames = 0;
    uint64_t rx_foreign = 0;    // not IP, not for us, not a RoCE port
    uint64_t rx_malformed = 0;  // invalid outer headers
    uint64_t rx_joined = 0;     // multi-segment mbufs, joined
    uint64_t rx_neighbour = 0, tx_neighbour = 0;
    uint64_t tx_link_down = 0;
    uint64_t tx_unreadable = 0;  // payload memory unmapped
    uint64_t tx_too_long = 0;    // longer than an mbuf
    uint64_t tx_no_buffer = 0;   // calls with an empty pool
    uint64_t handed_over = 0;    // frames, or copies of them, to other engines
    uint64_t handed_drops = 0;   // dropped: the engine's ring was full
  };

  bool accept(rte_mbuf*& buffer, bool redirected, transport::Frame& frame,
              transport::Path& path) noexcept;
  std::byte* join(rte_mbuf* buffer, const transport::Path& path) noexcept;
  bool claim_or_hand_over(rte_mbuf*& buffer, const transport::Frame& frame) noexcept;
  void hand_over(uint16_t engine, rte_mbuf* buffer) noexcept;
  void copy_to_engines(const rte_mbuf* buffer) noexcept;
  bool fill(rte_mbuf* buffer, const transport::TxFrame& frame, const wire::MacAddress& to) noexcept;
  size_t prepare(std::span<const transport::TxFrame> frames, size_t& used) noexcept;
  size_t send(size_t count) noexcept;
  void loop_back(rte_mbuf*& buffer) noexcept;
  void loop_copies(size_t count, size_t sent) noexcept;
  bool send_resolved() noexcept;
  void update_time() noexcept;
  void send_neighbour_messages() noexcept;

  std::shared_ptr<dpdk::Device> device_;
  const uint16_t queue_;    // ours of the device's, and our engine
  const uint32_t longest_;  // frame that fits an mbuf
  transport::Capabilities capabilities_;
  ethernet::Neighbours neighbours_;
  ethernet::Groups groups_;
  ethernet::Unresolved unresolved_;
  const uint16_t udp_port_;        // of the protocol
  const uint16_t telemetry_port_;  // of frames with telemetry; 0: none
  int timer_;                      // wakes a sleeper: most virtual devices have no descriptor
  int64_t slept_ns_ = 0;           // since the last received frame
  std::optional<base::LinkWatch> watch_;  // of the kernel's interface below, where there is one
  Counters counters_;
  std::vector<rte_mbuf*> looped_;  // frames to our own address, for the next receive()
  std::array<rte_mbuf*, kBurst> received_{};
  std::array<transport::Path, kBurst> paths_{};
  std::unique_ptr<std::byte[]> joined_;  // of frames in several buffers, for each path a place
  std::array<rte_mbuf*, kBurst> outgoing_{};
  std::array<rte_mbuf*, kBurst> copies_{};   // of frames to joined groups
  std::array<uint16_t, kBurst> frame_of_{};  // which frame outgoing_[i] is, from 1
  size_t lent_ = 0;
  uint32_t polls_ = 0;
};

}  // namespace weft::port
