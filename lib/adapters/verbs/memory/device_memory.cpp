// SPDX-License-Identifier: BSD-3-Clause
// Memory of the device (ibv_alloc_dm): a device in software has none of its own, so it is memory of
// this process that the program has no address of. Requests and peers name its bytes from 0 on.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/memory/access.hpp"
#include "lib/adapters/verbs/memory/memory.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr uint32_t kLogAlignment = 12;
constexpr size_t kAlignment = size_t{1} << kLogAlignment;

struct Free {
  void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
};

bool is_within(const Dm& dm, uint64_t offset, size_t length) noexcept {
  return offset <= dm.size && length <= dm.size - offset;
}

int check_copy(const char* call, const Dm& dm, uint64_t offset, size_t length) noexcept {
  if (is_within(dm, offset, length) && offset % 4 == 0 && length % 4 == 0) return 0;
  return refuse(EINVAL, call, "%zu bytes at %llu of %zu: multiples of 4", length,
                static_cast<unsigned long long>(offset), dm.size);
}

int copy_to(ibv_dm* verbs, uint64_t offset, const void* from, size_t length) noexcept {
  Dm& dm = of(verbs);
  if (const int error = check_copy("ibv_memcpy_to_dm", dm, offset, length)) return error;
  std::memcpy(dm.bytes + offset, from, length);
  return 0;
}

int copy_from(void* to, ibv_dm* verbs, uint64_t offset, size_t length) noexcept {
  const Dm& dm = of(verbs);
  if (const int error = check_copy("ibv_memcpy_from_dm", dm, offset, length)) return error;
  std::memcpy(to, dm.bytes + offset, length);
  return 0;
}

int check(const char* call, const ibv_alloc_dm_attr& attr) noexcept {
  if (attr.comp_mask != 0)
    return refuse(EINVAL, call, "comp_mask is 0x%x, and must be 0", attr.comp_mask);
  if (attr.length == 0 || attr.length > kMaxDeviceMemory)
    return refuse(EINVAL, call, "length %zu: from 1 to %zu", attr.length, kMaxDeviceMemory);
  if (attr.log_align_req > kLogAlignment)
    return refuse(EINVAL, call, "log_align_req is %u, and at most %u", attr.log_align_req,
                  kLogAlignment);
  return 0;
}

ibv_dm* alloc_dm(ibv_context* verbs, ibv_alloc_dm_attr* attr) noexcept {
  constexpr const char* kCall = "ibv_alloc_dm";
  if (check(kCall, *attr) != 0) return nullptr;
  const size_t size = (attr->length + kAlignment - 1) / kAlignment * kAlignment;
  return without_exceptions(kCall, [&]() -> ibv_dm* {
    std::unique_ptr<std::byte, Free> bytes(
        static_cast<std::byte*>(std::aligned_alloc(kAlignment, size)));
    if (bytes == nullptr) return refuse_null<ibv_dm>(ENOMEM, kCall, "out of memory");
    std::memset(bytes.get(), 0, size);
    auto dm = std::unique_ptr<Dm>(
        new Dm{.dm = {.context = verbs, .memcpy_to_dm = copy_to, .memcpy_from_dm = copy_from},
               .bytes = bytes.get(),
               .size = attr->length});
    adopt(context_of(verbs), dm.get(), Kind::dm);
    (void)bytes.release();
    return &dm.release()->dm;
  });
}

int free_dm(ibv_dm* verbs) noexcept {
  constexpr const char* kCall = "ibv_free_dm";
  if (const int error = check_exists(kCall, verbs, Kind::dm)) return error;
  Dm& dm = of(verbs);
  if (const int users = dm.users.count())
    return refuse(EBUSY, kCall, "%d regions of the memory exist", users);
  Context& context = context_of(verbs->context);
  std::free(dm.bytes);
  forget(verbs);
  delete &dm;
  release(context);
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* verbs, uint64_t offset, size_t length,
                  unsigned access) noexcept {
  constexpr const char* kCall = "ibv_reg_dm_mr";
  return without_exceptions(kCall, [&]() -> ibv_mr* {
    Dm& dm = of(verbs);
    if (!is_known_access(kCall, access)) return nullptr;
    if ((access & IBV_ACCESS_ZERO_BASED) == 0)
      return refuse_null<ibv_mr>(EINVAL, kCall, "access lacks ZERO_BASED");
    if (!is_within(dm, offset, length))
      return refuse_null<ibv_mr>(EINVAL, kCall, "%zu bytes at %llu of %zu", length,
                                 static_cast<unsigned long long>(offset), dm.size);
    auto region = of(pd).domain.register_memory(dm.bytes + offset, length, access_of(access));
    if (!region) return refuse_null<ibv_mr>(kCall, region.error());
    Mr* mr = made_region(pd, *region, nullptr);
    mr->memory = &dm;
    dm.users.add(1);
    return &mr->mr;
  });
}

}  // namespace

void set_device_memory_operations(verbs_context& verbs) noexcept {
  verbs.alloc_dm = alloc_dm;
  verbs.free_dm = free_dm;
  verbs.reg_dm_mr = reg_dm_mr;
}

}  // namespace weft::drop_in
