// SPDX-License-Identifier: BSD-3-Clause
// Memory regions.
#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/memory/access.hpp"
#include "lib/adapters/verbs/references.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace weft::drop_in {
namespace {

// The kernel says EFAULT for memory that is not mapped or is read-only.
ibv_mr* refuse_region(const char* call, const Error& error) noexcept {
  if (error.code != Code::permission_denied) return refuse_null<ibv_mr>(call, error);
  return refuse_null<ibv_mr>(EFAULT, call, "%s", error.message.c_str());
}

ibv_mr* made(ibv_pd* verbs, MemoryRegion region, void* address, uint64_t iova, unsigned access) {
  static std::atomic<uint32_t> last_handle{0};
  auto* mr = new Mr{.mr = {.context = verbs->context,
                           .pd = verbs,
                           .addr = address,
                           .length = region.size(),
                           .handle = ++last_handle,
                           .lkey = region.lkey().value,
                           .rkey = region.rkey().value},
                    .region = region,
                    .access = access,
                    .iova = iova};
  ++of(verbs).users;
  retain(context_of(verbs->context));
  return &mr->mr;
}

ibv_mr* register_region(const char* call, ibv_pd* verbs, void* address, size_t length,
                        uint64_t iova, unsigned access) noexcept {
  return without_exceptions(call, [&]() -> ibv_mr* {
    if ((access & ~(kAccessOfRegion | kAccessWithoutEffect)) != 0)
      return refuse_null<ibv_mr>(EINVAL, call, "access 0x%x has unknown bits", access);
    if (length == 0) return refuse_null<ibv_mr>(EINVAL, call, "length is 0");
    if ((access & IBV_ACCESS_ZERO_BASED) != 0 || iova != reinterpret_cast<uintptr_t>(address))
      return refuse_null<ibv_mr>(EOPNOTSUPP, call, "iova 0x%llx is not the address %p",
                                 static_cast<unsigned long long>(iova), address);
    auto region = of(verbs).domain.register_memory(address, length, access_of(access));
    if (!region) return refuse_region(call, region.error());
    return made(verbs, *region, address, iova, access);
  });
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges,
              uint32_t count) noexcept {
  constexpr const char* kCall = "ibv_advise_mr";
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return refuse(EOPNOTSUPP, kCall, "advice %u is not known", unsigned{advice});
  if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0)
    return refuse(EINVAL, kCall, "flags 0x%x have unknown bits", flags);
  if (count == 0 || sges == nullptr || pd == nullptr)
    return refuse(EINVAL, kCall, "the list of entries is empty");
  return 0;  // no page needs to be fetched for the device
}

}  // namespace

void set_memory_operations(verbs_context& verbs) noexcept { verbs.advise_mr = advise_mr; }

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return register_region("ibv_reg_mr", pd, address, length, reinterpret_cast<uintptr_t>(address),
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return register_region("ibv_reg_mr_iova", pd, address, length, iova,
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  return register_region("ibv_reg_mr_iova2", pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  constexpr const char* kCall = "ibv_reg_dmabuf_mr";
  return without_exceptions(kCall, [&]() -> ibv_mr* {
    auto region =
        of(pd).domain.register_dmabuf(fd, offset, length, access_of(static_cast<unsigned>(access)),
                                      reinterpret_cast<void*>(iova));
    if (!region) return refuse_region(kCall, region.error());
    return made(pd, *region, region->address(), iova, static_cast<unsigned>(access));
  });
}

int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, size_t, int) {
  not_supported("ibv_rereg_mr", "a region cannot be changed: register another one");
  return -1;
}

int ibv_dereg_mr(ibv_mr* verbs) {
  Context& context = context_of(verbs->context);
  --of(verbs->pd).users;
  delete &of(verbs);
  release(context);
  return 0;
}
