// SPDX-License-Identifier: BSD-3-Clause
// The provider interface: a provider implements these classes. Public handles hold them by
// shared_ptr, and each object holds its parents, so they may be destroyed in any order.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/verbs/cm.hpp"
#include "lib/verbs/device_spec.hpp"
#include "lib/verbs/inspection.hpp"
#include "weft/cq.hpp"
#include "weft/device.hpp"
#include "weft/mr.hpp"
#include "weft/qp.hpp"

namespace weft::verbs {

class Domain;

// A memory region; destruction deregisters.
class Region {
 public:
  virtual ~Region() = default;
  // `domain`: that of the change, or null.
  virtual Result<void> reregister(const Reregistration& change, const Domain* domain) {
    (void)change, (void)domain;
    return Error{Code::not_supported, "this region cannot be changed: register the memory anew"};
  }
  void* base = nullptr;
  size_t size = 0;
  uint64_t iova = 0;  // the address of the first byte in requests
  LKey lkey;
  RKey rkey;
};

// A memory window; destruction frees it.
class Window {
 public:
  Window(WindowType type, uint32_t number) : type(type), number(number) {}
  virtual ~Window() = default;
  virtual RKey rkey() const noexcept = 0;
  const WindowType type;
  const uint32_t number;
};

// A queue pair.
class Qp {
 public:
  virtual ~Qp() = default;
  virtual QpNum number() const noexcept = 0;
  virtual QpType type() const noexcept = 0;
  virtual QpState state() const noexcept = 0;
  virtual const Device& device() const noexcept = 0;
  virtual Result<void> modify(const QueuePairAttributes& change) = 0;
  virtual QueuePairAttributes query() const = 0;
  virtual QueuePairCapacities capacities() const noexcept = 0;
  virtual PostStatus post_send(std::span<const SendRequest> requests) noexcept = 0;
  virtual PostStatus post_recv(std::span<const RecvRequest> requests) noexcept = 0;
  // Called for UD queue pairs only, with a group of the device's address family.
  virtual Result<void> attach_multicast(const Gid& group) {
    (void)group;
    return Error{Code::not_supported, "this provider has no multicast"};
  }
  virtual Result<void> detach_multicast(const Gid& group) { return attach_multicast(group); }
};

// An XRC domain.
class Xrc {
 public:
  virtual ~Xrc() = default;
};

// A shared receive queue.
class Srq {
 public:
  virtual ~Srq() = default;
  virtual uint32_t number() const noexcept = 0;
  virtual PostStatus post_recv(std::span<const RecvRequest> requests) noexcept = 0;
  virtual Result<void> arm_limit(uint32_t limit) = 0;
  virtual Result<SharedReceiveQueueAttributes> query() const = 0;
  virtual Result<void> resize(uint32_t max_recv_wr) = 0;
};

// A completion queue.
class Cq {
 public:
  virtual ~Cq() = default;
  virtual const Device& device() const noexcept = 0;
  virtual uint32_t number() const noexcept = 0;
  virtual size_t poll(std::span<Completion> out) noexcept = 0;
  // `times` is as long as `out`. The default is for queues without timestamps.
  virtual size_t poll(std::span<Completion> out, std::span<Instant> times) noexcept {
    const size_t n = poll(out);
    std::fill_n(times.begin(), n, Instant::never());
    return n;
  }
  virtual void arm(Notify notify) noexcept = 0;
  virtual int fd() const noexcept = 0;
  virtual void acknowledge() noexcept = 0;
  virtual uint32_t capacity() const noexcept = 0;
  // `capacity` is within the device's limits. False: the queue holds more completions than that.
  virtual Result<bool> resize(uint32_t capacity) = 0;
  // `moderation` is valid: both 0, or both in their range.
  virtual Result<void> moderate(const CqModeration& moderation) = 0;
};

// A protection domain.
class Domain {
 public:
  virtual ~Domain() = default;
  virtual const Device& device() const noexcept = 0;
  // `iova`: the address of the first byte for requests; iova + size does not wrap.
  virtual Result<std::shared_ptr<Region>> register_memory(void* base, size_t size, uint64_t iova,
                                                          Access access) = 0;
  virtual Result<std::shared_ptr<Region>> create_null_region() {
    return Error{Code::not_supported, "this provider has no null regions"};
  }
  // `at`: the address of the first byte for requests, or null. The default maps the buffer
  // (dmabuf.cpp).
  virtual Result<std::shared_ptr<Region>> register_dmabuf(int fd, uint64_t offset, size_t size,
                                                          Access access, void* at);
  // `engine` is valid, here and below.
  virtual Result<std::shared_ptr<Window>> create_window(WindowType type, uint32_t engine) {
    (void)type, (void)engine;
    return Error{Code::not_supported, "this provider has no memory windows"};
  }
  virtual Result<std::shared_ptr<Srq>> create_srq(const SharedReceiveQueueOptions& options) = 0;
  virtual Result<std::shared_ptr<Qp>> create_qp(const QueuePairOptions& options) = 0;
};

// An open device.
class Context {
 public:
  virtual ~Context() = default;
  virtual const DeviceAttributes& attributes() const noexcept = 0;
  // `device` is a handle of this context, for created objects to keep it alive.
  virtual Result<std::shared_ptr<Domain>> create_domain(const Device& device) = 0;
  virtual Result<std::shared_ptr<Cq>> create_cq(const Device& device,
                                                const CompletionQueueOptions& options) = 0;
  virtual Result<std::shared_ptr<Xrc>> create_xrc(const Device& device, uint32_t engine) {
    (void)device, (void)engine;
    return Error{Code::not_supported, "provider " + attributes().provider + " has no XRC"};
  }
  // The default looks at the interface DeviceAttributes::interface_index (port.cpp).
  virtual Result<PortAttributes> query_port() const;
  virtual Result<std::vector<GidTableEntry>> query_gid_table() const;
  virtual void progress() noexcept = 0;
  virtual Instant now() const noexcept = 0;
  virtual int event_fd() const noexcept = 0;
  virtual std::optional<AsyncEvent> next_event() = 0;
  virtual std::vector<Counter> counters() const = 0;
  virtual Result<std::shared_ptr<CmChannel>> create_cm_channel(const Device& device) {
    (void)device;
    return Error{Code::not_supported,
                 "provider " + attributes().provider +
                     " has no RDMA connection manager: use connect() and Listener of "
                     "weft/connect.hpp, or a roce device"};
  }
  // A snapshot for weft_stat, from any thread while others use the device. Returns early, with an
  // incomplete snapshot, once `closing` is set.
  virtual Inspection inspect(const std::atomic<bool>& closing) const {
    (void)closing;
    Inspection found;
    found.note = "this provider shows its counters only";
    found.at = now();
    found.counters = counters();
    return found;
  }
  // SRD: see Device::peer_address().
  virtual std::optional<Gid> peer_address(uint32_t index) const {
    return (void)index, std::nullopt;
  }
  // SRD: see Device::paths().
  virtual std::vector<PathReport> paths(const Gid& address, QpNum number) const {
    return (void)address, (void)number, std::vector<PathReport>();
  }
};

// A provider, registered by provider_manifest.hpp.
struct Provider {
  std::string_view name;  // of its folder; what a device string begins with
  Result<std::shared_ptr<Context>> (*open)(const DeviceSpec& spec) = nullptr;
  // Appends a row for each device that it can open on this machine.
  void (*list)(std::vector<DeviceListing>& out, LoadModules modules) = nullptr;
  uint32_t order = 1000;  // position in lists; providers of equal order by name
  // The functions are in the module provider_NAME.so (lib/base/module/module.hpp), of this Debian
  // package. Empty: they are here.
  std::string_view package = {};
  // "libibverbs: apt-get install libibverbs-dev" where the module was not built.
  std::string_view missing = {};
};

// All providers of this build, by order, those in modules among them.
std::span<const Provider> providers();

// The provider `name`; if it is a module, that is loaded. Errors: not_found, and those of
// base::load_module().
Result<Provider> load_provider(std::string_view name);

// The rows of list_devices().
void list_providers(std::vector<DeviceListing>& out, LoadModules modules);

}  // namespace weft::verbs
