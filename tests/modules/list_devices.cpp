// SPDX-License-Identifier: BSD-3-Clause
// A program that lists devices and opens one over udp, for modules_test.py, which looks at what it
// loads.
#include <cstdio>

#include "weft/weft.hpp"

int main() {
  for (const weft::DeviceListing& row : weft::list_devices())
    std::printf("%s: %s\n", row.spec.c_str(), row.usable ? "usable" : row.reason.c_str());
  const weft::Result<weft::Device> device = weft::Device::open("roce+udp:lo");
  if (!device) std::printf("%s\n", device.error().message.c_str());
  return device ? 0 : 1;
}
