// SPDX-License-Identifier: BSD-3-Clause
// Protected ports on a wire of the test's own: each packet that one sends lies in a list, and
// arrives where and when the test says.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "providers/port/secure/secure_port.hpp"

namespace weft::test {

struct WirePacket {
  transport::Path path;
  std::vector<std::byte> bytes;
  uint16_t ip_id = 0;
};

inline const crypto::Library& cryptographic_library() {
  const Result<const crypto::Library*> library = crypto::load_library();
  REQUIRE(library);
  return **library;
}

inline crypto::Key secret_of(std::string_view text) {
  return *cryptographic_library().derive(text, "secret of a test");
}

// The port below a protected one.
class WirePort final : public transport::Port {
 public:
  WirePort(const Gid& address, std::deque<WirePacket>& sent) : address_(address), sent_(sent) {}

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return address_; }
  size_t receive(std::span<transport::Frame> frames) noexcept override {
    const size_t n = std::min(frames.size(), arrived.size());
    for (size_t i = 0; i < n; ++i) {
      frames[i] = {};
      frames[i].path = &arrived[i].path;
      frames[i].bytes = arrived[i].bytes.data();
      frames[i].length = static_cast<uint32_t>(arrived[i].bytes.size());
    }
    return n;
  }
  void release(std::span<const transport::Frame> frames) noexcept override {
    arrived.erase(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(frames.size()));
  }
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override {
    const size_t n = std::min(frames.size(), room);
    for (const transport::TxFrame& frame : frames.first(n)) {
      CHECK(frame.span_count == 0);
      sent_.push_back({*frame.path, {frame.head, frame.head + frame.head_length}, frame.ip_id});
    }
    return n;
  }
  bool prepare_wait(std::vector<pollfd>&, bool) override { return arrived.empty(); }

  std::deque<WirePacket> arrived;
  size_t room = SIZE_MAX;  // frames that one call of transmit() takes

 private:
  transport::Capabilities capabilities_;
  Gid address_;
  std::deque<WirePacket>& sent_;
};

// A device that packets of SRD go through, without an engine.
class SecureEnd {
 public:
  SecureEnd(uint8_t host, std::string_view secret, uint64_t seed,
            uint64_t renew_after = secure::Outgoing::kRenewAfter)
      : address_(address_of(host)) {
    auto below = std::make_unique<WirePort>(address_, sent);
    wire_ = below.get();
    port_ = std::make_unique<secure::SecurePort>(
        std::move(below), secure::SecurePortOptions{.library = &cryptographic_library(),
                                                    .secret = secret_of(secret),
                                                    .cipher = crypto::Cipher::aes_128_gcm,
                                                    .clock = [this] { return now; },
                                                    .random = base::SecureRandom(seed),
                                                    .renew_after = renew_after});
  }
  static Gid address_of(uint8_t host) { return Gid::from_ipv4(10, 0, 0, host); }

  secure::SecurePort& port() { return *port_; }
  WirePort& wire() { return *wire_; }
  const Gid& address() const { return address_; }

  // A packet of SRD whose body is `text`.
  static std::vector<std::byte> packet(std::string_view text, uint8_t digest = 0) {
    wire::SrdBase base;
    base.opcode = static_cast<uint8_t>(wire::SrdOpcode::send);
    base.dest = 0x010203u;
    base.source = 0x010000u;
    base.digest = digest;
    std::vector<std::byte> bytes(sizeof base + text.size());
    std::memcpy(bytes.data(), &base, sizeof base);
    std::memcpy(bytes.data() + sizeof base, text.data(), text.size());
    return bytes;
  }
  void send(const SecureEnd& to, std::string_view text) { send_bytes(to, packet(text)); }
  void send_bytes(const SecureEnd& to, const std::vector<std::byte>& bytes) {
    transport::Path path;
    path.source = address_;
    path.destination = to.address();
    path.destination_port = wire::kSrdUdpPort;
    transport::TxFrame frame;
    frame.path = &path;
    frame.head = bytes.data();
    frame.head_length = static_cast<uint32_t>(bytes.size());
    CHECK(port_->transmit({&frame, 1}) == 1);
  }
  // What this packet becomes here; empty: nothing.
  std::vector<std::byte> arrive(const WirePacket& packet) {
    wire_->arrived.push_back(packet);
    transport::Frame frames[4];
    const size_t n = port_->receive(frames);
    REQUIRE(n <= 1);
    std::vector<std::byte> bytes;
    if (n == 1) {
      bytes.assign(frames[0].bytes, frames[0].bytes + frames[0].length);
      port_->release({frames, n});
    }
    CHECK(wire_->arrived.empty());
    return bytes;
  }
  uint64_t count(std::string_view name) const {
    std::vector<Counter> counters;
    port_->append_counters(counters);
    const auto at = std::find_if(counters.begin(), counters.end(),
                                 [name](const Counter& c) { return c.name == name; });
    REQUIRE(at != counters.end());
    return at->value;
  }
  WirePacket take() {
    REQUIRE_FALSE(sent.empty());
    WirePacket first = sent.front();
    sent.pop_front();
    return first;
  }

  std::deque<WirePacket> sent;
  Instant now = Instant{1'000'000'000};

 private:
  Gid address_;
  std::unique_ptr<secure::SecurePort> port_;
  WirePort* wire_ = nullptr;
};

inline std::string text_of(const std::vector<std::byte>& packet) {
  if (packet.size() < sizeof(wire::SrdBase)) return {};
  return {reinterpret_cast<const char*>(packet.data()) + sizeof(wire::SrdBase),
          packet.size() - sizeof(wire::SrdBase)};
}

// All that `a` and `b` have sent arrives, until nothing is left; the texts that arrived at `b`.
inline std::vector<std::string> run(SecureEnd& a, SecureEnd& b) {
  std::vector<std::string> texts;
  while (!a.sent.empty() || !b.sent.empty()) {
    while (!a.sent.empty()) {
      const std::vector<std::byte> packet = b.arrive(a.take());
      if (!packet.empty()) texts.push_back(text_of(packet));
    }
    while (!b.sent.empty()) a.arrive(b.take());
  }
  return texts;
}

}  // namespace weft::test
