// SPDX-License-Identifier: BSD-3-Clause
// Texts that people write, or that come from files and environment: device strings, addresses,
// fault options, failed lanes, times, numbers, hosts with ports. No crash; an error has a reason;
// what is accepted is written again as it was read. The first byte selects the parser.
#include <cmath>
#include <string>

#include "lib/base/tcp.hpp"
#include "lib/collective/model/lanes.hpp"
#include "lib/collective/plan/names.hpp"
#include "lib/sim/scheme/parameters.hpp"
#include "lib/verbs/device_spec.hpp"
#include "providers/port/middleware/fault_options.hpp"
#include "tests/fuzz/input.hpp"
#include "weft/types.hpp"

using namespace weft;
using fuzz::require;

namespace {

template <class T>
bool accepted(const Result<T>& result) {
  if (!result) require(!result.error().message.empty(), "an error has a reason");
  return static_cast<bool>(result);
}

std::string written(const verbs::DeviceSpec& spec) {
  std::string text = spec.provider;
  if (!spec.port.empty()) text += "+" + spec.port;
  const bool brackets = spec.where.find(':') != std::string::npos;
  if (!spec.where.empty()) text += brackets ? ":[" + spec.where + "]" : ":" + spec.where;
  for (const auto& [key, value] : spec.options) {
    text += ",";
    text += key;
    text += "=";
    text += value;
  }
  return text;
}

void read_device(std::string_view text) {
  const Result<verbs::DeviceSpec> spec = verbs::parse_device_spec(text);
  if (!accepted(spec)) return;
  const Result<verbs::DeviceSpec> again = verbs::parse_device_spec(written(*spec));
  require(again && again->provider == spec->provider && again->port == spec->port &&
              again->where == spec->where && again->options == spec->options,
          "the same device");
  auto options = spec->options;
  const auto faults = verbs::take_layer(options, "fault");
  require(options.size() + faults.size() == spec->options.size(), "each option is in one layer");
  (void)accepted(middleware::parse_fault_options(faults));
}

void read_gid(std::string_view text) {
  const Result<Gid> gid = parse_gid(text);
  if (!accepted(gid)) return;
  const Result<Gid> again = parse_gid(to_string(*gid));
  require(again && *again == *gid, "the same address");
}

void read_host(std::string_view text) {
  const Result<base::HostPort> where = base::parse_host_port(text, 7);
  if (accepted(where)) require(where->host.size() <= text.size(), "a host of the text");
}

void read_number(std::string_view text) {
  const Result<int64_t> time = sim::flow::parse_time_ns(text);
  if (accepted(time)) require(*time >= 0, "no time before 0");
  const Result<double> number = sim::flow::parse_number(text);
  if (accepted(number)) require(!std::isnan(*number), "a number");
}

void read_names(std::string_view text) {
  const Result<Collective> collective = collective::parse_collective(text);
  if (accepted(collective)) require(name(*collective) == text, "the same operation");
  (void)accepted(collective::parse_type(text));
  (void)accepted(collective::parse_reduction(text));
  const Result<collective::DeadLanes> dead = collective::parse_dead_lanes(std::string(text));
  if (accepted(dead)) require(text.starts_with(dead->medium), "the medium of the text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0:
      read_device(text);
      break;
    case 1:
      read_gid(text);
      break;
    case 2:
      read_host(text);
      break;
    case 3:
      read_number(text);
      break;
    default:
      read_names(text);
  }
  return 0;
}
