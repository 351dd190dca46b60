// SPDX-License-Identifier: BSD-3-Clause
// See congestion_keys.hpp.
#include "providers/srd/congestion_keys.hpp"

namespace weft::srd_provider {

namespace {

// The network that nscc's constants are for. Override on a slower one: cc_line_mbps, cc_rtt_us.
constexpr uint32_t kLineMbps = 100'000, kRttUs = 50;
constexpr uint32_t kWireBytes = 122;  // of a packet besides its payload, as in flow.cpp

Result<void> examine(std::string_view name, const congestion::Kind& kind) {
  using congestion::Signal;
  const bool has_digest_form = !kind.digest_form.empty() && name == kind.name;
  if (kind.signal == Signal::telemetry && !has_digest_form)
    return Error{Code::not_supported,
                 "cc=" + std::string(name) +
                     " needs a record of every hop, for which SRD packets have no room; try hpcc "
                     "(in its digest form), nscc, smartt, rccc, eqds, nscc+rccc, mswift or "
                     "dcqcn-nic"};
  return {};
}

// SRD packets have room for a digest of each path, not for a record of each hop. There is none with
// a window: examine() has refused that.
void use_digest_form(software::ControllerKeys& keys) {
  bool with_window = false;
  const Result<const congestion::Kind*> kind = congestion::find_kind(keys.name(), &with_window);
  if (kind && !with_window && !(*kind)->digest_form.empty())
    keys.choose(std::string((*kind)->digest_form));
}

}  // namespace

CongestionKeys::CongestionKeys() : keys_(kLineMbps, kRttUs, examine) {}

Result<void> CongestionKeys::apply(srd::Config& config, const transport::Capabilities& port,
                                   uint32_t links) {
  keys_.bundle(links);
  if (keys_.name().empty()) keys_.choose(port.lossless ? "none" : "nscc");
  use_digest_form(keys_);
  config.halve_on_loss = keys_.name() == "halved";
  // The RTT between two processes that poll is shorter than the configured one. The window must not
  // shrink with it: it would be too small as soon as one process sleeps.
  congestion::Conditions conditions = keys_.conditions();
  conditions.packet_bytes = port.active_mtu + kWireBytes;
  conditions.payload_bytes = port.active_mtu;
  conditions.software_hosts = true;
  const Result<std::optional<congestion::Preset>> preset = keys_.preset(conditions);
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
