// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events and counters of a device; what is made from it.
#include "providers/ibverbs/context/ibverbs_context.hpp"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "lib/base/clock.hpp"
#if WEFT_HAVE_RDMACM
#include "providers/ibverbs/cm/cm_channel.hpp"
#endif
#include "providers/ibverbs/context/domain.hpp"
#include "providers/ibverbs/queue/cq.hpp"
#if WEFT_HAVE_EFA
#include "providers/ibverbs/efa/srd_cq.hpp"
#endif
#include "providers/ibverbs/queue/xrc.hpp"

namespace weft::ibverbs {

namespace {

// The counters that the kernel keeps for a port: files of one number each.
std::vector<std::pair<std::string, std::string>> find_counters(const std::string& port_folder) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const char* const folder : {"/hw_counters", "/counters"}) {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(port_folder + folder, none)) {
      const std::string name = file.path().filename();
      if (name != "lifespan") found.emplace_back(name, file.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Those that are about an object; nullopt for what weft has no word for.
std::optional<AsyncEvent> translate(const ibv_async_event& event) {
  const auto of_qp = [&event](EventType type) {
    return AsyncEvent{type, QpNum{event.element.qp->qp_num}, 0};
  };
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
      return of_qp(EventType::qp_fatal);
    case IBV_EVENT_QP_REQ_ERR:
      return of_qp(EventType::qp_request_error);
    case IBV_EVENT_QP_ACCESS_ERR:
      return of_qp(EventType::qp_access_error);
    case IBV_EVENT_COMM_EST:
      return of_qp(EventType::comm_established);
    case IBV_EVENT_SQ_DRAINED:
      return of_qp(EventType::sq_drained);
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return of_qp(EventType::last_wqe_reached);
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return AsyncEvent{EventType::srq_limit_reached, {}, number_of(event.element.srq)};
    case IBV_EVENT_CQ_ERR:
      return AsyncEvent{EventType::cq_error, {}, 0, event.element.cq->handle};
    case IBV_EVENT_PORT_ACTIVE:
      return AsyncEvent{EventType::port_active, {}, 0};
    case IBV_EVENT_PORT_ERR:
      return AsyncEvent{EventType::port_error, {}, 0};
    case IBV_EVENT_GID_CHANGE:
      return AsyncEvent{EventType::gid_change, {}, 0};
    case IBV_EVENT_DEVICE_FATAL:
      return AsyncEvent{EventType::device_fatal, {}, 0};
    default:
      return std::nullopt;
  }
}

}  // namespace

Context::Context(const Library& library, Owned<ibv_context> context, Owned<ibv_cq> siw_reserved_cq,
                 PortChoice choice, DeviceAttributes attributes, std::string cm_library,
                 std::shared_ptr<EfaSrd> srd)
    : library_(library),
      context_(std::move(context)),
      siw_reserved_cq_(std::move(siw_reserved_cq)),
      choice_(choice),
      attributes_(std::move(attributes)),
      cm_library_(std::move(cm_library)),
      srd_(std::move(srd)),
      counters_(find_counters(std::string(context_->device->ibdev_path) + "/ports/" +
                              std::to_string(choice.port))) {
  // next_event() does not wait.
  fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
}

Result<std::shared_ptr<verbs::Domain>> Context::create_domain(const Device& device) {
  if (forked()) return Error{Code::permission_denied, kForked};
  Owned<ibv_pd> pd = own(library_.alloc_pd(raw()), library_.dealloc_pd);
  if (pd == nullptr) return error_of(errno, "no protection domain");
  return std::shared_ptr<verbs::Domain>(new Domain(device, *this, std::move(pd)));
}

Result<std::shared_ptr<verbs::Cq>> Context::create_cq(const Device& device,
                                                      const CompletionQueueOptions& options) {
  if (forked()) return Error{Code::permission_denied, kForked};
#if WEFT_HAVE_EFA
  if (srd_ != nullptr) return SrdCq::create(device, *this, options);
#endif
  return Cq::create(device, *this, options);
}

Result<std::shared_ptr<verbs::Xrc>> Context::create_xrc(const Device& device, uint32_t) {
  if (forked()) return Error{Code::permission_denied, kForked};
  if (srd_ != nullptr)
    return Error{Code::not_supported, "SRD has no XRC: one queue pair receives from all peers"};
  return Xrc::create(device, *this);
}

Result<std::shared_ptr<verbs::CmChannel>> Context::create_cm_channel(const Device& device) {
  if (forked()) return Error{Code::permission_denied, kForked};
  if (srd_ != nullptr)
    return Error{Code::not_supported,
                 "SRD connects nothing: each request names its peer (SendRequest::to, remote_qpn)"};
#if WEFT_HAVE_RDMACM
  return CmChannel::create(device, *this, cm_library_);
#else
  (void)device;
  return Error{Code::not_supported,
               "weft was built without librdmacm-dev: provider ibverbs has no RDMA connection "
               "manager; use connect() and Listener of weft/connect.hpp"};
#endif
}

Instant Context::now() const noexcept { return base::Clock::process().now(); }

std::optional<AsyncEvent> Context::next_event() {
  if (forked()) return std::nullopt;
  ibv_async_event event;
  //= roce:C-EVT-109 acknowledged at once: destroying an object would wait for it for ever
  while (library_.get_async_event(raw(), &event) == 0) {
    const std::optional<AsyncEvent> translated = translate(event);
    library_.ack_async_event(&event);
    if (translated) return translated;
  }
  return std::nullopt;
}

std::optional<Gid> Context::peer_address(uint32_t number) const {
#if WEFT_HAVE_EFA
  if (srd_ != nullptr && !forked()) return srd_->peers.address_of(number);
#endif
  return (void)number, std::nullopt;
}

std::vector<Counter> Context::counters() const {
  std::vector<Counter> counters;
  for (const auto& [name, file] : counters_) {
    uint64_t value = 0;
    if (std::ifstream(file) >> value) counters.push_back({name, value});
  }
  return counters;
}

}  // namespace weft::ibverbs
