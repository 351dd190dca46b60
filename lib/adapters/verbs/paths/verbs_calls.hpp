// SPDX-License-Identifier: BSD-3-Clause
// Calls of the libibverbs.so.1 that is preloaded beside this library. They are looked up when the
// first file is read: this library links nothing but the C library.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace weft::paths {

// The node GUID of weftN, in host byte order; false without our libibverbs.so.1.
bool node_guid(unsigned device, uint64_t& guid) noexcept;

// weftN, open as long as this lives. A process that has it open already shares it.
class OpenDevice {
 public:
  explicit OpenDevice(unsigned device) noexcept;
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  explicit operator bool() const noexcept { return context_ != nullptr; }
  // Each returns false if the device is not open, or has no such value.
  bool query(ibv_device_attr& attributes) const noexcept;
  bool query(ibv_port_attr& port) const noexcept;
  bool query(unsigned gid_index, ibv_gid_entry& entry) const noexcept;
  bool count(const char* counter, uint64_t& value) const noexcept;

 private:
  ibv_context* context_ = nullptr;
};

}  // namespace weft::paths
