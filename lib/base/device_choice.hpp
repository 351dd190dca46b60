// SPDX-License-Identifier: BSD-3-Clause
// Which devices a program that names none, or a list, means: for weft-run and the adapters, which
// use no other symbol of libweft.so than the public ones, and so compile this themselves.
#pragma once

#include <net/route.h>

#include <cstdint>
#include <fstream>
#include <istream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace weft::base {

// The interface of the IPv4 default route with the lowest metric in a table of the form of
// /proc/net/route, the first of equals; lo if there is none. A route that is down counts for none,
// nor does one that refuses packets (`ip route add unreachable default`): its interface is `*`.
inline std::string interface_of_default_route(std::istream& routes) {
  std::string line, interface = "lo";
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  std::getline(routes, line);  // the heading
  while (std::getline(routes, line)) {
    std::istringstream columns(line);
    std::string name;
    uint64_t destination = 0, gateway = 0, flags = 0, references = 0, use = 0, metric = 0, mask = 0;
    columns >> name >> std::hex >> destination >> gateway >> flags >> std::dec >> references >>
        use >> metric >> std::hex >> mask;
    const bool is_default = columns && destination == 0 && mask == 0;
    if (!is_default || (flags & (RTF_UP | RTF_REJECT)) != RTF_UP || metric >= lowest) continue;
    interface = name;
    lowest = metric;
  }
  return interface;
}

inline std::string default_interface() {
  std::ifstream routes("/proc/net/route");
  return interface_of_default_route(routes);
}

// The device strings of a list "A;B", also the empty ones.
inline std::vector<std::string> split_device_list(const std::string& list) {
  std::vector<std::string> devices;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = list.find(';', begin);
    devices.push_back(list.substr(begin, end - begin));
  }
  return devices;
}

// The device string with udp.shared=1 or shm.shared=1 where it means `protocol` over UDP on the
// loopback interface (udp, auto), or over shared memory, and does not say: so all processes of a
// user have one address, as a device has one for all.
inline std::string with_shared_address(const std::string& spec, const std::string& protocol) {
  const size_t comma = spec.find(',');
  const std::string name = spec.substr(0, comma);
  const auto is_on_loopback = [&](const std::string& port) {
    return name == protocol + port || name == protocol + port + ":" ||
           name == protocol + port + ":lo";
  };
  const bool loopback = is_on_loopback("") || is_on_loopback("+udp") || is_on_loopback("+auto");
  const std::string memory = protocol + "+shm";
  const bool shm = name.compare(0, memory.size(), memory) == 0;
  const std::string key = loopback ? "udp.shared" : shm ? "shm.shared" : "";
  if (key.empty() || spec.find(key) != std::string::npos) return spec;
  return name + "," + key + "=1" + (comma == std::string::npos ? "" : spec.substr(comma));
}

}  // namespace weft::base
