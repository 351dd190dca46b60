// SPDX-License-Identifier: BSD-3-Clause
// C API: protection domains and memory regions.
#include "lib/adapters/c/call.hpp"

using weft::c::call;
using weft::c::made;

static_assert(static_cast<int>(weft::Access::on_demand) == WEFT_ACCESS_ON_DEMAND);
static_assert(static_cast<int>(weft::Access::all) == WEFT_ACCESS_ALL);

weft_code weft_pd_create(const weft_device* device, weft_pd** pd) {
  return call({{"device", device}, {"pd", pd}},
              [&] { return made(device->it.protection_domain(), pd); });
}

void weft_pd_destroy(weft_pd* pd) { delete pd; }

weft_code weft_mr_register(const weft_pd* pd, void* address, size_t size, uint32_t access,
                           weft_mr** mr) {
  return call({{"pd", pd}, {"mr", mr}}, [&] {
    return made(pd->it.register_memory(address, size, static_cast<weft::Access>(access)), mr);
  });
}

weft_code weft_mr_register_iova(const weft_pd* pd, void* address, size_t size, uint64_t iova,
                                uint32_t access, weft_mr** mr) {
  return call({{"pd", pd}, {"mr", mr}}, [&] {
    const auto rights = static_cast<weft::Access>(access);
    return made(pd->it.register_memory_iova(address, size, iova, rights), mr);
  });
}

weft_code weft_mr_register_dmabuf(const weft_pd* pd, int fd, uint64_t offset, size_t size,
                                  uint32_t access, weft_mr** mr) {
  return call({{"pd", pd}, {"mr", mr}}, [&] {
    const auto rights = static_cast<weft::Access>(access);
    return made(pd->it.register_dmabuf(fd, offset, size, rights), mr);
  });
}

void weft_mr_deregister(weft_mr* mr) { delete mr; }

void* weft_mr_address(const weft_mr* mr) { return mr != nullptr ? mr->it.address() : nullptr; }
size_t weft_mr_size(const weft_mr* mr) { return mr != nullptr ? mr->it.size() : 0; }
uint64_t weft_mr_iova(const weft_mr* mr) { return mr != nullptr ? mr->it.iova() : 0; }
uint32_t weft_mr_lkey(const weft_mr* mr) { return mr != nullptr ? mr->it.lkey().value : 0; }
uint32_t weft_mr_rkey(const weft_mr* mr) { return mr != nullptr ? mr->it.rkey().value : 0; }

weft_sge weft_mr_sge(const weft_mr* mr, size_t offset, uint32_t length) {
  if (mr == nullptr) return {};
  const weft::Sge it = mr->it.sge(offset, length);
  return {it.address, it.length, it.lkey.value};
}
