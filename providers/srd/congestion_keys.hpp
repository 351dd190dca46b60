// SPDX-License-Identifier: BSD-3-Clause
// The keys of congestion control in the device string of an `srd` device: cc=nscc, where the port
// can drop, rccc, nscc+rccc, swift, dcqcn-nic and the like; cc=halved and cc=none leave the port's
// window alone, halved at a loss or fixed.
#pragma once

#include "lib/srd/engine.hpp"
#include "providers/software/controller_keys.hpp"

namespace weft::srd_provider {

class CongestionKeys {
 public:
  CongestionKeys();
  // Takes the keys "cc.PARAMETER" out of `spec`; cc, cc_line_mbps and cc_rtt_us come by append_to()
  // and write into this object.
  Result<void> take_parameters(verbs::DeviceSpec& spec) { return keys_.take_parameters(spec); }
  void append_to(std::vector<software::OwnKey>& own) { keys_.append_to(own, {"none", "halved"}); }
  // `links`: of that line rate, one for each address of the device.
  Result<void> apply(srd::Config& config, const transport::Capabilities& port, uint32_t links);

 private:
  software::ControllerKeys keys_;
};

}  // namespace weft::srd_provider
