// SPDX-License-Identifier: BSD-3-Clause
// The udp port: RoCEv2 frames through ordinary UDP sockets, without any privilege. `where` is "lo"
// (an own address in 127/8), an interface, or a local address literal; options: options.hpp.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/link_watch.hpp"
#include "lib/transport/port.hpp"
#include "lib/transport/suspended_wait.hpp"
#include "providers/port/udp/endpoint.hpp"
#include "providers/port/udp/group.hpp"
#include "providers/port/udp/host_question.hpp"
#include "providers/port/udp/receiver.hpp"
#include "providers/port/udp/sender.hpp"
#include "providers/port/udp/sender_check.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port {

class UdpPort final : public transport::Port, public transport::SuspendedWait {
 public:
  UdpPort(udp::Endpoint endpoint, const udp::Options& options, uint32_t segments,
          std::unique_ptr<udp::SenderCheck> senders);
  ~UdpPort() override;
  // Frames with telemetry come to a socket of their own.
  void add_telemetry(const udp::LocalAddress& local, udp::ReceiveSocket socket, uint32_t batch);

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return local_.gid; }
  QpnRange qpn_range() const noexcept override;
  uint16_t source_port(uint16_t wanted, uint32_t) noexcept override;
  Result<void> join(const Gid& group) override;
  void leave(const Gid& group) noexcept override;
  void open_general_services() override;
  Result<void> claim_service(uint64_t service) override;
  void release_service(uint64_t service) override;
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void finish_wait() noexcept override;
  void report_lost_peers(transport::LostPeers& lost) override { lost_ = &lost; }
  void ask(const transport::Path& path, std::span<const std::byte> datagram) noexcept override;
  void suspend_wait() noexcept override { (void)watch_arrivals(false); }
  bool resume_wait() noexcept override;
  int async_event_fd() const noexcept override { return watch_.fd(); }
  std::optional<EventType> next_event() noexcept override { return watch_.next(); }
  void append_counters(std::vector<Counter>& counters) const override;

  bool usable() const noexcept {
    return receiver_.usable() && (telemetry_ == nullptr || telemetry_->receiver.usable());
  }

 private:
  // One more socket that frames come to.
  struct Side {
    Gid address;  // where to
    udp::ReceiveSocket socket;
    udp::Receiver receiver;
  };
  std::unique_ptr<Side> make_side(const udp::LocalAddress& local, udp::ReceiveSocket socket,
                                  uint32_t batch);
  bool watch_arrivals(bool wanted) noexcept;

  udp::LocalAddress local_;
  const udp::Options options_;
  udp::ReceiveSocket socket_;
  udp::Descriptor arrivals_;                   // epoll set of `socket_`, readable when that is
  bool watched_ = false;                       // `socket_` is in the set
  bool asleep_ = false;                        // between prepare_wait() and finish_wait()
  uint32_t polls_ = 0;                         // calls of receive() since
  std::unique_ptr<udp::AddressGroup> group_;   // null: the address is ours alone
  std::unique_ptr<udp::SenderCheck> senders_;  // null: every datagram is accepted
  transport::Capabilities capabilities_;
  udp::Receiver receiver_;
  std::unique_ptr<Side> telemetry_;            // null: none
  std::vector<std::unique_ptr<Side>> groups_;  // that were joined
  udp::Sender sender_;
  udp::HostQuestion question_;
  transport::LostPeers* lost_ = nullptr;
  base::LinkWatch watch_;
  size_t lent_ = 0;
};

// Errors: invalid_argument (an option), not_found (no such interface or address), address_in_use,
// no_memory (slots, buffers), not_supported (the kernel cannot check senders), io_error.
Result<std::unique_ptr<transport::Port>> open_udp_port(const transport::PortOptions& options);

}  // namespace weft::port
