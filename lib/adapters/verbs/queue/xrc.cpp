// SPDX-License-Identifier: BSD-3-Clause
// XRC domains. Each open makes a domain of its own.
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kOpen = "ibv_open_xrcd";

ibv_xrcd* open_xrcd(ibv_context* verbs, ibv_xrcd_init_attr* attr) noexcept {
  return without_exceptions(kOpen, [&]() -> ibv_xrcd* {
    constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask != kNeeded)
      return refuse_null<ibv_xrcd>(EINVAL, kOpen, "comp_mask is 0x%x, and must be FD | OFLAGS",
                                   attr->comp_mask);
    struct stat file;
    if (attr->fd != -1 && ::fstat(attr->fd, &file) != 0)
      return refuse_null<ibv_xrcd>(EBADF, kOpen, "fd %d is not open", attr->fd);
    if (attr->fd == -1 && (attr->oflags & O_CREAT) == 0)
      return refuse_null<ibv_xrcd>(EINVAL, kOpen, "fd is -1, and oflags lack O_CREAT");
    Context& context = context_of(verbs);
    auto domain = context.device.xrc_domain();
    if (!domain) return refuse_null<ibv_xrcd>(kOpen, domain.error());
    auto xrcd = std::unique_ptr<Xrcd>(new Xrcd{.xrcd = {.context = verbs}, .domain = *domain});
    adopt(context, xrcd.get(), Kind::xrcd);
    return &xrcd.release()->xrcd;
  });
}

int close_xrcd(ibv_xrcd* verbs) noexcept {
  constexpr const char* kCall = "ibv_close_xrcd";
  if (const int error = check_exists(kCall, verbs, Kind::xrcd)) return error;
  Xrcd& xrcd = of(verbs);
  if (const int users = xrcd.users)
    return refuse(EBUSY, kCall, "%d objects of the domain exist", users);
  Context& context = context_of(verbs->context);
  forget(verbs);
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
