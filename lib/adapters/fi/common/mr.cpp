// SPDX-License-Identifier: BSD-3-Clause
// Registered memory: a region of weft. Its remote key is the key, unless the program chooses it.
// Local use needs none.
#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/cntr.hpp"
#include "lib/adapters/fi/common/objects.hpp"
#include "lib/base/check.hpp"

namespace weft::fi {
namespace {

constexpr uint64_t kDmabuf = uint64_t{1} << 40;  // FI_MR_DMABUF of 1.20: mr_iov is no iovec

Mr& of(fid* mr) noexcept { return *static_cast<Mr*>(reinterpret_cast<fid_mr*>(mr)); }

int close(fid* fid) noexcept {
  delete &of(fid);
  return 0;
}

int bind_counter(Mr& mr, Cntr& cntr, uint64_t flags) noexcept {
  const uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
  if ((flags & remote) == 0 || (flags & ~remote) != 0) return -FI_EBADFLAGS;
  if (!mr.domain.has_remote_events)
    return not_supported(FI_LOG_MR, "fi_mr_bind: counters need FI_RMA_EVENT");
  if (!mr.is_listed) return -FI_EINVAL;  // without access of peers
  if (const int code = mr.domain.regions.bind(mr.key, cntr, flags)) return code;
  for (auto [flag, slot] : {std::pair{FI_REMOTE_READ, 0}, std::pair{FI_REMOTE_WRITE, 1}})
    if ((flags & flag) != 0) mr.counters[static_cast<size_t>(slot)] = &cntr, ++cntr.users;
  return 0;
}

// FI_MR_ENDPOINT is not required, so that an endpoint may be bound, without effect.
int bind(fid* fid, ::fid* other, uint64_t flags) noexcept {
  if (other->fclass == FI_CLASS_EP) return 0;
  if (other->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
  return bind_counter(of(fid), *static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(other)), flags);
}

int control(fid*, int command, void*) noexcept { return command == FI_ENABLE ? 0 : -FI_ENOSYS; }

fi_ops kFidOps = fid_ops(close, bind, control);

Access access_of(uint64_t flags, bool on_demand) noexcept {
  Access access = Access::none;
  if (flags & (FI_RECV | FI_READ)) access = access | Access::local_write;
  if (flags & FI_REMOTE_READ) access = access | Access::remote_read;
  // An atomic reads and writes; which rights it needs is the same in libfabric.
  if (flags & FI_REMOTE_WRITE)
    access = access | Access::local_write | Access::remote_write | Access::remote_atomic;
  return on_demand ? access | Access::on_demand : access;
}

// FI_MR_ALLOCATED: the memory is there now, and so checked now.
bool is_on_demand(const Domain& domain, uint64_t flags) noexcept {
  if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0) return true;
  return domain.mr_mode != FI_MR_BASIC && (domain.mr_mode & FI_MR_ALLOCATED) == 0;
}

int reg(fid* fid, const void* buffer, size_t length, uint64_t access, uint64_t,
        uint64_t requested_key, uint64_t flags, fid_mr** out, void* context) noexcept {
  return guarded([&]() -> int {
    if (fid->fclass != FI_CLASS_DOMAIN) return -FI_EINVAL;
    auto& domain = *static_cast<Domain*>(reinterpret_cast<fid_domain*>(fid));
    if ((flags & kDmabuf) != 0 || ((flags & FI_RMA_EVENT) != 0 && !domain.has_remote_events))
      return not_supported(FI_LOG_MR,
                           "fi_mr_reg: no FI_MR_DMABUF, no FI_RMA_EVENT unless fi_getinfo was "
                           "asked for it");
    auto region = domain.device->domain.register_memory(
        const_cast<void*>(buffer), length, access_of(access, is_on_demand(domain, access)));
    if (!region) return failed(FI_LOG_MR, "fi_mr_reg", region.error());
    const uint64_t own_key = region->rkey().value | (domain.has_remote_events ? kEventKey : 0);
    const uint64_t key = domain.has_user_keys ? requested_key : own_key;
    auto mr = std::make_unique<Mr>(domain, *region, key, context);
    const uint64_t address = reinterpret_cast<uintptr_t>(buffer);
    if (access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) {
      mr->is_listed = domain.regions.add(
          key, {address, length, access, region->rkey(), domain.has_offsets ? address : 0});
      if (!mr->is_listed) return -FI_ENOKEY;
    }
    *out = mr.release();
    return 0;
  });
}

int regv(fid* fid, const iovec* iov, size_t count, uint64_t access, uint64_t offset,
         uint64_t requested_key, uint64_t flags, fid_mr** out, void* context) noexcept {
  if (count != 1) return -FI_EINVAL;
  return reg(fid, iov->iov_base, iov->iov_len, access, offset, requested_key, flags, out, context);
}

int regattr(fid* fid, const fi_mr_attr* attr, uint64_t flags, fid_mr** out) noexcept {
  return regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key,
              flags, out, attr->context);
}

