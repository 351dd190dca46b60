// SPDX-License-Identifier: BSD-3-Clause
// PINT's code of a utilisation in one byte: the logarithm to base 1.05 of ceil(512 u), at least 1,
// rounded up or down at random in proportion, so that the mean is right (HPCC simulator). The
// switch encodes, the sender decodes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "lib/congestion/controller.hpp"

namespace weft::congestion {

inline constexpr double kDigestBase = 1.05;
inline constexpr double kDigestScale = 512;

// Powers of the base, by multiplication: the same bits everywhere.
inline constexpr std::array<double, 257> kDigestPowers = [] {
  std::array<double, 257> powers{};
  powers[0] = 1;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * kDigestBase;
  return powers;
}();

inline double decode_digest(uint8_t code) noexcept { return kDigestPowers[code] / kDigestScale; }

// `draw` is uniform in [0, 1).
inline uint8_t encode_digest(double utilisation, double draw) noexcept {
  const double value = std::ceil(utilisation * kDigestScale);
  if (!(value > 1)) return 1;
  if (value >= kDigestPowers[255]) return 255;
  size_t low = 0;  // the last power that is not above the value
  for (size_t step = 128; step > 0; step /= 2)
    if (low + step < 256 && kDigestPowers[low + step] <= value) low += step;
  // Between two powers the logarithm is nearly a line: log(1 + x) / log(1.05) for x below 0.05, to
  // three terms, wrong by less than 1e-5.
  const double x = value / kDigestPowers[low] - 1;
  constexpr double kInverseLog = 20.495934314287850;  // 1 / ln 1.05
  const double fraction = (x - x * x / 2 + x * x * x / 3) * kInverseLog;
  const size_t code = low + (draw < fraction ? 1 : 0);
  return static_cast<uint8_t>(code < 1 ? 1 : code > 255 ? 255 : code);
}

// A port's average of its utilisation over `rtt_ns`, which it encodes for each packet that leaves.
class DigestMeter {
 public:
  // `hop`: the port's record of the packet that leaves now.
  double pass(const IntHop& hop, double rtt_ns) noexcept {
    const double bytes_per_ns = hop.rate_mbps / 8000.0;
    const double dt = std::min<double>(rtt_ns, hop.time_ns - time_ns_);
    const double sent = hop.sent_bytes - sent_bytes_;  // the packet before
    utilisation_ = (rtt_ns - dt) / rtt_ns * utilisation_ + sent / (bytes_per_ns * rtt_ns);
    if (hop.queue_bytes >= kLeastQueue)
      utilisation_ += dt * hop.queue_bytes / (bytes_per_ns * rtt_ns * rtt_ns);
    skip(hop);
    return utilisation_;
  }
  // The same of a packet that does not count itself (an acknowledgement): the next one looks back
  // to it.
  void skip(const IntHop& hop) noexcept {
    time_ns_ = hop.time_ns;
    sent_bytes_ = hop.sent_bytes;
  }

 private:
  static constexpr uint32_t kLeastQueue = 256;  // as in the authors' simulator (HPCC simulator)
  double utilisation_ = 0;
  uint32_t time_ns_ = 0;
  uint32_t sent_bytes_ = 0;
};

}  // namespace weft::congestion
