// SPDX-License-Identifier: BSD-3-Clause
// What endpoints of both providers do the same way: binding queues and counters, closing.
#pragma once

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/eq.hpp"
#include "lib/adapters/fi/common/objects.hpp"
#include "lib/adapters/fi/common/reports.hpp"

namespace weft::fi {

// fi_ep_bind of what any endpoint may be bound to; -FI_EINVAL for other objects.
template <class Endpoint>
int bind_reports(Endpoint& ep, fid& other, uint64_t flags) noexcept {
  switch (other.fclass) {
    case FI_CLASS_CQ:
      return ep.bound.bind(*static_cast<Cq*>(reinterpret_cast<fid_cq*>(&other)), flags);
    case FI_CLASS_CNTR:
      return ep.bound.bind(*static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(&other)), flags);
    default:
      return -FI_EINVAL;
  }
}

// Binds an object that counts its users, once.
template <class T>
int bind_once(T*& slot, T& object) noexcept {
  if (slot != nullptr) return -FI_EINVAL;
  slot = &object;
  ++object.users;
  return 0;
}

// fi_close.
template <class Endpoint>
int close_endpoint(Endpoint& ep) noexcept {
  Domain& domain = ep.domain;
  delete &ep;
  domain.release();
  return 0;
}

// fi_control: FI_ENABLE and the flags of operations.
template <class Endpoint>
int control_endpoint(Endpoint& ep, int command, void* arg) noexcept {
  if (command != FI_ENABLE) return ep.bound.control(command, arg);
  return guarded([&]() -> int {
    auto enabled = ep.enable();
    return enabled ? 0 : failed(FI_LOG_EP_CTRL, "fi_enable", enabled.error());
  });
}

// fi_getopt of the one option `name` that a kind of endpoint has.
inline int put_size_option(int level, int name, int own, size_t value, void* out,
                           size_t* length) noexcept {
  if (level != FI_OPT_ENDPOINT || name != own) return -FI_ENOPROTOOPT;
  if (*length < sizeof value) return -FI_ETOOSMALL;
  *static_cast<size_t*>(out) = value;
  *length = sizeof value;
  return 0;
}

using GetOption = int (*)(fid_t, int, int, void*, size_t*);
using SetOption = int (*)(fid_t, int, int, const void*, size_t);
using Cancel = ssize_t (*)(fid_t, void*);

// A table with these entries and no others.
constexpr fi_ops_ep endpoint_ops(GetOption getopt = not_implemented,
                                 SetOption setopt = not_implemented,
                                 Cancel cancel = not_implemented) noexcept {
  return {.size = sizeof(fi_ops_ep),
          .cancel = cancel,
          .getopt = getopt,
          .setopt = setopt,
          .tx_ctx = not_implemented,
          .rx_ctx = not_implemented,
          .rx_size_left = not_implemented,
          .tx_size_left = not_implemented};
}

}  // namespace weft::fi
