// SPDX-License-Identifier: BSD-3-Clause
// See options.hpp.
#include "providers/port/dpdk/options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "providers/port/dpdk/kernel_interface.hpp"
#include "providers/port/dpdk/memif.hpp"
#include "providers/port/dpdk/pci.hpp"
#include "providers/port/dpdk/vhost.hpp"

namespace weft::port::dpdk {
namespace {

constexpr const char* kKeys =
    "; dpdk's own keys are address=IP, prefix=0..128, gateway=IP, vlan=0..4094, "
    "neighbour=IP@MAC (may be repeated), mtu=256..4096, offload=0|1, "
    "huge=0|1, memory=32..65536 (MiB), eal=ARGUMENTS; all others go to the device";

Error bad(const std::string& key, const std::string& value) {
  return {Code::invalid_argument, "dpdk." + key + "=" + value + " is not valid" + kKeys};
}

bool parse_number(const std::string& text, uint32_t smallest, uint32_t largest, uint32_t& number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end && number >= smallest && number <= largest;
}

bool parse_address(const std::string& text, Gid& address) {
  const Result<Gid> parsed = parse_gid(text);
  if (parsed) address = *parsed;
  return static_cast<bool>(parsed);
}

bool parse_neighbour(const std::string& text, Options& options) {
  const size_t at = text.find('@');
  if (at == std::string::npos) return false;
  Gid address;
  wire::MacAddress mac{};
  unsigned parts[6];
  int used = 0;
  if (!parse_address(text.substr(0, at), address) ||
      std::sscanf(text.c_str() + at + 1, "%2x:%2x:%2x:%2x:%2x:%2x%n", &parts[0], &parts[1],
                  &parts[2], &parts[3], &parts[4], &parts[5], &used) != 6 ||
      at + 1 + static_cast<size_t>(used) != text.size())
    return false;
  for (size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(parts[i]);
  options.neighbours.emplace_back(address, mac);
  return true;
}

// True if it was one of our keys; `good` says whether its value was.
bool take_own(const std::string& key, const std::string& value, Options& options, bool& good) {
  uint32_t flag = 0;
  if (key == "address") {
    good = parse_address(value, options.address);
  } else if (key == "gateway") {
    good = parse_address(value, options.gateway);
  } else if (key == "prefix") {
    good = parse_number(value, 0, 128, options.prefix);
  } else if (key == "vlan") {
    good = parse_number(value, 0, 4094, options.vlan);
  } else if (key == "neighbour") {
    good = parse_neighbour(value, options);
  } else if (key == "mtu") {
    good = parse_number(value, 256, 4096, options.mtu);
  } else if (key == "in_place") {  // of earlier versions: has no effect
    good = parse_number(value, 0, 1, flag);
  } else if (key == "offload") {
    good = parse_number(value, 0, 1, flag);
    options.offload = flag != 0;
  } else if (key == "huge") {
    good = parse_number(value, 0, 1, flag);
    options.huge = flag != 0 ? HugePages::always : HugePages::never;
  } else if (key == "memory") {
    good = parse_number(value, 32, 65536, options.memory_mb.emplace());
  } else if (key == "eal") {
    options.eal_arguments = value;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool is_one_of(const Options& options, std::initializer_list<const char*> drivers) {
  return std::any_of(drivers.begin(), drivers.end(), [&options](const char* driver) {
    return options.device.rfind(driver, 0) == 0;
  });
}

std::string device_argument(const Options& options, const std::string& key) {
  const std::string all = "," + options.device_arguments;
  const size_t at = all.find("," + key + "=");
  if (at == std::string::npos) return {};
  const size_t begin = at + key.size() + 2;
  return all.substr(begin, all.find(',', begin) - begin);
}

void add_device_argument(Options& options, const std::string& key, const std::string& value) {
  if (!device_argument(options, key).empty()) return;
  options.device_arguments += (options.device_arguments.empty() ? "" : ",") + key + "=" + value;
}

Result<Options> parse_options(const transport::PortOptions& options) {
  Options result;
  result.device = pci_address(options.where);
  result.is_pci = !result.device.empty();
  if (!result.is_pci) result.device = options.where;
  result.udp_port = options.udp_port;
  result.queues = options.engines;
  // With several queues, frames are dispatched by their first bytes, where telemetry would lie.
  result.telemetry_port = options.engines > 1 ? uint16_t{0} : options.telemetry_port;
  for (const auto& [key, value] : options.options) {
    bool good = true;
    if (!take_own(key, value, result, good)) {
      result.device_arguments += (result.device_arguments.empty() ? "" : ",") + key + "=" + value;
    } else if (!good) {
      return bad(key, value);
    }
  }
  if (is_memif(result)) complete_memif(result);
  if (is_vhost(result)) complete_vhost(result);
  if (is_af_packet(result)) complete_af_packet(result);
  return result;
}

}  // namespace weft::port::dpdk