fi_ops_mr kOps = {.size = sizeof(fi_ops_mr), .reg = reg, .regv = regv, .regattr = regattr};

}  // namespace

Mr::Mr(Domain& parent, MemoryRegion registered, uint64_t key, void* user_context) noexcept
    : fid_mr{.fid = {.fclass = FI_CLASS_MR, .context = user_context, .ops = &kFidOps},
             .mem_desc = this,
             .key = key},
      domain(parent),
      region(std::move(registered)) {
  domain.retain();
}

Mr::~Mr() {
  if (is_listed) domain.regions.remove(key);
  for (Cntr* cntr : counters)
    if (cntr != nullptr) --cntr->users;
  domain.release();
}

fi_ops_mr& registration_ops() noexcept { return kOps; }

bool Regions::add(uint64_t key, const Region& region) {
  const std::lock_guard hold(lock_);
  return regions_.try_emplace(key, region).second;
}

void Regions::remove(uint64_t key) noexcept {
  const std::lock_guard hold(lock_);
  regions_.erase(key);
}

std::optional<Region> Regions::find(uint64_t key) noexcept {
  const std::lock_guard hold(lock_);
  const auto at = regions_.find(key);
  return at == regions_.end() ? std::nullopt : std::optional(at->second);
}

int Regions::bind(uint64_t key, Cntr& cntr, uint64_t remote) noexcept {
  const std::lock_guard hold(lock_);
  const auto at = regions_.find(key);
  WEFT_CHECK(at != regions_.end());
  Region& region = at->second;
  const bool of_reads = (remote & FI_REMOTE_READ) != 0, of_writes = (remote & FI_REMOTE_WRITE) != 0;
  if ((of_reads && region.read != nullptr) || (of_writes && region.write != nullptr))
    return -FI_EINVAL;
  if (of_reads) region.read = &cntr;
  if (of_writes) region.write = &cntr;
  return 0;
}

bool Regions::count(uint64_t key, uint64_t remote) noexcept {
  const std::lock_guard hold(lock_);
  const auto at = regions_.find(key);
  if (at == regions_.end() || (at->second.access & remote) != remote) return false;
  Cntr* const cntr = remote == FI_REMOTE_READ ? at->second.read : at->second.write;
  if (cntr != nullptr) cntr->count(0);
  return true;
}

std::unique_lock<std::mutex> Regions::hold(uint64_t key, uint64_t& address, size_t length,
                                           uint64_t access) noexcept {
  std::unique_lock held(lock_);
  const auto at = regions_.find(key);
  if (at == regions_.end()) return {};
  const Region& region = at->second;
  const uint64_t offset = address + region.base - region.address;
  const bool inside = offset <= region.length && length <= region.length - offset;
  if (!inside || (region.access & access) != access) return {};
  address += region.base;
  return held;
}

}  // namespace weft::fi
