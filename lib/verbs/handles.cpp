// SPDX-License-Identifier: BSD-3-Clause
// The public handles: each call checks its arguments, calls the provider's object, and turns
// std::bad_alloc into an error.
#include <poll.h>

#include <cstdlib>

#include "lib/base/guarded.hpp"
#include "lib/verbs/provider.hpp"
#include "lib/verbs/stat_socket.hpp"
#include "weft/weft.hpp"

namespace weft {

using base::guarded;

Result<Device> Device::open(std::string_view text) {
  return guarded([&]() -> Result<Device> {
    const char* const fallback = std::getenv("WEFT_DEVICE");
    if (text.empty()) text = fallback != nullptr && *fallback != 0 ? fallback : "roce+udp:lo";
    const Result<verbs::DeviceSpec> spec = verbs::parse_device_spec(text);
    if (!spec) return spec.error();
    const Result<verbs::Provider> provider = verbs::load_provider(spec->provider);
    if (!provider) return provider.error();
    Result<std::shared_ptr<verbs::Context>> context = provider->open(*spec);
    if (!context) return context.error();
    return Device(verbs::make_inspectable(std::move(*context)));
  });
}

std::vector<DeviceListing> list_devices(LoadModules modules) {
  return guarded([&] {
    std::vector<DeviceListing> listing;
    verbs::list_providers(listing, modules);
    return listing;
  });
}

const DeviceAttributes& Device::attributes() const noexcept { return context_->attributes(); }
void Device::progress() const noexcept { context_->progress(); }
Instant Device::now() const noexcept { return context_->now(); }
int Device::event_fd() const noexcept { return context_->event_fd(); }
std::optional<AsyncEvent> Device::next_event() const { return context_->next_event(); }
std::vector<Counter> Device::counters() const {
  return guarded([&] { return context_->counters(); });
}
std::vector<PathReport> Device::paths(const Gid& address, QpNum number) const {
  return guarded([&] { return context_->paths(address, number); });
}
std::optional<Gid> Device::peer_address(uint32_t source_peer) const {
  return context_->peer_address(source_peer);
}

Result<ProtectionDomain> Device::protection_domain() const {
  return guarded([&]() -> Result<ProtectionDomain> {
    Result<std::shared_ptr<verbs::Domain>> domain = context_->create_domain(*this);
    if (!domain) return domain.error();
    return ProtectionDomain(std::move(*domain));
  });
}

static Result<void> check_capacity(const DeviceAttributes& attributes, uint32_t capacity) {
  if (capacity != 0 && capacity <= attributes.max_cqe) return {};
  return Error{Code::invalid_argument, "the capacity of a completion queue must be 1.." +
                                           std::to_string(attributes.max_cqe)};
}

static Result<void> check_engine(const DeviceAttributes& attributes, uint32_t engine) {
  if (engine < attributes.engines) return {};
  return Error{Code::invalid_argument,
               "there is no engine " + std::to_string(engine) + ": this device has " +
                   std::to_string(attributes.engines) +
                   ", counted from 0; engines=N in its device string makes N"};
}

Result<CompletionQueue> Device::completion_queue(const CompletionQueueOptions& options) const {
  return guarded([&]() -> Result<CompletionQueue> {
    const Result<void> ok = check_capacity(attributes(), options.capacity);
    if (!ok) return ok.error();
    const Result<void> there = check_engine(attributes(), options.engine);
    if (!there) return there.error();
    Result<std::shared_ptr<verbs::Cq>> cq = context_->create_cq(*this, options);
    if (!cq) return cq.error();
    CompletionQueue handle;
    handle.cq_ = std::move(*cq);
    return handle;
  });
}

Result<XrcDomain> Device::xrc_domain(uint32_t engine) const {
  return guarded([&]() -> Result<XrcDomain> {
    const Result<void> there = check_engine(attributes(), engine);
    if (!there) return there.error();
    Result<std::shared_ptr<verbs::Xrc>> xrc = context_->create_xrc(*this, engine);
    if (!xrc) return xrc.error();
    XrcDomain handle;
    handle.xrc_ = std::move(*xrc);
    return handle;
  });
}

const Device& ProtectionDomain::device() const noexcept { return domain_->device(); }

Result<MemoryRegion> ProtectionDomain::handle_of(Result<std::shared_ptr<verbs::Region>> region) {
  if (!region) return region.error();
  MemoryRegion handle;
  handle.lkey_ = (*region)->lkey;
  handle.rkey_ = (*region)->rkey;
  handle.region_ = std::move(*region);
  return handle;
}

Result<MemoryRegion> ProtectionDomain::register_memory(void* address, size_t size,
                                                       Access access) const {
  const bool zero_based = has(access, Access::zero_based);
  const uint64_t iova = zero_based ? 0 : reinterpret_cast<uintptr_t>(address);
  return guarded([&] { return handle_of(domain_->register_memory(address, size, iova, access)); });
}

// The addresses of a region in requests must not wrap around.
static Result<void> check_no_wrap(uint64_t iova, size_t size) {
  if (size == 0 || size - 1 <= UINT64_MAX - iova) return {};
  return Error{Code::invalid_argument, std::to_string(size) + " bytes from iova " +
                                           std::to_string(iova) + " on end beyond 2^64"};
}

static Result<void> check_iova(const DeviceAttributes& attributes, uint64_t iova, size_t size,
                               Access access) {
  if (!attributes.has_iova)
    return Error{Code::not_supported, "device " + attributes.spec +
                                          " registers memory under its own address only "
                                          "(DeviceAttributes::has_iova)"};
  if (has(access, Access::zero_based) && iova != 0)
    return Error{Code::invalid_argument,
                 "zero_based says that the first byte has the address 0, iova says " +
                     std::to_string(iova) + ": leave one of them out"};
  return check_no_wrap(iova, size);
}

Result<MemoryRegion> ProtectionDomain::register_memory_iova(void* address, size_t size,
                                                            uint64_t iova, Access access) const {
  return guarded([&]() -> Result<MemoryRegion> {
    const Result<void> ok = check_iova(device().attributes(), iova, size, access);
    if (!ok) return ok.error();
    return handle_of(domain_->register_memory(address, size, iova, access));
  });
}

Result<MemoryRegion> ProtectionDomain::null_region() const {
  return guarded([&] { return handle_of(domain_->create_null_region()); });
}

Result<MemoryRegion> ProtectionDomain::register_dmabuf(int fd, uint64_t offset, size_t size,
                                                       Access access, void* at) const {
  return guarded([&] { return handle_of(domain_->register_dmabuf(fd, offset, size, access, at)); });
}

Result<MemoryWindow> ProtectionDomain::memory_window(WindowType type, uint32_t engine) const {
  return guarded([&]() -> Result<MemoryWindow> {
    const Result<void> there = check_engine(device().attributes(), engine);
    if (!there) return there.error();
    Result<std::shared_ptr<verbs::Window>> window = domain_->create_window(type, engine);
    if (!window) return window.error();
    MemoryWindow handle;
    handle.type_ = type;
    handle.number_ = (*window)->number;
    handle.window_ = std::move(*window);
    return handle;
  });
}

AddressHandle ProtectionDomain::address_handle(const AddressVector& path) const {
  return AddressHandle(path);
}

Result<SharedReceiveQueue> ProtectionDomain::shared_receive_queue(
    const SharedReceiveQueueOptions& options) const {
  return guarded([&]() -> Result<SharedReceiveQueue> {
    const Result<void> there = check_engine(device().attributes(), options.engine);
    if (!there) return there.error();
    Result<std::shared_ptr<verbs::Srq>> srq = domain_->create_srq(options);
    if (!srq) return srq.error();
    SharedReceiveQueue handle;
    handle.srq_ = std::move(*srq);
    return handle;
  });
}

Result<QueuePair> ProtectionDomain::queue_pair(const QueuePairOptions& options) const {
  return guarded([&]() -> Result<QueuePair> {
    Result<std::shared_ptr<verbs::Qp>> qp = domain_->create_qp(options);
    if (!qp) return qp.error();
    QueuePair handle;
    handle.qp_ = std::move(*qp);
    return handle;
  });
}

void* MemoryRegion::address() const noexcept { return region_->base; }
size_t MemoryRegion::size() const noexcept { return region_->size; }
uint64_t MemoryRegion::iova() const noexcept { return region_->iova; }
Sge MemoryRegion::sge(size_t offset, uint32_t length) const noexcept {
  return {reinterpret_cast<void*>(region_->iova + offset), length, region_->lkey};
}

Result<void> MemoryRegion::reregister(const Reregistration& change) {
  return guarded([&]() -> Result<void> {
    if (const auto& to = change.translation; to)
      if (const Result<void> ok = check_no_wrap(to->iova, to->size); !ok) return ok;
    const ProtectionDomain* const domain = change.domain;
    const Result<void> done =
        region_->reregister(change, domain != nullptr ? domain->impl().get() : nullptr);
    lkey_ = region_->lkey;
    rkey_ = region_->rkey;
    return done;
  });
}

RKey MemoryWindow::rkey() const noexcept { return window_->rkey(); }
RKey MemoryWindow::next_key() const noexcept {
  return RKey{number() << 8 | ((rkey().value + 1) & 0xFF)};
}

size_t CompletionQueue::poll(std::span<Completion> completions) const noexcept {
  return cq_->poll(completions);
}
size_t CompletionQueue::poll(std::span<Completion> completions,
                             std::span<Instant> times) const noexcept {
  const size_t most = std::min(completions.size(), times.size());
  return cq_->poll(completions.first(most), times.first(most));
}
void CompletionQueue::arm(Notify notify) const noexcept { cq_->arm(notify); }
int CompletionQueue::fd() const noexcept { return cq_->fd(); }
void CompletionQueue::acknowledge() const noexcept { cq_->acknowledge(); }
uint32_t CompletionQueue::number() const noexcept { return cq_->number(); }
uint32_t CompletionQueue::capacity() const noexcept { return cq_->capacity(); }
Result<void> CompletionQueue::resize(uint32_t capacity) const {
  return guarded([&]() -> Result<void> {
    const Result<void> ok = check_capacity(cq_->device().attributes(), capacity);
    if (!ok) return ok;
    const Result<bool> done = cq_->resize(capacity);
    if (!done) return done.error();
    if (*done) return {};
    return Error{Code::busy, "more completions wait than that: poll() them first"};
  });
}

Result<void> CompletionQueue::moderate(const CqModeration& moderation) const {
  return guarded([&]() -> Result<void> {
    const int64_t us = moderation.period.us();
    if (moderation.period != Duration::from_us(us) || us < 0 || us > UINT16_MAX)
      return Error{Code::invalid_argument,
                   "the period of a moderation is 0..65,535 whole microseconds"};
    if ((moderation.count == 0) != (us == 0))
      return Error{
          Code::invalid_argument,
          "a moderation needs both a count and a period, else a queue might sleep for ever; "
          "both 0 end it"};
    return cq_->moderate(moderation);
  });
}

size_t CompletionQueue::wait(std::span<Completion> completions, Duration limit) const noexcept {
  const int64_t limit_ms = limit.ms();
  for (int64_t waited = 0;;) {
    if (const size_t n = poll(completions)) return n;
    arm();
    if (const size_t n = poll(completions)) return n;
    if (waited >= limit_ms) return 0;
    const int step = static_cast<int>(std::min<int64_t>(limit_ms - waited, 1000));
    pollfd wanted{fd(), POLLIN, 0};
    if (::poll(&wanted, 1, step) == 0) waited += step;
    acknowledge();
  }
}

uint32_t SharedReceiveQueue::number() const noexcept { return srq_->number(); }
PostStatus SharedReceiveQueue::post_recv(std::span<const RecvRequest> requests) const noexcept {
  return srq_->post_recv(requests);
}
Result<void> SharedReceiveQueue::arm_limit(uint32_t limit) const {
  return guarded([&] { return srq_->arm_limit(limit); });
}
Result<SharedReceiveQueueAttributes> SharedReceiveQueue::query() const {
  return guarded([&] { return srq_->query(); });
}
Result<void> SharedReceiveQueue::resize(uint32_t max_recv_wr) const {
  return guarded([&] { return srq_->resize(max_recv_wr); });
}

QpNum QueuePair::number() const noexcept { return qp_->number(); }
QpType QueuePair::type() const noexcept { return qp_->type(); }
QpState QueuePair::state() const noexcept { return qp_->state(); }
const Device& QueuePair::device() const noexcept { return qp_->device(); }
Result<void> QueuePair::modify(const QueuePairAttributes& change) const {
  return guarded([&] { return qp_->modify(change); });
}
QueuePairAttributes QueuePair::query() const { return qp_->query(); }
QueuePairCapacities QueuePair::capacities() const noexcept { return qp_->capacities(); }
static Result<void> check_group(const QueuePair& qp, const Gid& group) {
  if (qp.type() != QpType::ud)
    return Error{Code::invalid_argument, "only UD queue pairs take part in multicast groups"};
  if (!group.is_multicast())
    return Error{Code::invalid_argument, to_string(group) +
                                             " is no multicast group: those are 224.0.0.0 to "
                                             "239.255.255.255 and ff00::/8"};
  if (group.is_ipv4() != qp.device().attributes().gid.is_ipv4())
    return Error{Code::invalid_argument,
                 "the group " + to_string(group) + " is of another address family than the device"};
  return {};
}
Result<void> QueuePair::attach_multicast(const Gid& group) const {
  return guarded([&]() -> Result<void> {
    const Result<void> ok = check_group(*this, group);
    return ok ? qp_->attach_multicast(group) : ok;
  });
}
Result<void> QueuePair::detach_multicast(const Gid& group) const {
  return guarded([&]() -> Result<void> {
    const Result<void> ok = check_group(*this, group);
    return ok ? qp_->detach_multicast(group) : ok;
  });
}
PostStatus QueuePair::post_send(std::span<const SendRequest> requests) const noexcept {
  return qp_->post_send(requests);
}
PostStatus QueuePair::post_recv(std::span<const RecvRequest> requests) const noexcept {
  return qp_->post_recv(requests);
}

}  // namespace weft
