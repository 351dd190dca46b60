// SPDX-License-Identifier: BSD-3-Clause
// Memory windows: allocation, and the binding of type 1 by ibv_bind_mw(). Type 2 is bound by a
// request of the send queue (post.cpp).
#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/queue/post.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

ibv_mw* alloc_mw(ibv_pd* verbs, ibv_mw_type type) noexcept {
  constexpr const char* kCall = "ibv_alloc_mw";
  return without_exceptions(kCall, [&]() -> ibv_mw* {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
      return refuse_null<ibv_mw>(EINVAL, kCall, "type %d is neither 1 nor 2", int{type});
    auto window =
        of(verbs).domain.memory_window(type == IBV_MW_TYPE_1 ? WindowType::one : WindowType::two);
    if (!window) return refuse_null<ibv_mw>(kCall, window.error());
    auto mw = std::unique_ptr<Mw>(new Mw{.mw = {.context = verbs->context,
                                                .pd = verbs,
                                                .rkey = window->rkey().value,
                                                .handle = window->number(),
                                                .type = type},
                                         .window = *window});
    adopt(context_of(verbs->context), mw.get(), Kind::mw);
    of(verbs).users.add(1);
    of(verbs).windows.add(1);
    return &mw.release()->mw;
  });
}

int dealloc_mw(ibv_mw* verbs) noexcept {
  if (const int error = check_exists("ibv_dealloc_mw", verbs, Kind::mw)) return error;
  Context& context = context_of(verbs->context);
  of(verbs->pd).users.remove();
  of(verbs->pd).windows.remove();
  forget(verbs);
  delete &of(verbs);
  release(context);
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
  constexpr const char* kCall = "ibv_bind_mw";
  // Rights of a window are remote ones; verbs.h has checked type, region and domain.
  if ((bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0)
    return refuse(EINVAL, kCall, "ZERO_BASED is for windows of type 2");
  if (qp->pd != mw->pd) return refuse(EPERM, kCall, "window and queue pair differ in domain");
  if ((bind->send_flags & ~kKnownSendFlags) != 0)
    return refuse(EINVAL, kCall, "%s", kUnknownSendFlags);
  const WindowBind binding = window_bind_of(mw, bind->bind_info);
  const SendRequest request{.id = bind->wr_id,
                            .opcode = Opcode::bind_window,
                            .flags = send_flags_of(bind->send_flags),
                            .bind = &binding};
  const PostStatus status = of(qp).pair.post_send(request);
  if (!status) return refuse(errno_of(status.code), kCall, "%s", status.reason);
  mw->rkey = of(mw).window.rkey().value;
  return 0;
}

}  // namespace

void set_window_operations(verbs_context& verbs) noexcept {
  verbs.context.ops.alloc_mw = alloc_mw;
  verbs.context.ops.dealloc_mw = dealloc_mw;
  verbs.context.ops.bind_mw = bind_mw;
}

}  // namespace weft::drop_in
