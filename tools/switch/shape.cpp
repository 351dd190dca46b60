// SPDX-License-Identifier: BSD-3-Clause
// See shape.hpp.
#include "tools/switch/shape.hpp"

#include <algorithm>
#include <charconv>

namespace weft::bench {

Result<uint32_t> Shape::host(std::string_view address) const {
  const auto found = std::find(hosts.begin(), hosts.end(), address);
  if (found != hosts.end()) return static_cast<uint32_t>(found - hosts.begin());
  std::string text = "no host " + std::string(address) + "; there are";
  for (const std::string& host : hosts) text += " " + host;
  return Error{Code::not_found, text};
}

Result<sim::SwitchOptions> Shape::options() const {
  sim::SwitchOptions options;
  options.mbps.assign(hosts.size(), mbps);
  for (const std::string& text : port_mbps) {
    const size_t equals = std::min(text.find('='), text.size());
    const Result<uint32_t> number = host(std::string_view(text).substr(0, equals));
    if (!number) return number.error();
    const char* const end = text.data() + text.size();
    uint32_t& rate = options.mbps[*number];
    const auto [at, error] = std::from_chars(std::min(text.data() + equals + 1, end), end, rate);
    if (error != std::errc() || at != end || rate == 0)
      return Error{Code::invalid_argument, "--port " + text + ": write HOST=MBPS"};
  }
  options.delay = Duration{static_cast<int64_t>(delay_us * 1e6)};
  options.buffer = static_cast<uint64_t>(buffer_kb * 1024);
  options.kmin_us = kmin_us;
  options.kmax_us = kmax_us;
  options.pmax = pmax;
  options.telemetry = telemetry;
  options.digest_rtt = Duration{static_cast<int64_t>(digest_rtt_us * 1e6)};
  return options;
}

}  // namespace weft::bench
