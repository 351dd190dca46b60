// SPDX-License-Identifier: BSD-3-Clause
// The device of the provider: one open device of a process, shared by all fabrics and domains. Its
// string is the parameter `device` (FI_WEFT_DEVICE, FI_WEFT_MSG_DEVICE), else WEFT_DEVICE, else the
// interface of the default route.
#pragma once

#include <memory>
#include <string>

#include "weft/device.hpp"
#include "weft/mr.hpp"
#include "weft/port.hpp"

namespace weft::fi {

// An open device with a protection domain, and a region of all memory of the process, with local
// rights only: callers of libfabric need not register what they send and receive.
struct OpenDevice {
  Device device;
  ProtectionDomain domain;
  MemoryRegion memory;
  PortAttributes port;  // as it was when the device was opened
};

// The protocol of the devices that this library opens: "roce" or "srd".
const char* protocol() noexcept;

// Defines the parameter `device` with libfabric.
void define_device_parameter() noexcept;
// The device of this process, opened at the first call; in a child after fork() another one.
// Errors: those of Device::open(), not_supported (another protocol; no on-demand regions).
Result<std::shared_ptr<OpenDevice>> open_device();
// An endpoint of the device is closed: see forget_device().
void note_closed() noexcept;
// Forgets the device; it is closed with the last object that uses it. Called when the process ends:
// where an endpoint was closed just before, it waits 50 ms, in which the device acknowledges once
// more what a peer sends again because the first acknowledgement was lost.
void forget_device() noexcept;

}  // namespace weft::fi
