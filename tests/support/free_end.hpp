// SPDX-License-Identifier: BSD-3-Clause
// Opens the device string of a wire with two ends, `wire?`: the first to open gets wire0. (A memif
// assigns its ends itself.)
#pragma once

#include <string>

#include "weft/device.hpp"

namespace weft::test {

inline Result<Device> open_free_end(std::string text) {
  const size_t end = text.find('?');
  if (end == text.npos) return Device::open(text);
  text[end] = '0';
  Result<Device> device = Device::open(text);
  if (device || device.error().code != Code::address_in_use) return device;
  text[end] = '1';
  return Device::open(text);
}

}  // namespace weft::test
