// SPDX-License-Identifier: BSD-3-Clause
// See verbs_calls.hpp.
#include "lib/adapters/verbs/paths/verbs_calls.hpp"

#include <dlfcn.h>
#include <endian.h>

#include <cstdio>
#include <cstring>

#include "lib/adapters/verbs/counters.hpp"

namespace weft::paths {
namespace {

// The functions of ours, or null: a real libibverbs.so.1 knows no counters of weft.
template <class Function>
Function* function(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

#define WEFT_CALL(name) function<decltype(name)>(#name)

bool is_ours() noexcept { return WEFT_CALL(weft_verbs_counter) != nullptr; }

// Calls use(device) with weftN, if there is one.
template <class Use>
void with_device(unsigned number, Use use) noexcept {
  if (!is_ours()) return;
  const auto list_of = WEFT_CALL(ibv_get_device_list);
  const auto free_list = WEFT_CALL(ibv_free_device_list);
  const auto name_of = WEFT_CALL(ibv_get_device_name);
  if (list_of == nullptr || free_list == nullptr || name_of == nullptr) return;
  char wanted[32];
  std::snprintf(wanted, sizeof wanted, "weft%u", number);
  ibv_device** const list = list_of(nullptr);
  for (ibv_device** device = list; device != nullptr && *device != nullptr; ++device)
    if (std::strcmp(name_of(*device), wanted) == 0) use(*device);
  if (list != nullptr) free_list(list);
}

}  // namespace

bool node_guid(unsigned device, uint64_t& guid) noexcept {
  bool found = false;
  with_device(device, [&](ibv_device* each) {
    const auto guid_of = WEFT_CALL(ibv_get_device_guid);
    if (guid_of == nullptr) return;
    guid = be64toh(guid_of(each));
    found = true;
  });
  return found;
}

OpenDevice::OpenDevice(unsigned device) noexcept {
  with_device(device, [this](ibv_device* each) {
    if (const auto open = WEFT_CALL(ibv_open_device)) context_ = open(each);
  });
}

OpenDevice::~OpenDevice() {
  if (context_ != nullptr) WEFT_CALL(ibv_close_device)(context_);
}

bool OpenDevice::query(ibv_device_attr& attributes) const noexcept {
  const auto query_device = WEFT_CALL(ibv_query_device);
  return context_ != nullptr && query_device != nullptr && query_device(context_, &attributes) == 0;
}

bool OpenDevice::query(ibv_port_attr& port) const noexcept {
  if (context_ == nullptr) return false;
  const verbs_context* const verbs = verbs_get_ctx_op(context_, query_port);
  return verbs != nullptr && verbs->query_port(context_, 1, &port, sizeof port) == 0;
}

bool OpenDevice::query(unsigned gid_index, ibv_gid_entry& entry) const noexcept {
  const auto query_gid = WEFT_CALL(_ibv_query_gid_ex);
  return context_ != nullptr && query_gid != nullptr &&
         query_gid(context_, 1, gid_index, &entry, 0, sizeof entry) == 0;
}

bool OpenDevice::count(const char* counter, uint64_t& value) const noexcept {
  const auto counter_of = WEFT_CALL(weft_verbs_counter);
  return context_ != nullptr && counter_of != nullptr && counter_of(context_, counter, &value) == 0;
}

}  // namespace weft::paths
