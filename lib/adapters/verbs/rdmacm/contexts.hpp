// SPDX-License-Identifier: BSD-3-Clause
// The verbs contexts of this library: one for each device, opened at the first use and then kept
// until the process ends. Other contexts of a device share its weft::Device and its addresses.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "weft/device.hpp"

namespace weft::rdmacm {

struct Context {
  ibv_context* verbs;
  Device device;
  std::vector<Gid> addresses;  // its GID table; unused entries are 0
  uint8_t gid_index = 0;       // of the device's address, from which its packets come
  // Of ids that are given none, made at the first use.
  ibv_pd* pd = nullptr;
  ibv_xrcd* xrcd = nullptr;
};

// All devices that could be opened. In a child of fork() they are opened anew.
const std::vector<std::unique_ptr<Context>>& contexts();

// The protection domain of ids that are given none; null: errno says why.
ibv_pd* default_pd(Context& context);
// The same for XRC.
ibv_xrcd* default_xrcd(Context& context);

}  // namespace weft::rdmacm
