// SPDX-License-Identifier: BSD-3-Clause
// The `shm` port: processes of one host and one user exchange frames through rings in shared memory
// (ring.hpp); large payload can stay in the sender's memory and is pulled once. "shm:JOB" names the
// group of ports that can reach each other. README.md describes the design.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/gid_hash.hpp"
#include "lib/base/random.hpp"
#include "lib/transport/port.hpp"
#include "lib/transport/suspended_wait.hpp"
#include "providers/port/shm/link.hpp"
#include "providers/port/shm/names.hpp"
#include "providers/port/shm/options.hpp"

namespace weft::port {

class ShmPort final : public transport::Port, public transport::SuspendedWait {
 public:
  static Result<std::unique_ptr<ShmPort>> open(shm::Options options);
  ~ShmPort() override;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return names_.gid(); }
  QpnRange qpn_range() const noexcept override { return names_.qpn_range(); }
  Result<void> claim_service(uint64_t service) override { return names_.claim_service(service); }
  void release_service(uint64_t service) override;
  // Of a port beside another: whether a port of our user at that address listens beside its
  // network port, and the link to it is up. Connects if needed.
  bool reaches(const Gid& address, QpNum number) noexcept;
  // Frames carry no UDP port: both sides take the same one, so that an ICRC agrees (fault, pcap).
  uint16_t source_port(uint16_t, uint32_t) noexcept override {
    return transport::Path{}.source_port;
  }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  void report_lost_peers(transport::LostPeers& lost) override { lost_ = &lost; }
  std::optional<uint64_t> unread(const Gid& destination, QpNum number,
                                 bool in_memory) noexcept override;
  void detach(void* base, size_t size) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void finish_wait() noexcept override;
  void suspend_wait() noexcept override;
  bool resume_wait() noexcept override;
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  static constexpr size_t kBurst = 64;
  static constexpr uint32_t kLinksPerPoll = 16;
  //= threat:A17
  static constexpr size_t kMaxHandshakes = 64;  // unauthenticated connections
  // Calls of receive() after which connections are looked at; beside a network port, each of whose
  // polls is a system call, fewer.
  static constexpr uint32_t kPollConnectionsEvery = 1024, kPollConnectionsBeside = 64;

  struct Counts {
    uint64_t tx_by_reference = 0;
    uint64_t tx_no_peer = 0;     // dropped: no peer has this address
    uint64_t tx_stalled = 0;     // dropped: the peer does not consume
    uint64_t tx_unreadable = 0;  // dropped: payload memory not mapped
    uint64_t tx_too_long = 0;
    uint64_t tx_doorbells = 0;
    uint64_t rx_revoked = 0;  // references revoked by the sender
    uint64_t rx_corrupt = 0;  // links cut because of invalid ring contents
    uint64_t rx_wrong_user = 0;
    uint64_t rx_bad_hello = 0;
    uint64_t rx_impostors = 0;  // not the process that listens at the claimed address
    uint64_t pulls_denied = 0;
    uint64_t peers_lost = 0;   // links that went down
    uint64_t detach_cuts = 0;  // peers cut because they held on to memory being detached
  };

  explicit ShmPort(shm::Options options)
      : options_(std::move(options)), names_(options_.job, options_.shared, events_) {}
  Result<void> start();

  // receive side
  size_t receive_from(shm::InLink& link, std::span<transport::Frame> frames, size_t index) noexcept;

  // transmit side
  shm::OutLink* route(const transport::TxFrame& frame) noexcept;
  shm::OutLink* route_to(const Gid& name, const Gid& address, transport::Slot slot = 0) noexcept;
  shm::OutLink* route_to_listener(uint64_t service) noexcept;
  bool send_one(shm::OutLink& link, const transport::TxFrame& frame) noexcept;
  bool send_down(shm::OutLink& link, const transport::TxFrame& frame) noexcept;
  void take_down(shm::OutLink& link, int64_t retry_after_ns) noexcept;

  // connection set-up (shm_connect.cpp) and events of connections (shm_attend.cpp)
  shm::Connect connect(shm::OutLink& link) noexcept;
  shm::Connect connect_to_self(shm::OutLink& link);
  shm::Connect connect_to_peer(shm::OutLink& link);
  void poll_connections() noexcept;
  void accept_peers(const shm::Listener& listener) noexcept;
  void advance_handshake(shm::Handshake& handshake) noexcept;
  void admit(shm::Handshake& handshake);
  void on_end(shm::OutLink& link, shm::OutLink::End end) noexcept;
  void report_ended() noexcept;
  void remove_ended() noexcept;
  void drain(shm::InLink& link) noexcept;
  bool prepare_sleep(bool want_transmit) noexcept;
  void cancel_sleep() noexcept;

  // Read by every receive().
  uint32_t calls_left_ = 0;  // until connections are looked at
  uint32_t cursor_ = 0;
  std::vector<shm::InLink*> polled_;
  std::array<shm::InLink*, kLinksPerPoll> touched_{};
  size_t touched_count_ = 0;
  shm::Arena arena_;
  shm::OutLink* last_out_ = nullptr;
  bool cleanup_due_ = false;
  bool ends_ = false;  // links have an end that is not reported
  bool barrier_ = false;
  bool asleep_ = false;         // between prepare_wait() and finish_wait()
  bool awake_briefly_ = false;  // a sleep ended since the last poll_connections()
  alignas(shm::kCacheLine) std::array<shm::SlotCopy, kBurst> heads_;

  transport::LostPeers* lost_ = nullptr;
  shm::Options options_;
  transport::Capabilities capabilities_;
  Counts counts_;
  base::SecureRandom random_;
  shm::Nonce nonce_{};
  shm::Mapping arena_memory_;
  shm::EpollSet events_;
  shm::Names names_;
  shm::Descriptor spare_;  // closed to accept and refuse a connection when descriptors run out
  std::vector<std::unique_ptr<shm::Handshake>> handshakes_;
  std::vector<std::unique_ptr<shm::InLink>> in_;
  std::unordered_map<Gid, std::unique_ptr<shm::OutLink>, base::GidHash> out_;
};

// A port beside the network port at `address`, whose slot is `slot` (0: it shares the address with
// none) and whose frames go to `udp_port`. It takes frames on paths with Path::in_memory, and gives
// received ones such paths. Errors: address_in_use, no_memory, io_error.
Result<std::unique_ptr<ShmPort>> open_shm_port_beside(const Gid& address, transport::Slot slot,
                                                      uint16_t udp_port);

// Errors: invalid_argument (lists the valid keys), permission_denied (by_reference=1 and the kernel
// forbids reading other processes), io_error.
Result<std::unique_ptr<transport::Port>> open_shm_port(const transport::PortOptions& options);

}  // namespace weft::port
