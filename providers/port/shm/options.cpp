// SPDX-License-Identifier: BSD-3-Clause
// Reading the keys of the shm port. See options.hpp.
#include "providers/port/shm/options.hpp"

#include <charconv>

namespace weft::port::shm {

namespace {

constexpr const char* kKeys =
    "shm.ring (bytes of payload on the way to one peer, a power of two 64k..1024m), "
    "shm.slots (frames on the way to one peer, a power of two 64..65536), "
    "shm.by_reference (0, 1 or auto), shm.threshold (payload bytes, with by_reference=1), "
    "shm.mtu (a power of two 1024..1048576, at most half of shm.ring), "
    "shm.shared (0 or 1: one address for all devices of the job that have it)";

// "8388608", "8192k" or "8m".
bool parse_size(std::string_view text, uint64_t& out) {
  uint64_t unit = 1;
  if (!text.empty() && (text.back() == 'k' || text.back() == 'm')) {
    unit = text.back() == 'k' ? 1024 : 1024 * 1024;
    text.remove_suffix(1);
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > (1u << 30)) return false;
  out = number * unit;
  return true;
}

bool power_of_two_in(uint64_t value, uint64_t low, uint64_t high) {
  return value >= low && value <= high && (value & (value - 1)) == 0;
}

bool apply(std::string_view key, std::string_view value, Options& out) {
  if (key == "by_reference") {
    out.by_reference = value == "0"   ? ByReference::never
                       : value == "1" ? ByReference::always
                                      : ByReference::measured;
    return value == "0" || value == "1" || value == "auto";
  }
  if (key == "shared") {
    out.shared = value == "1";
    return value == "0" || value == "1";
  }
  uint64_t size = 0;
  if (!parse_size(value, size)) return false;
  if (key == "ring") {
    out.ring.data_bytes = size;
  } else if (key == "slots" && size <= 65536) {
    out.ring.slots = static_cast<uint32_t>(size);
  } else if (key == "threshold" && size >= 1 && size <= kLargestMtu) {
    out.threshold = static_cast<uint32_t>(size);
  } else if (key == "mtu" && power_of_two_in(size, 1024, kLargestMtu)) {
    out.mtu = static_cast<uint32_t>(size);
  } else {
    return false;
  }
  return out.ring.valid();
}

}  // namespace

Result<Options> parse_options(const transport::PortOptions& options) {
  Options out;
  if (!options.where.empty()) out.job = options.where;
  if (out.job.size() > 48 || out.job.find_first_of("/\\") != std::string::npos)
    return Error{Code::invalid_argument,
                 "shm: the job name \"" + out.job + "\" must have 1 to 48 characters and no slash"};
  for (const auto& [key, value] : options.options)
    if (!apply(key, value, out))
      return Error{Code::invalid_argument,
                   "shm: bad option " + key + "=" + value + "; valid are " + kKeys};
  if (out.mtu > out.ring.data_bytes / 2)
    return Error{Code::invalid_argument, "shm: shm.mtu must be at most half of shm.ring"};
  return out;
}

}  // namespace weft::port::shm
