// SPDX-License-Identifier: BSD-3-Clause
// A device that breaks rules of RoCEv2, each by its name: what packet scripts and ./dev hardware
// must find. "roce+udp:lo,deviate=migreq+no_ecn". Frames with telemetry pass as they are.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "providers/port/middleware/held_frame.hpp"
#include "providers/port/middleware/wrapping_port.hpp"
#include "weft/result.hpp"

namespace weft::middleware {

// It has no stable layout for this.
// clang-format off
#define WEFT_DEVIATIONS(X)                                                      \
  X(migreq)      /* MigReq is 0 in every packet */                              \
  X(pkey)        /* the P_Key of every packet is 0x7fff */                      \
  X(pad)         /* pad bytes are not 0 */                                      \
  X(msn)         /* the MSN of every acknowledgement is 0 */                    \
  X(nak_code)    /* remote access error in place of invalid request */          \
  X(repeat_nak)  /* each NAK of the sequence is sent twice */                   \
  X(no_dup_ack)  /* a duplicate is not acknowledged */                          \
  X(early_rnr)   /* the first answer to a SEND is an RNR NAK */                 \
  X(no_ecn)      /* the congestion mark of a received packet is not seen */     \
  X(cnp_class)   /* CNPs have traffic class 0 */                                \
  X(any_icrc)    /* a wrong ICRC is accepted */                                 \
  X(any_version) /* any header version is accepted */
// clang-format on

enum class Deviation : uint8_t {
#define X(name) name,
  WEFT_DEVIATIONS(X)
#undef X
      end_
};
inline constexpr size_t kDeviationEnd = static_cast<size_t>(Deviation::end_);
inline constexpr std::array<std::string_view, kDeviationEnd> kDeviationNames = {
#define X(name) #name,
    WEFT_DEVIATIONS(X)
#undef X
};

class DeviatingPort final : public WrappingPort {
 public:
  // `names`: deviations joined by '+'. Errors: invalid_argument lists all.
  static Result<std::unique_ptr<transport::Port>> wrap(std::unique_ptr<transport::Port> inner,
                                                       std::string_view names);

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;

 private:
  using Chosen = std::array<bool, kDeviationEnd>;
  DeviatingPort(std::unique_ptr<transport::Port> inner, const Chosen& chosen);

  bool does(Deviation deviation) const noexcept { return chosen_[static_cast<size_t>(deviation)]; }
  bool send(const transport::TxFrame& frame) noexcept;
  void change_headers(HeldFrame& held) noexcept;
  void change_answer(HeldFrame& held) noexcept;
  bool suppressed(HeldFrame& held) noexcept;
  bool change_received(HeldFrame& held) noexcept;

  static constexpr size_t kBurst = 64;
  const Chosen chosen_;
  transport::Capabilities capabilities_;
  HeldFrame sent_;
  std::vector<HeldFrame> received_;
  std::vector<transport::Frame> lent_;  // by the inner port
  // Of the last ACK: destination and PSN.
  std::pair<uint32_t, uint32_t> acknowledged_{0, 0};
  bool early_rnr_due_ = false;  // a SEND has ended, and has no answer yet
};

}  // namespace weft::middleware
