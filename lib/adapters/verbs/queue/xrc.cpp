// SPDX-License-Identifier: BSD-3-Clause
// XRC domains. Who opens the same file has the same domain, in this process: no other has its
// queues.
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kOpen = "ibv_open_xrcd";

// Under entry.lock.
const Xrcd* xrcd_of(const DeviceEntry& entry, const FileId& file) noexcept {
  for (const Xrcd* xrcd : entry.xrcds)
    if (xrcd->file == file) return xrcd;
  return nullptr;
}

ibv_xrcd* open_xrcd(ibv_context* verbs, ibv_xrcd_init_attr* attr) noexcept {
  return without_exceptions(kOpen, [&]() -> ibv_xrcd* {
    constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask != kNeeded)
      return refuse_null<ibv_xrcd>(EINVAL, kOpen, "comp_mask is 0x%x, and must be FD | OFLAGS",
                                   attr->comp_mask);
    std::optional<FileId> file;
    if (attr->fd != -1) {
      struct stat found;
      if (::fstat(attr->fd, &found) != 0)
        return refuse_null<ibv_xrcd>(EBADF, kOpen, "fd %d is not open", attr->fd);
      file.emplace(found.st_dev, found.st_ino);
    }
    if (!file && (attr->oflags & O_CREAT) == 0)
      return refuse_null<ibv_xrcd>(EINVAL, kOpen, "fd is -1, and oflags lack O_CREAT");
    Context& context = context_of(verbs);
    const std::lock_guard guard(context.entry->lock);
    const Xrcd* const same = file ? xrcd_of(*context.entry, *file) : nullptr;
    if (same != nullptr && (attr->oflags & O_EXCL) != 0)
      return refuse_null<ibv_xrcd>(EINVAL, kOpen, "oflags have O_EXCL, and fd %d has a domain",
                                   attr->fd);
    if (file && same == nullptr && (attr->oflags & O_CREAT) == 0)
      return refuse_null<ibv_xrcd>(EAGAIN, kOpen,
                                   "fd %d has no domain in this process, and oflags lack O_CREAT: "
                                   "domains are not shared by processes",
                                   attr->fd);
    Result<XrcDomain> domain =
        same != nullptr ? Result<XrcDomain>(same->domain) : context.device.xrc_domain();
    if (!domain) return refuse_null<ibv_xrcd>(kOpen, domain.error());
    auto made = std::unique_ptr<Xrcd>(
        new Xrcd{.xrcd = {.context = verbs}, .domain = *domain, .file = file});
    if (file) context.entry->xrcds.reserve(context.entry->xrcds.size() + 1);
    adopt(context, made.get(), Kind::xrcd);
    if (file) context.entry->xrcds.push_back(made.get());
    return &made.release()->xrcd;
  });
}

int close_xrcd(ibv_xrcd* verbs) noexcept {
  constexpr const char* kCall = "ibv_close_xrcd";
  if (const int error = check_exists(kCall, verbs, Kind::xrcd)) return error;
  Xrcd& xrcd = of(verbs);
  if (const int users = xrcd.users.count())
    return refuse(EBUSY, kCall, "%d objects of the domain exist", users);
  Context& context = context_of(verbs->context);
  forget(verbs);
  {
    const std::lock_guard guard(context.entry->lock);
    std::erase(context.entry->xrcds, &xrcd);
  }
  delete &xrcd;
  release(context);
  return 0;
}

}  // namespace

void set_xrc_operations(verbs_context& verbs) noexcept {
  verbs.open_xrcd = open_xrcd;
  verbs.close_xrcd = close_xrcd;
}

}  // namespace weft::drop_in
