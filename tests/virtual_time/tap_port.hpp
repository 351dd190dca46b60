// SPDX-License-Identifier: BSD-3-Clause
// A port for tests: gives every frame that is sent to a filter, which may copy or drop it.
// Drops here are exact, where the fault port's are random.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/transport/port.hpp"
#include "lib/wire/parse.hpp"

namespace weft::test {

// A frame as it left, headers parsed.
struct SentFrame {
  transport::Path path;
  uint16_t ip_id = 0;
  uint8_t ecn = 0;
  std::vector<std::byte> bytes;  // BTH to ICRC

  uint8_t opcode() const { return static_cast<uint8_t>(bytes[0]); }
  const wire::Bth& bth() const { return *reinterpret_cast<const wire::Bth*>(bytes.data()); }
  const wire::OpcodeInfo& info() const { return wire::opcode_info(opcode()); }
  // Where the AETH lies, if there is one.
  const wire::Aeth& aeth() const {
    return *reinterpret_cast<const wire::Aeth*>(bytes.data() + wire::kBthLength);
  }
  const wire::Reth& reth() const {
    return *reinterpret_cast<const wire::Reth*>(bytes.data() + wire::kBthLength);
  }
};

class TapPort final : public transport::Port {
 public:
  explicit TapPort(std::unique_ptr<transport::Port> inner) : inner_(std::move(inner)) {}

  // Called for each frame with its direction; true: the frame is dropped.
  std::function<bool(const transport::Path&)> cut;
  // Called for each frame, or only for each `every`-th; false drops it.
  std::function<bool(const SentFrame&)> filter;
  uint32_t every = 1;
  // Takes no frame, as a device whose queue is full (EAGAIN, ENOBUFS).
  bool refuses = false;
  // Drops longer frames, BTH to ICRC, as a path whose MTU has shrunk.
  uint32_t longest = UINT32_MAX;
  uint64_t refused = 0, too_long = 0;  // calls, frames
  // Where the peer is in what was sent to it, if some of that lies unread (Port::unread()).
  std::function<std::optional<uint64_t>()> peer_place;
  std::vector<std::vector<std::byte>> asked;  // datagrams of ask()

  const transport::Capabilities& capabilities() const noexcept override {
    return inner_->capabilities();
  }
  Gid address() const noexcept override { return inner_->address(); }
  std::span<const Gid> further_addresses() const noexcept override {
    return inner_->further_addresses();
  }
  QpnRange qpn_range() const noexcept override { return inner_->qpn_range(); }
  Result<void> join(const Gid& group) override { return inner_->join(group); }
  void leave(const Gid& group) noexcept override { inner_->leave(group); }
  void ask(const transport::Path&, std::span<const std::byte> datagram) noexcept override {
    asked.emplace_back(datagram.begin(), datagram.end());
  }
  std::optional<uint64_t> unread(const Gid&, QpNum, bool) noexcept override {
    return peer_place ? peer_place() : std::nullopt;
  }
  size_t receive(std::span<transport::Frame> frames) noexcept override {
    return inner_->receive(frames);
  }
  void release(std::span<const transport::Frame> frames) noexcept override {
    inner_->release(frames);
  }
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) noexcept override {
    return inner_->prepare_wait(descriptors, want_transmit);
  }

 private:
  bool passes(const transport::TxFrame& frame);

  std::unique_ptr<transport::Port> inner_;
  uint32_t since_judged_ = 0;
};

}  // namespace weft::test
