// SPDX-License-Identifier: BSD-3-Clause
// Memory regions: registration in all ways but of device memory, and changes.
#include "lib/adapters/verbs/memory/memory.hpp"

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "lib/adapters/verbs/abi/newer.hpp"
#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/memory/access.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace weft::drop_in {

bool is_known_access(const char* call, unsigned access) noexcept {
  if ((access & ~(kAccessOfRegion | kAccessWithoutEffect)) == 0) return true;
  refuse(EINVAL, call, "access 0x%x has unknown bits", access);
  return false;
}

Mr* made_region(ibv_pd* verbs, const MemoryRegion& region, void* address) {
  static std::atomic<uint32_t> last_handle{0};
  auto mr = std::unique_ptr<Mr>(new Mr{.mr = {.context = verbs->context,
                                              .pd = verbs,
                                              .addr = address,
                                              .length = region.size(),
                                              .handle = ++last_handle,
                                              .lkey = region.lkey().value,
                                              .rkey = region.rkey().value},
                                       .region = region});
  Context& context = context_of(verbs->context);
  Adoption adoption(context, mr.get(), Kind::mr);
  {
    const std::lock_guard guard(context.entry->lock);
    context.entry->mrs[mr->mr.lkey] = mr.get();
  }
  adoption.keep();
  of(verbs).users.add(1);
  return mr.release();
}

namespace {

// Under DeviceEntry::lock. Null: no region has the key.
const Mr* find_region(const DeviceEntry& device, uint32_t lkey) noexcept {
  const auto found = device.mrs.find(lkey);
  return found == device.mrs.end() ? nullptr : found->second;
}

// A parent domain is the domain that it was made of.
bool is_of_domain(const Mr& mr, const ibv_pd& pd) noexcept {
  const auto& domain = reinterpret_cast<const Pd&>(pd).domain;
  return of(mr.mr.pd).domain.impl() == domain.impl();
}

bool is_within(const Mr& mr, const ibv_sge& entry) noexcept {
  const uint64_t offset = entry.addr - mr.region.iova();
  return offset <= mr.region.size() && entry.length <= mr.region.size() - offset;
}

}  // namespace

bool copy_local(const ibv_pd& pd, const ibv_sge& entry, void* to) noexcept {
  const DeviceEntry& device = *context_of(pd.context).entry;
  const std::lock_guard guard(device.lock);
  const Mr* const mr = find_region(device, entry.lkey);
  if (mr == nullptr || !is_of_domain(*mr, pd) || !is_within(*mr, entry)) return false;
  const auto* bytes = static_cast<const std::byte*>(mr->region.address());
  if (mr->is_null)
    std::memset(to, 0, entry.length);
  else
    std::memcpy(to, bytes + (entry.addr - mr->region.iova()), entry.length);
  return true;
}

namespace {

// The kernel says EFAULT for memory that is not mapped or is read-only.
int errno_of_region(const Error& error) noexcept {
  return error.code == Code::permission_denied ? EFAULT : errno_of(error.code);
}
ibv_mr* refuse_region(const char* call, const Error& error) noexcept {
  return refuse_null<ibv_mr>(errno_of_region(error), call, "%s", error.message.c_str());
}

ibv_mr* register_region(const char* call, ibv_pd* verbs, void* address, size_t length,
                        uint64_t iova, unsigned access) noexcept {
  return without_exceptions(call, [&]() -> ibv_mr* {
    if (!is_known_access(call, access)) return nullptr;
    if (length == 0) return refuse_null<ibv_mr>(EINVAL, call, "length is 0");
    const bool is_zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
    const bool is_plain = is_zero_based || iova == reinterpret_cast<uintptr_t>(address);
    const ProtectionDomain& domain = of(verbs).domain;
    auto region = is_plain ? domain.register_memory(address, length, access_of(access))
                           : domain.register_memory_iova(address, length, iova, access_of(access));
    if (!region) return refuse_region(call, region.error());
    Mr* mr = made_region(verbs, *region, address);
    mr->access = access;
    mr->is_changeable = true;
    return &mr->mr;
  });
}

ibv_mr* alloc_null_mr(ibv_pd* verbs) noexcept {
  constexpr const char* kCall = "ibv_alloc_null_mr";
  return without_exceptions(kCall, [&]() -> ibv_mr* {
    auto region = of(verbs).domain.null_region();
    if (!region) return refuse_region(kCall, region.error());
    Mr* mr = made_region(verbs, *region, nullptr);
    mr->is_null = true;
    return &mr->mr;
  });
}

int check_change(const Mr& mr, int flags, const ibv_pd* pd, const void* address, size_t length,
                 int access) noexcept {
  constexpr const char* kCall = "ibv_rereg_mr";
  if (!mr.is_changeable)
    return refuse(EINVAL, kCall, "only regions of ibv_reg_mr and ibv_reg_mr_iova can change");
  if ((flags & ~int{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0 || flags == 0)
    return refuse(EINVAL, kCall, "flags 0x%x", static_cast<unsigned>(flags));
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (length == 0 || address == nullptr))
    return refuse(EINVAL, kCall, "CHANGE_TRANSLATION needs addr and length");
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr)
    return refuse(EINVAL, kCall, "CHANGE_PD needs pd");
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0)
    return refuse(EINVAL, kCall, "access without CHANGE_ACCESS");
  return is_known_access(kCall, static_cast<unsigned>(access)) ? 0 : EINVAL;
}

