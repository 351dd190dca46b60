// SPDX-License-Identifier: BSD-3-Clause
// A device of this process that hangs on a switch, with what its traffic needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace weft::bench {

struct Host {
  // `bytes` of memory, all of it registered.
  static Result<std::unique_ptr<Host>> open(const std::string& spec, size_t bytes);

  Device device;
  CompletionQueue cq;
  ProtectionDomain pd;
  std::vector<std::byte> memory;
  MemoryRegion region;
};

}  // namespace weft::bench
