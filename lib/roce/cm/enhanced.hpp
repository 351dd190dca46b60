// SPDX-License-Identifier: BSD-3-Clause
// Enhanced connection establishment (ECE, an addition to IBTA chapter 12): in a REQ and in its REP
// a vendor's number and 32 bits of that vendor, which others ignore. In the REQ the number is in
// the bits behind the local communication id, in the REP in the three bytes behind the numbers of
// the queue pair, of the EE context and the PSN; the 32 bits are the attribute modifier of the MAD.
//
// weft agrees in them to what only weft has (lib/wire/SACK.md). A REP that carries weft's number
// may be from another: librdmacm answers with the number that it was asked with, and with bits of
// its own device. So a REQ has 24 random bits, and only weft knows to answer with their complement.
#pragma once

#include <cstdint>

#include "lib/roce/cm/mad.hpp"

namespace weft::cm {

// Of the locally administered numbers, which no vendor has.
inline constexpr uint32_t kWeftVendor = 0x02'57'46;

inline constexpr uint8_t kEceSelectiveRepeat = 2;  // capability, as in the hello of connect()

struct Ece {
  uint32_t vendor = 0;  // 0: none
  uint32_t options = 0;
};

// What a REQ offers; `random`: 24 bits of it are used.
constexpr Ece offer_of(uint8_t capabilities, uint32_t random) noexcept {
  if (capabilities == 0) return {};
  return {kWeftVendor, random << 8 | capabilities};
}
// The answer to the offer of a REQ: the capabilities of both. Empty: the REP has no ECE.
constexpr Ece answer_to(const Ece& offer, uint8_t capabilities) noexcept {
  const uint32_t both = offer.options & capabilities;
  if (offer.vendor != kWeftVendor || both == 0) return {};
  return {kWeftVendor, (~offer.options & 0xFFFF'FF00) | both};
}
// The capabilities that the answer to `offer` agrees on.
constexpr uint8_t agreed(const Ece& offer, const Ece& answer) noexcept {
  const bool ours = offer.vendor == kWeftVendor && answer.vendor == kWeftVendor &&
                    (offer.options ^ answer.options) >> 8 == 0xFF'FFFF;
  return ours ? static_cast<uint8_t>(offer.options & answer.options) : uint8_t{0};
}

// A REQ or REP that check() has passed.
inline Ece ece_of_req(const Mad& mad) {
  return {body_of<Req>(mad).vendor_id, header_of(mad).modifier};
}
inline Ece ece_of_rep(const Mad& mad) {
  return {body_of<Rep>(mad).vendor_id(), header_of(mad).modifier};
}
// Its 32 bits are in the header: header_of(mad).modifier.
inline void put_vendor(Req& req, const Ece& ece) { req.vendor_id = ece.vendor; }
inline void put_vendor(Rep& rep, const Ece& ece) {
  rep.vendor_high = static_cast<uint8_t>(ece.vendor >> 16);
  rep.vendor_middle = static_cast<uint8_t>(ece.vendor >> 8);
  rep.vendor_low = static_cast<uint8_t>(ece.vendor);
}

}  // namespace weft::cm
