// SPDX-License-Identifier: BSD-3-Clause
// The receiving side of associations. An association has one sender and a key that this side
// derives from its number and a secret of its own, drawn when the device was opened: what is
// granted costs no memory until a packet comes under its key, and dies with the process.
//
// Numbers grow. Of each sender the newest two that were used are accepted, so that packets under
// the old key may arrive late when the key changes; older ones never again.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "lib/base/random.hpp"
#include "providers/port/secure/key_exchange.hpp"
#include "providers/port/secure/packet_data.hpp"
#include "providers/port/secure/replay_window.hpp"

namespace weft::secure {

class Incoming {
 public:
  static constexpr size_t kMostSenders = 65536;

  enum class Verdict : uint8_t { ok, unknown, forged, replayed };

  // The numbers begin at random, so that only who has seen some can name one.
  Incoming(const KeyExchange& exchange, const Layout& layout, crypto::Cipher cipher,
           base::SecureRandom& random);

  // A new association for that sender. Nothing if the cryptographic library has failed.
  std::optional<Granted> grant(const Endpoint& sender);
  // Opens a packet of at least the header and kProtectionLength bytes: `out` has room for
  // `length - kProtectionLength` bytes, the header and what was sealed.
  Verdict open(const Gid& source, const std::byte* packet, uint32_t length, std::byte* out);

 private:
  struct Association {
    Endpoint from;
    std::unique_ptr<crypto::Aead> aead;
    ReplayWindow window;
  };
  struct Sender {
    uint64_t current = 0;
    uint64_t previous = 0;  // 0: none
  };

  std::optional<crypto::Key> key_of(uint64_t association, const Endpoint& sender) const;
  Association* find(uint64_t association) noexcept;
  // One that was granted to `sender` and may begin now; null: it is not.
  std::unique_ptr<Association> begin(uint64_t association, const Endpoint& sender) const;
  void accept(uint64_t association, std::unique_ptr<Association> begun);
  void forget_oldest();

  const KeyExchange& exchange_;
  const Layout layout_;
  const crypto::Cipher cipher_;
  crypto::Key master_;
  uint64_t first_;          // number of the first
  uint64_t next_;           // of the next one that is granted
  uint64_t forgotten_ = 0;  // none up to this begins any more
  std::unordered_map<uint64_t, std::unique_ptr<Association>> associations_;
  std::unordered_map<Endpoint, Sender, EndpointHash> senders_;
  uint64_t last_ = 0;  // found last
  Association* last_found_ = nullptr;
};

}  // namespace weft::secure