// A change of nothing is refused where windows are bound.
bool has_bound_windows(const Mr& mr) {
  if (of(mr.mr.pd).windows.count() == 0) return false;
  const auto changed = MemoryRegion(mr.region).reregister({});
  return !changed && changed.error().code == Code::busy;
}

// After a change, in which a device of the kernel may give other keys.
void note_keys(Mr& mr) {
  DeviceEntry& device = *context_of(mr.mr.context).entry;
  const std::lock_guard guard(device.lock);
  auto node = device.mrs.extract(mr.mr.lkey);
  mr.mr.lkey = mr.region.lkey().value;
  mr.mr.rkey = mr.region.rkey().value;
  if (node.empty()) return;  // in a child of fork()
  node.key() = mr.mr.lkey;
  device.mrs.insert(std::move(node));
}

int change_region(Mr& mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  Reregistration change;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
    change.translation = {
        .address = address, .size = length, .iova = reinterpret_cast<uintptr_t>(address)};
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) change.domain = &of(pd).domain;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
    change.access = access_of(static_cast<unsigned>(access));
  const auto changed = mr.region.reregister(change);
  if (!changed) {
    refuse(errno_of_region(changed.error()), "ibv_rereg_mr", "%s", changed.error().message.c_str());
    return IBV_REREG_MR_ERR_CMD;
  }
  note_keys(mr);
  if (change.translation) {
    mr.mr.addr = address;
    mr.mr.length = length;
  }
  if (change.domain != nullptr) {
    of(mr.mr.pd).users.remove();
    of(pd).users.add(1);
    mr.mr.pd = pd;
  }
  if (change.access) mr.access = static_cast<unsigned>(access);
  return 0;
}

