// SPDX-License-Identifier: BSD-3-Clause
// A port that seals every packet that it sends and opens every packet that it receives, so that
// only who has the secret can read, change, repeat or invent one. Below it is the network, with
// whatever captures and faults the device string names; above it an engine, to which such a port
// never damages anything: no ICRC.
//
// Packets that cross in memory (Path::in_memory) pass as they are: the kernel guards them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "providers/port/middleware/wrapping_port.hpp"
#include "providers/port/secure/incoming.hpp"
#include "providers/port/secure/outgoing.hpp"

namespace weft::secure {

// The fastest on this processor.
crypto::Cipher preferred_cipher() noexcept;

struct SecurePortOptions {
  const crypto::Library* library = nullptr;
  crypto::Key secret{};                                 // of all peers, and for nothing else
  crypto::Cipher cipher = crypto::Cipher::aes_128_gcm;  // of what is received
  Layout layout = kSrdLayout;
  uint16_t udp_port = wire::kSrdUdpPort;
  std::function<Instant()> clock;  // for requests that are not answered
  base::SecureRandom random;
  uint64_t renew_after = Outgoing::kRenewAfter;  // packets under one key
};

class SecurePort final : public middleware::WrappingPort {
 public:
  SecurePort(std::unique_ptr<transport::Port> inner, SecurePortOptions options);

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  bool reaches_in_memory(const Gid& destination, QpNum number) noexcept override {
    return inner_->reaches_in_memory(destination, number);
  }
  // The network could forge the answer.
  void ask(const transport::Path&, std::span<const std::byte>) noexcept override {}
  Result<void> join(const Gid& group) override;
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  // Takes all that it has sealed, and keeps what the port below has no room for.
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  enum Count : uint8_t {
    tx_packets,
    tx_held,      // before there was a key
    tx_dropped,   // so many that were not held
    tx_requests,  // for a key
    tx_unknown,   // said to peers whose key is not known
    rx_packets,
    rx_clear,      // not protected
    rx_malformed,  // too short, or of no opcode
    rx_forged,     // not sealed under the key that it names, or changed on the way
    rx_replayed,
    rx_unknown_association,
    rx_bad_exchange,  // about keys, of one without our secret
    rx_trimmed,
    keys_granted,
    keys_received,
    kCounts
  };
  static constexpr size_t kMaxBurst = 64;     // frames received at once
  static constexpr size_t kMostHeld = 16;     // for one receiver
  static constexpr size_t kMostAnswers = 16;  // in one call of receive()

  void count(Count c) noexcept { ++counts_[c]; }
  // True: `frame` is for the engine.
  bool open(transport::Frame& frame) noexcept;
  void receive_keys(const transport::Frame& frame) noexcept;
  void answer_request(const transport::Frame& frame, const Parties& parties);
  void take_grant(const transport::Frame& frame, const Parties& parties);
  void take_unknown(const transport::Frame& frame, const Parties& parties);
  void report_unknown(const transport::Frame& frame) noexcept;
  void send_held(Receiver& receiver) noexcept;

  // Seals, or holds, one frame. False: no room for it now.
  bool seal(const transport::TxFrame& frame) noexcept;
  void hold(Receiver& receiver, const transport::TxFrame& frame) noexcept;
  void request_key(Receiver& receiver, const transport::Path& path) noexcept;
  // A packet about keys, dropped if the port below is full.
  void send_now(const transport::Path& path, std::span<const std::byte> bytes) noexcept;
  // To who sent `frame`.
  transport::Path path_back(const transport::Frame& frame) const noexcept;
  // Sends what is sealed; false: some is left.
  bool flush() noexcept;
  const transport::Path& keep(const transport::Path& path) noexcept;

  transport::Capabilities capabilities_;
  const crypto::Library& library_;
  const Layout layout_;
  const std::function<Instant()> clock_;
  base::SecureRandom random_;
  const KeyExchange exchange_;
  Incoming incoming_;
  Outgoing outgoing_;
  const uint16_t udp_port_;
  std::vector<uint16_t> own_ports_;  // UDP source ports, one for each of our addresses
  const uint8_t prefix_;             // of our queue pair numbers
  const uint32_t largest_;           // bytes of a frame, protected
  std::array<uint64_t, kCounts> counts_{};

  // What was sealed and is not sent yet, from sent_ on.
  std::vector<std::byte> sealed_;
  size_t sealed_used_ = 0;
  std::vector<transport::TxFrame> out_;
  size_t sent_ = 0;
  std::vector<transport::Path> paths_;
  const transport::Path* last_path_ = nullptr;      // the engine's
  const transport::TxFrame* last_frame_ = nullptr;  // so too: sealed last

  std::vector<transport::Frame> lent_;  // by the inner port
  std::vector<std::byte> opened_;
  size_t opened_used_ = 0;
  size_t answers_ = 0;
};

}  // namespace weft::secure
