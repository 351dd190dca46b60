// SPDX-License-Identifier: BSD-3-Clause
// The engine's counters: traffic, protocol events, and one per reason to drop a packet. An enum and
// a name table, so that a drop is one increment and a test can name every one (//= roce:C-EVT-110).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "lib/base/check.hpp"

namespace weft::transport {

// clang-format breaks these lines differently on each run.
// clang-format off
#define WEFT_COUNTERS(X) \
  X(tx_packets) X(tx_bytes) X(tx_retransmits) X(tx_rewinds) X(tx_acks) X(tx_naks) \
  X(tx_rnr_naks) X(tx_calls) X(rx_calls) X(tx_read_responses) \
  X(rx_packets) X(rx_bytes) X(rx_by_reference) X(rx_acks) X(rx_naks) X(rx_rnr_naks) \
  X(timeouts) X(retry_exceeded) X(rnr_exceeded) \
  X(rx_duplicates) X(rx_duplicate_acks) X(rx_replayed_reads) X(rx_replayed_atomics) \
  X(rx_out_of_sequence) X(rx_early) \
  X(rx_ecn_marked) X(rx_cnps) X(tx_cnps) \
  X(rx_bad_telemetry) X(rx_unagreed_telemetry) X(acks_without_telemetry) \
  X(tx_reports) X(rx_reports) \
  X(paced_waits) X(paced_late_ns) X(paced_late_most_ns) \
  X(rx_too_short) X(rx_bad_version) X(rx_bad_opcode) X(rx_bad_payload) X(rx_bad_dest_qpn) \
  X(rx_icrc_error) X(peers_failing_icrc) \
  X(rx_unknown_qp) X(rx_no_group) X(rx_wrong_service) X(rx_bad_source) X(rx_bad_pkey) \
  X(rx_bad_qkey) \
  X(rx_wrong_state) X(rx_no_receive) X(rx_too_long) X(rx_message_lost) X(rx_message_rest) \
  X(rx_ghost_ack) \
  X(rx_bad_response) X(rx_stale_response) X(rx_lost_resource) X(rx_after_nak) \
  X(rx_unsupported) X(rx_pull_failed) \
  X(access_errors) X(request_errors) X(cq_overruns) X(events_lost) \
  X(connects_throttled) \
  X(tx_fills) X(tx_aborts) X(tx_resets) X(rx_resets) X(tail_probes) X(path_probes) X(path_losses) \
  X(rx_out_of_window) X(rx_over_credit) X(rx_guesses_dropped) X(rx_trimmed) X(trim_losses) \
  X(rx_other_incarnation) X(rx_stale_stream) \
  X(rx_unknown_peer) \
  X(streams_replaced) X(peers_lost) X(peers_forgotten) X(peers_challenged) X(spurious_retransmits) \
  X(tx_rail_requests) X(ways_joined)
// clang-format on

enum class Count : uint8_t {
#define X(name) name,
  WEFT_COUNTERS(X)
#undef X
      end_
};

inline constexpr size_t kCountEnd = static_cast<size_t>(Count::end_);

inline constexpr std::array<std::string_view, kCountEnd> kCountNames = {
#define X(name) #name,
    WEFT_COUNTERS(X)
#undef X
};

// Counters that hold a maximum (Counters::raise()) instead of a sum.
constexpr bool is_largest(Count c) noexcept { return c == Count::paced_late_most_ns; }

// Whether a counter grows with undisturbed traffic. All others count exceptions: drops, losses,
// refusals, what a peer did wrong.
constexpr bool is_traffic(Count c) noexcept {
  switch (c) {
    case Count::tx_packets:
    case Count::tx_bytes:
    case Count::tx_acks:
    case Count::tx_calls:
    case Count::rx_calls:
    case Count::tx_read_responses:
    case Count::rx_packets:
    case Count::rx_bytes:
    case Count::rx_by_reference:
    case Count::rx_acks:
    case Count::rx_ecn_marked:
    case Count::tx_reports:
    case Count::rx_reports:
    case Count::paced_waits:
    case Count::paced_late_ns:
    case Count::paced_late_most_ns:
      return true;
    default:
      return false;
  }
}

class Counters {
 public:
  void add(Count c, uint64_t n = 1) noexcept {
    WEFT_DCHECK(c < Count::end_);
    values_[static_cast<size_t>(c)] += n;
    if (!is_traffic(c)) has_exceptions_ = true;
  }
  void raise(Count c, uint64_t n) noexcept {
    WEFT_DCHECK(is_largest(c));
    uint64_t& value = values_[static_cast<size_t>(c)];
    if (value < n) value = n;
  }
  // True once after add() of an exception.
  bool take_exceptions() noexcept {
    return has_exceptions_ && std::exchange(has_exceptions_, false);
  }
  // Adds the counters of another engine of the device.
  void merge(const Counters& other) noexcept {
    for (size_t i = 0; i < kCountEnd; ++i) {
      const auto c = static_cast<Count>(i);
      is_largest(c) ? raise(c, other[c]) : add(c, other[c]);
    }
  }
  uint64_t operator[](Count c) const noexcept { return values_[static_cast<size_t>(c)]; }

 private:
  std::array<uint64_t, kCountEnd> values_{};
  bool has_exceptions_ = false;
};

}  // namespace weft::transport
