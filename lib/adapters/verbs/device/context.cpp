// SPDX-License-Identifier: BSD-3-Clause
// Opening and closing a device. All contexts of a device share one weft::Device, which is open
// while there is a context.
#include "lib/adapters/verbs/context.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "lib/adapters/verbs/device/device_list.hpp"
#include "lib/adapters/verbs/device/port.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr const char* kOpen = "ibv_open_device";

void set_operations(verbs_context& verbs) noexcept {
  verbs.sz = sizeof(verbs_context);
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  set_refused_operations(verbs);
  set_query_operations(verbs);
  set_port_operations(verbs);
  set_domain_operations(verbs);
  set_memory_operations(verbs);
  set_window_operations(verbs);
  set_cq_operations(verbs);
  set_poll_operations(verbs);
  set_srq_operations(verbs);
  set_xrc_operations(verbs);
  set_qp_operations(verbs);
  set_rate_limit_operation(verbs);
  set_post_operations(verbs);
}

bool watch(int epoll, int fd) noexcept {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// async_fd is readable while the device has an event that is not sorted yet, or this context has
// one.
bool open_event_descriptors(Context& context) noexcept {
  ibv_context& verbs = context.verbs.context;
  context.event_ready = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  verbs.async_fd = ::epoll_create1(EPOLL_CLOEXEC);
  verbs.cmd_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  return context.event_ready >= 0 && verbs.async_fd >= 0 && verbs.cmd_fd >= 0 &&
         watch(verbs.async_fd, context.event_ready) &&
         watch(verbs.async_fd, context.device.event_fd());
}

void close_event_descriptors(Context& context) noexcept {
  for (const int fd :
       {context.event_ready, context.verbs.context.async_fd, context.verbs.context.cmd_fd})
    if (fd >= 0) ::close(fd);
}

// Under entry.lock.
void close_device_if_unused(DeviceEntry& entry) noexcept {
  WEFT_CHECK(entry.users >= 0);
  if (entry.users == 0) entry.open_device.reset();
}

// At the end of an opening, failed or not. Under entry.lock.
struct Opening {
  DeviceEntry& entry;
  ~Opening() {
    const int error = errno;  // of the refusal
    close_device_if_unused(entry);
    errno = error;
  }
};

ibv_context* open(DeviceEntry& entry) {
  const std::lock_guard guard(entry.lock);
  const Opening opening{entry};
  if (!entry.open_device) {
    auto device = Device::open(entry.spec);
    if (!device) return refuse_null<ibv_context>(kOpen, device.error());
    entry.open_device = *device;
  }
  auto context = std::unique_ptr<Context>(new Context{.verbs = {},
                                                      .entry = &entry,
                                                      .device = *entry.open_device,
                                                      .fork = entry.fork,
                                                      .event_ready = -1,
                                                      .events = {}});
  ibv_context& verbs = context->verbs.context;
  verbs.device = &entry.device;
  verbs.num_comp_vectors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  verbs.async_fd = verbs.cmd_fd = -1;
  context->sl_of_datagrams = sl_of_datagrams(context->device.attributes().gid);
  if (context->device.attributes().qp_type == QpType::srd) context->slid = 0xFFFF;
  pthread_mutex_init(&verbs.mutex, nullptr);
  set_operations(context->verbs);
  entry.contexts.reserve(entry.contexts.size() + 1);
  adopt(*context, &verbs, Kind::context);
  if (!open_event_descriptors(*context)) {
    const int error = errno;
    forget(&verbs);
    close_event_descriptors(*context);
    return refuse_null<ibv_context>(error, kOpen,
                                    "cannot create descriptors of asynchronous events");
  }
  entry.contexts.push_back(context.get());
  ++entry.users;
  return &context.release()->verbs.context;
}

}  // namespace

void release(Context& context) noexcept {
  if (context.references.remove() != 0) return;
  DeviceEntry& entry = *context.entry;
  close_event_descriptors(context);
  pthread_mutex_destroy(&context.verbs.context.mutex);
  const uint32_t fork = context.fork;
  delete &context;
  const std::lock_guard guard(entry.lock);
  if (fork != entry.fork) return;
  --entry.users;
  close_device_if_unused(entry);
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_context* ibv_open_device(ibv_device* device) {
  if (real_library() != nullptr && is_real(device)) {
    ibv_context* context = in_real(&RealLibrary::ibv_open_device, device);
    if (context != nullptr) set_errno_of_operations(*context);
    return context;
  }
  return without_exceptions(kOpen, [&] { return open(*reinterpret_cast<DeviceEntry*>(device)); });
}

int ibv_close_device(ibv_context* verbs) {
  WEFT_FORWARD(verbs, ibv_close_device, verbs);
  if (check_exists("ibv_close_device", verbs, Kind::context) != 0) return -1;
  Context& context = context_of(verbs);
  {
    const std::lock_guard guard(context.entry->lock);
    std::erase(context.entry->contexts, &context);
  }
  forget(verbs);
  release(context);
  return 0;
}

const weft::Device& weft_verbs_device(ibv_context* context) { return context_of(context).device; }
