// SPDX-License-Identifier: BSD-3-Clause
// The `auto` port: one device, one address, two ways. Queue pairs of processes of the same user on
// this host are reached through shared memory (port shm), all others by UDP (port udp).
// "auto:WHERE" is "udp:WHERE", and takes the keys of that port. README.md describes the design.
#pragma once

#include <array>
#include <memory>

#include "lib/transport/suspended_wait.hpp"
#include "providers/port/middleware/port_bundle.hpp"
#include "providers/port/shm/shm_port.hpp"

namespace weft::port {

class AutoPort final : public middleware::PortBundle, public transport::SuspendedWait {
 public:
  AutoPort(std::unique_ptr<transport::Port> network, std::unique_ptr<ShmPort> memory);

  const transport::Capabilities& capabilities() const noexcept override {
    return network().capabilities();
  }
  Gid address() const noexcept override { return network().address(); }
  QpnRange qpn_range() const noexcept override { return network().qpn_range(); }
  uint16_t source_port(uint16_t wanted, uint32_t rail) noexcept override {
    return network().source_port(wanted, rail);
  }
  Result<void> join(const Gid& group) override { return network().join(group); }
  void leave(const Gid& group) noexcept override { network().leave(group); }
  void open_general_services() override { network().open_general_services(); }
  Result<void> claim_service(uint64_t service) override { return network().claim_service(service); }
  void release_service(uint64_t service) override { network().release_service(service); }
  bool reaches_in_memory(const Gid& destination, QpNum number) noexcept override {
    return memory_->reaches(destination, number);
  }
  void forget(QpNum number) noexcept override { network().forget(number); }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void finish_wait() noexcept override;
  void suspend_wait() noexcept override;
  bool resume_wait() noexcept override;
  int async_event_fd() const noexcept override { return network().async_event_fd(); }
  std::optional<EventType> next_event() noexcept override { return network().next_event(); }

 private:
  static constexpr size_t kMemory = 0, kNetwork = 1;
  // A poll of the network is a system call, and one of memory a load. While frames come in memory,
  // the network is asked in one of kNetworkEvery calls.
  static constexpr uint32_t kQuietAfter = 256;  // calls without a frame in memory
  static constexpr uint32_t kNetworkEvery = 32;

  transport::Port& network() noexcept { return port(kNetwork); }
  const transport::Port& network() const noexcept { return port(kNetwork); }
  size_t port_of(const transport::TxFrame& frame) const noexcept override {
    return frame.path->in_memory ? kMemory : kNetwork;
  }
  bool polls(size_t port) noexcept override;

  ShmPort* const memory_;
  std::array<transport::SuspendedWait*, 2> waits_;
  uint32_t quiet_ = kQuietAfter;  // calls of receive() since the last frame in memory
  uint32_t skipped_ = 0;          // in which the network was not asked
};

// Errors: those of the port udp. Where memory cannot be shared, the port is udp alone; the log says
// why.
Result<std::unique_ptr<transport::Port>> open_auto_port(const transport::PortOptions& options);

}  // namespace weft::port
