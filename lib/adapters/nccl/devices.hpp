// SPDX-License-Identifier: BSD-3-Clause
// The devices that NCCL is shown: those of the device strings in WEFT_DEVICE, with a semicolon
// between two; without it srd+auto on the interface of the default route. They are opened once per
// process, and again in a child process. A device with several addresses (rails=) is one device
// with the speed of all. makeVDevice() adds devices whose connections have a queue pair on each
// member.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/adapters/nccl/calls.hpp"
#include "weft/device.hpp"
#include "weft/mr.hpp"

namespace weft::nccl {

struct OpenDevice {
  Device device;
  ProtectionDomain domain;

  // Logs what has become of the port and the device since the last call. Any thread.
  void log_events() const;
};

// A device as NCCL sees it.
struct NetDevice {
  std::string name;      // its device string without keys; NCCL needs names that differ
  std::string pci_path;  // empty: virtual
  uint64_t guid = 0;
  uint32_t speed_mbps = 0;
  int max_comms = 0;
  uint32_t max_part = 0;                             // bytes of one WRITE
  std::vector<int> members;                          // indices; of a device that is one: itself
  std::vector<std::shared_ptr<OpenDevice>> devices;  // of the members, a lane each

  const DeviceAttributes& attributes() const { return devices.front()->device.attributes(); }
  // The device strings of the members without keys, in the form of WEFT_DEVICE.
  std::string spec() const;
};

// Any thread.
class DeviceList {
 public:
  static DeviceList& of_process();

  // Opens the devices, if they are not open. Error: not_found (none is usable; each reason is in
  // the log).
  Result<void> open();
  int size();
  // How many have no PCI device.
  int without_pci();
  // Error: invalid_argument. The device stays where it is.
  Result<const NetDevice*> at(int index);
  // The index of a device of these, which is added if it is new. Error: mismatch.
  Result<int> merge(std::span<const int> members);

 private:
  std::string unique(const std::string& name) const;

  std::mutex mutex_;
  int process_ = 0;
  std::deque<NetDevice> list_;  // references stay valid
};

}  // namespace weft::nccl
