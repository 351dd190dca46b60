// SPDX-License-Identifier: BSD-3-Clause
// See host.hpp.
#include "tools/switch/host.hpp"

namespace weft::bench {

Result<std::unique_ptr<Host>> Host::open(const std::string& spec, size_t bytes) {
  Result<Device> device = Device::open(spec);
  if (!device) return device.error();
  Result<CompletionQueue> cq = device->completion_queue({.capacity = 256});
  Result<ProtectionDomain> pd = device->protection_domain();
  if (!cq || !pd) return cq ? pd.error() : cq.error();
  std::vector<std::byte> memory(bytes);
  Result<MemoryRegion> region = pd->register_memory(memory.data(), memory.size(), Access::all);
  if (!region) return region.error();
  return std::unique_ptr<Host>(new Host{*device, *cq, *pd, std::move(memory), *region});
}

}  // namespace weft::bench
