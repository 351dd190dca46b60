// SPDX-License-Identifier: BSD-3-Clause
// The list of devices: see device_list.hpp.
#include "lib/adapters/verbs/device/device_list.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "lib/adapters/verbs/errors.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/base/device_choice.hpp"

namespace weft::drop_in {
namespace {

std::vector<std::string> device_strings() {
  const char* const list = std::getenv("WEFT_VERBS_DEVICES");
  if (list != nullptr && *list != '\0') {
    std::vector<std::string> strings = base::split_device_list(list);
    std::erase(strings, "");
    return strings;
  }
  const char* const single = std::getenv("WEFT_DEVICE");
  if (single != nullptr && *single != '\0') return {single};
  return {"roce+auto:" + base::default_interface()};
}

std::unique_ptr<DeviceEntry> entry_of(const std::string& spec, int index) {
  auto entry = std::make_unique<DeviceEntry>();
  ibv_device& device = entry->device;
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device.name, sizeof device.name, "weft%d", index);
  std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs%d", index);
  std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs%d",
                index);
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/weft%d", index);
  // In verbs a device has one address in all processes.
  entry->spec = base::with_shared_address(spec, "roce");
  // A device of the provider `ibverbs` says its own only when it is open.
  const auto guid = node_guid(entry->spec);
  entry->guid = guid ? __builtin_bswap64(*guid) : 0;
  entry->index = index;
  return entry;
}

DeviceEntry& of(ibv_device* device) { return *reinterpret_cast<DeviceEntry*>(device); }

}  // namespace

const std::vector<std::unique_ptr<DeviceEntry>>& devices() {
  // Never destroyed: a program may use its devices in handlers of exit().
  static const auto& entries = *[] {
    auto* list = new std::vector<std::unique_ptr<DeviceEntry>>;
    for (const std::string& spec : device_strings())
      list->push_back(entry_of(spec, static_cast<int>(list->size())));
    return list;
  }();
  static const bool watched = (watch_forks(), true);
  (void)watched;
  return entries;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_device** ibv_get_device_list(int* num_devices) try {
  if (num_devices != nullptr) *num_devices = 0;
  std::vector<ibv_device*> all;
  for (const auto& entry : devices()) all.push_back(&entry->device);
  if (const RealLibrary* real = real_library())
    for (ibv_device** at = real->devices; *at != nullptr; ++at) all.push_back(*at);
  auto** list = static_cast<ibv_device**>(std::calloc(all.size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) return nullptr;
  std::copy(all.begin(), all.end(), list);
  if (num_devices != nullptr) *num_devices = static_cast<int>(all.size());
  return list;
} catch (const std::bad_alloc&) {
  refuse(ENOMEM, "ibv_get_device_list", "out of memory");
  return nullptr;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) {
  WEFT_FORWARD(device, ibv_get_device_index, device);
  return of(device).index;
}

__be64 ibv_get_device_guid(ibv_device* device) {
  WEFT_FORWARD(device, ibv_get_device_guid, device);
  return of(device).guid;
}

const char* weft_verbs_device_spec(const ibv_device* device) {
  if (real_library() != nullptr && is_real(device)) return nullptr;
  return reinterpret_cast<const DeviceEntry*>(device)->spec.c_str();
}