// No page needs to be fetched for a device in software: an entry is right or wrong. Under
// DeviceEntry::lock.
int check_advice(const char* call, const DeviceEntry& device, const ibv_pd& pd, bool writes,
                 const ibv_sge& entry) noexcept {
  const Mr* const mr = find_region(device, entry.lkey);
  if (mr == nullptr) return refuse(EFAULT, call, "no region has the lkey 0x%x", entry.lkey);
  if (!is_of_domain(*mr, pd))
    return refuse(EPERM, call, "the region of lkey 0x%x is of another domain", entry.lkey);
  if ((mr->access & IBV_ACCESS_ON_DEMAND) == 0)
    return refuse(EINVAL, call, "the region of lkey 0x%x is not ON_DEMAND", entry.lkey);
  if (!is_within(*mr, entry))
    return refuse(EFAULT, call, "%u bytes at 0x%llx are not within the region of lkey 0x%x",
                  entry.length, static_cast<unsigned long long>(entry.addr), entry.lkey);
  if (writes && (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return refuse(EPERM, call, "the region of lkey 0x%x lacks LOCAL_WRITE", entry.lkey);
  return 0;
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
  const DeviceEntry& device = *context_of(pd->context).entry;
  const std::lock_guard guard(device.lock);
  for (const ibv_sge& entry : std::span(sges, count))
    if (const int error =
            check_advice(kCall, device, *pd, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, entry))
      return error;
  return 0;
}

}  // namespace

void set_memory_operations(verbs_context& verbs) noexcept {
  verbs.advise_mr = advise_mr;
  verbs.alloc_null_mr = alloc_null_mr;
  set_device_memory_operations(verbs);
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  WEFT_FORWARD(pd->context, ibv_reg_mr, pd, address, length, access);
  return register_region("ibv_reg_mr", pd, address, length, reinterpret_cast<uintptr_t>(address),
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  WEFT_FORWARD(pd->context, ibv_reg_mr_iova, pd, address, length, iova, access);
  return register_region("ibv_reg_mr_iova", pd, address, length, iova,
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  WEFT_FORWARD(pd->context, ibv_reg_mr_iova2, pd, address, length, iova, access);
  return register_region("ibv_reg_mr_iova2", pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  WEFT_FORWARD(pd->context, ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
  constexpr const char* kCall = "ibv_reg_dmabuf_mr";
  const auto flags = static_cast<unsigned>(access);
  return without_exceptions(kCall, [&]() -> ibv_mr* {
    if (!is_known_access(kCall, flags)) return nullptr;
    if (iova == 0) return refuse_null<ibv_mr>(EOPNOTSUPP, kCall, "iova 0: choose another address");
    auto region = of(pd).domain.register_dmabuf(fd, offset, length, access_of(flags),
                                                reinterpret_cast<void*>(iova));
    if (!region) return refuse_region(kCall, region.error());
    return &made_region(pd, *region, nullptr)->mr;
  });
}

ibv_mr* weft_reg_mr_ex(ibv_pd* pd, MrInitAttr* attr) {
  constexpr const char* kCall = "ibv_reg_mr_ex";
  if (real_library() != nullptr && real_library()->ibv_reg_mr_ex != nullptr)
    WEFT_FORWARD(pd->context, ibv_reg_mr_ex, pd, attr);
  if (real_library() != nullptr && is_real(pd->context))
    return refuse_null<ibv_mr>(EOPNOTSUPP, kCall, "the system's library has none");
  const auto has = [&](uint64_t bit) { return (attr->comp_mask & bit) != 0; };
  const auto mask = static_cast<unsigned long long>(attr->comp_mask);
  if (attr->comp_mask >= kMrBuf * 2)
    return refuse_null<ibv_mr>(EINVAL, kCall, "comp_mask 0x%llx has unknown bits", mask);
  if (has(kMrDmah) || has(kMrBuf))
    return refuse_null<ibv_mr>(EOPNOTSUPP, kCall, "the device has no DMA handles and no buffers");
  if (has(kMrAddr) == has(kMrFd) || has(kMrFd) != has(kMrFdOffset))
    return refuse_null<ibv_mr>(EINVAL, kCall, "comp_mask 0x%llx: either ADDR or FD and FD_OFFSET",
                               mask);
  if (has(kMrFd)) {
    if (!has(kMrIova)) return refuse_null<ibv_mr>(EINVAL, kCall, "FD needs IOVA");
    return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access);
  }
  const uint64_t iova = has(kMrIova) ? attr->iova : reinterpret_cast<uintptr_t>(attr->addr);
  return register_region(kCall, pd, attr->addr, attr->length, iova,
                         static_cast<unsigned>(attr->access));
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  WEFT_FORWARD(mr->context, ibv_rereg_mr, mr, flags, pd, address, length, access);
  if (check_change(of(mr), flags, pd, address, length, access) != 0) return IBV_REREG_MR_ERR_INPUT;
  const int error = without_exceptions(
      "ibv_rereg_mr", [&] { return change_region(of(mr), flags, pd, address, length, access); });
  return error == ENOMEM ? int{IBV_REREG_MR_ERR_CMD} : error;
}

int ibv_dereg_mr(ibv_mr* verbs) {
  WEFT_FORWARD(verbs->context, ibv_dereg_mr, verbs);
  constexpr const char* kCall = "ibv_dereg_mr";
  if (const int error = check_exists(kCall, verbs, Kind::mr)) return error;
  if (has_bound_windows(of(verbs))) return refuse(EBUSY, kCall, "windows are bound to the region");
  Context& context = context_of(verbs->context);
  {
    const std::lock_guard guard(context.entry->lock);
    erase_own(context.entry->mrs, verbs->lkey, &of(verbs));
  }
  of(verbs->pd).users.remove();
  if (of(verbs).memory != nullptr) of(verbs).memory->users.remove();
  forget(verbs);
  delete &of(verbs);
  release(context);
  return 0;
}
