// SPDX-License-Identifier: BSD-3-Clause
// The sending side of associations: for each receiver the key that it has granted, the counter of
// the next packet under it, and the request for one. A key is asked for with the first packet to a
// receiver, again when it has sealed `renew_after` packets, and when the receiver does not know it;
// until the new one comes the old one is used.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/transport/frame.hpp"
#include "providers/port/secure/key_exchange.hpp"
#include "weft/units.hpp"

namespace weft::secure {

// A packet that waits for a key.
struct Held {
  transport::Path path;
  uint8_t ecn = 0;
  std::vector<std::byte> bytes;
};

// From one of our addresses to an endpoint: an association is bound to both addresses.
struct Way {
  Gid source;
  Endpoint to;

  bool operator==(const Way&) const = default;
};

struct WayHash {
  size_t operator()(const Way& way) const noexcept {
    return EndpointHash{}(way.to) * 31 + base::GidHash{}(way.source);
  }
};

struct Receiver {
  static constexpr uint64_t kMost = uint64_t{1} << 26;  // packets under a key

  Way way;
  std::unique_ptr<crypto::Aead> aead;  // null: no key yet
  uint64_t association = 0;
  uint64_t counter = 0;  // of the next packet
  // The request.
  bool asks = false;
  wire::KeyNonce nonce{};
  Instant ask_again;
  int asked = 0;           // times
  std::vector<Held> held;  // before there is a key

  bool ready() const noexcept { return aead != nullptr && counter < kMost; }
};

class Outgoing {
 public:
  static constexpr size_t kMostReceivers = 65536;
  // What RFC 9001 6.6 allows AES-GCM.
  static constexpr uint64_t kRenewAfter = uint64_t{1} << 23;
  static_assert(kRenewAfter < Receiver::kMost);

  Outgoing(const KeyExchange& exchange, const Layout& layout, base::SecureRandom& random,
           uint64_t renew_after = kRenewAfter)
      : exchange_(exchange), layout_(layout), random_(random), renew_after_(renew_after) {}

  // Made when there is none. May throw bad_alloc.
  Receiver& to(const Way& way);
  // Null: none.
  Receiver* find(const Way& way) noexcept;
  // Seals a packet of `length` bytes: `out` has room for kProtectionLength more. False: the
  // cryptographic library has failed.
  bool seal(Receiver& receiver, const std::byte* packet, uint32_t length, std::byte* out) noexcept;
  // Whether a request is due, which is then counted as sent.
  bool take_request(Receiver& receiver, Instant now) noexcept;
  // Whether `granted` answers the request.
  bool accept(Receiver& receiver, const Granted& granted);
  // The receiver does not know the association.
  void renew(Receiver& receiver) noexcept;

 private:
  const KeyExchange& exchange_;
  const Layout layout_;
  base::SecureRandom& random_;
  const uint64_t renew_after_;
  std::unordered_map<Way, Receiver, WayHash> receivers_;
  Receiver* last_ = nullptr;
};

}  // namespace weft::secure
