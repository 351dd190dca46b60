// SPDX-License-Identifier: BSD-3-Clause
// See contexts.hpp.
#include "lib/adapters/verbs/rdmacm/contexts.hpp"

#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "lib/adapters/verbs/objects.hpp"
#include "lib/adapters/verbs/rdmacm/calls.hpp"

namespace weft::rdmacm {

namespace {

using Contexts = std::vector<std::unique_ptr<Context>>;

std::vector<Gid> addresses_of(ibv_context* verbs) {
  ibv_port_attr port{};
  if (ibv_query_port(verbs, 1, &port) != 0) return {};
  std::vector<Gid> found;
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    ibv_gid raw{};
    Gid gid;
    if (ibv_query_gid(verbs, 1, i, &raw) == 0)
      std::memcpy(gid.bytes.data(), raw.raw, gid.bytes.size());
    found.push_back(gid);
  }
  return found;
}

Contexts open_all() {
  Contexts opened;
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) return opened;
  for (ibv_device** at = list; *at != nullptr; ++at) {
    if (weft_verbs_device_spec(*at) == nullptr) continue;  // of the system's library
    ibv_context* const verbs = ibv_open_device(*at);
    if (verbs == nullptr) continue;  // ibv_open_device has said why
    auto context = std::make_unique<Context>(Context{
        .verbs = verbs, .device = weft_verbs_device(verbs), .addresses = addresses_of(verbs)});
    const auto& all = context->addresses;
    const auto own = std::find(all.begin(), all.end(), context->device.attributes().gid);
    context->gid_index = static_cast<uint8_t>(own != all.end() ? own - all.begin() : 0);
    opened.push_back(std::move(context));
  }
  ibv_free_device_list(list);
  return opened;
}

std::mutex& lock() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

const Contexts& contexts() {
  // Never destroyed: programs destroy ids in handlers of exit(). The contexts of the parent of a
  // fork() are not usable in the child, nor can they be closed there.
  static const Contexts* opened = nullptr;
  static pid_t opened_by = 0;
  const std::lock_guard hold(lock());
  if (opened == nullptr || opened_by != getpid() || opened->empty()) {
    opened = new Contexts(open_all());
    opened_by = getpid();
  }
  return *opened;
}

ibv_pd* default_pd(Context& context) {
  const std::lock_guard hold(lock());
  if (context.pd == nullptr) context.pd = ibv_alloc_pd(context.verbs);
  return context.pd;
}

ibv_xrcd* default_xrcd(Context& context) {
  const std::lock_guard hold(lock());
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;  // of this process only
  attr.oflags = O_CREAT;
  if (context.xrcd == nullptr) context.xrcd = ibv_open_xrcd(context.verbs, &attr);
  return context.xrcd;
}

}  // namespace weft::rdmacm

using namespace weft::rdmacm;

ibv_context** rdma_get_devices(int* num_devices) {
  return guarded<ibv_context**>("rdma_get_devices", nullptr, [&]() -> ibv_context** {
    if (num_devices != nullptr) *num_devices = 0;
    const auto& all = contexts();
    auto** const list = static_cast<ibv_context**>(std::calloc(all.size() + 1, sizeof(void*)));
    if (list == nullptr) return refuse(ENOMEM, "rdma_get_devices", "out of memory"), nullptr;
    for (size_t i = 0; i < all.size(); ++i) list[i] = all[i]->verbs;
    if (num_devices != nullptr) *num_devices = static_cast<int>(all.size());
    return list;
  });
}

void rdma_free_devices(ibv_context** list) { std::free(list); }
