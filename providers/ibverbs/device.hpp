// SPDX-License-Identifier: BSD-3-Clause
// Finding a device and a port of it that can be used, with an error for each reason why one
// cannot: no library, no device, another name, no right to open it, a port that is down or has no
// address, a kind of network that is not addressed by GIDs alone.
#pragma once

#include <memory>
#include <string>

#include "providers/ibverbs/context/ibverbs_context.hpp"
#include "providers/ibverbs/gid.hpp"

namespace weft::ibverbs {

// The devices of this machine that libibverbs has a driver for.
class DeviceList {
 public:
  // Error: not_found (none; says how to get one).
  static Result<DeviceList> read(const Library& library);

  std::span<ibv_device* const> devices() const noexcept {
    return {list_.get(), static_cast<size_t>(count_)};
  }
  // The device of that name, the only one if `name` is empty. Error: not_found, which lists them.
  Result<ibv_device*> find(const std::string& name) const;
  std::string names() const;

 private:
  using List = std::unique_ptr<ibv_device*[], void (*)(ibv_device**)>;
  DeviceList(List list, int count) : list_(std::move(list)), count_(count) {}
  List list_;
  int count_;
};

// Errors: permission_denied, not_found, io_error.
Result<Owned<ibv_context>> open_device(const Library& library, ibv_device& device);

// Has no RC: it is opened for SRD.
bool is_efa(const ibv_device_attr& device) noexcept;

// siw (6.1) gives the queues of an open device consecutive mmap keys, and the number that its
// part of libibverbs takes for "no key" is one of them: about the 72nd queue pair and all
// later ones cannot be created. Returns an unused completion queue that occupies that key while
// the device is open: 1 MiB of the kernel's memory. Null for other devices.
Owned<ibv_cq> reserve_siw_mmap_key(const Library& library, ibv_context& context,
                                   const ibv_device_attr& device);

// Port and GID that a device string selects.
struct PortSelection {
  uint32_t port = 1;
  std::optional<uint32_t> gid_index;
  bool srd = false;
};

struct UsablePort {
  PortChoice choice;
  DeviceAttributes attributes;  // all but what the device string looks like
  ibv_device_attr device{};     // what they were made from
  ibv_port_attr port{};
};

// Errors: invalid_argument (no such port or GID), not_supported (InfiniBand), io_error (the
// port is down), not_found (it has no address).
Result<UsablePort> inspect_port(const Library& library, ibv_context& context,
                                const PortSelection& wanted);

}  // namespace weft::ibverbs
