// SPDX-License-Identifier: BSD-3-Clause
// One table of keys: name, place, range.
#include "providers/port/udp/options.hpp"

#include <charconv>
#include <string>

namespace weft::port::udp {
namespace {

struct Key {
  const char* name;
  uint32_t Options::*place;
  uint32_t smallest;
  uint32_t largest;
};

constexpr Key kKeys[] = {
    {"sndbuf", &Options::sndbuf, 65536, 1u << 30},
    {"rcvbuf", &Options::rcvbuf, 65536, 1u << 30},
    {"gso", &Options::gso, 0, 1},
    {"gro", &Options::gro, 0, 1},
    {"batch", &Options::batch, 1, 64},
    {"busy_poll", &Options::busy_poll, 0, 1'000'000},
    {"shared", &Options::shared, 0, 1},
    {"switched", &Options::switched, 0, 1},
    {"check_senders", &Options::check_senders, 0, 1},
    {"mtu", &Options::mtu, 256, 65'000},
    {"ports", &Options::ports, 1, 16384},
};

std::string describe_keys() {
  std::string text;
  for (const Key& key : kKeys) {
    text += (text.empty() ? "" : ", ") + std::string(key.name) + "=" +
            std::to_string(key.smallest) + ".." + std::to_string(key.largest);
  }
  return text;
}

}  // namespace

Result<Options> parse_options(const transport::PortOptions& options) {
  Options result;
  for (const auto& [name, value] : options.options) {
    const Key* found = nullptr;
    for (const Key& key : kKeys)
      if (name == key.name) found = &key;
    if (found == nullptr)
      return Error{Code::invalid_argument,
                   "udp has no option '" + name + "'; valid: " + describe_keys()};
    uint32_t number = 0;
    const char* end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, number);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == end;
    if (!whole || number < found->smallest || number > found->largest)
      return Error{Code::invalid_argument,
                   "udp option " + name + "='" + value +
                       "' is not a number in its range; valid: " + describe_keys()};
    result.*(found->place) = number;
  }
  return result;
}

}  // namespace weft::port::udp
