// SPDX-License-Identifier: BSD-3-Clause
// See congestion_keys.hpp.
#include "providers/srd/congestion_keys.hpp"

namespace weft::srd_provider {

namespace {

// What the constants of nscc were made for. On a slower network say so: cc_line_mbps, cc_rtt_us.
constexpr uint32_t kLineMbps = 100'000, kRttUs = 50;
constexpr uint32_t kWireBytes = 122;  // of a packet besides its payload, as in flow.cpp

Result<void> examine(std::string_view name, const congestion::Kind& kind) {
  using congestion::Signal;
  if (kind.signal == Signal::telemetry && name != "hpcc")
    return Error{Code::not_supported,
                 "cc=" + std::string(name) +
                     " needs a record of every hop, for which SRD packets have no room; try hpcc "
                     "(in its digest form), nscc, rccc, nscc+rccc, mswift or dcqcn-nic"};
  return {};
}

}  // namespace

CongestionKeys::CongestionKeys() : keys_(kLineMbps, kRttUs, examine) {}

Result<void> CongestionKeys::apply(srd::Config& config, const transport::Capabilities& port,
                                   uint32_t links) {
  keys_.bundle(links);
  if (keys_.name().empty()) keys_.choose(port.lossless ? "none" : "nscc");
  // Of many paths only the digest of each fits into a packet.
  if (keys_.name() == "hpcc") keys_.choose("hpcc-pint");
  config.halves = keys_.name() == "halved";
  std::vector<congestion::Setting> settings;
  // Processes that are both awake take less than they were told to take, which is no reason to have
  // less on the way when one of them sleeps.
  if (keys_.name().starts_with("nscc"))
    settings = {{"mtu_bytes", double(port.active_mtu + kWireBytes)},
                {"mss_bytes", double(port.active_mtu)},
                {"least_base", 1}};
  const Result<std::optional<congestion::Preset>> preset = keys_.preset(std::move(settings));
  if (!preset) return preset.error();
  config.congestion = *preset;
  const bool credited = *preset && (*preset)->kind->credit != nullptr;
  const Result<congestion::Preset> grants =
      credited ? Result<congestion::Preset>(**preset)
               : congestion::make_preset("rccc", keys_.conditions());
  if (!grants) return grants.error();
  config.credit = congestion::credit_rules(*grants);
  return {};
}

}  // namespace weft::srd_provider
