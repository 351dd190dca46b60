// SPDX-License-Identifier: BSD-3-Clause
// See domain.hpp.
#include "providers/ibverbs/context/domain.hpp"

#include <cerrno>
#include <string>

#include "lib/memory/guarded_copy.hpp"
#include "providers/ibverbs/context/region.hpp"
#include "providers/ibverbs/queue/qp.hpp"
#if WEFT_HAVE_EFA
#include "providers/ibverbs/efa/srd_qp.hpp"
#endif
#include "providers/ibverbs/queue/srq.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

Result<void> check_rights(Access access, const DeviceAttributes& device) {
  if (has(access, Access::on_demand) && !device.has_on_demand)
    return Error{Code::not_supported, "device " + device.port +
                                          " has no on-demand paging "
                                          "(DeviceAttributes::has_on_demand)"};
  if (has(access, Access::flush_global) || has(access, Access::flush_persistent))
    return Error{Code::not_supported,
                 "FLUSH is not there on ibverbs yet: register without flush_*"};
  if (has(access, Access::remote_write) || has(access, Access::remote_atomic)) {
    if (!has(access, Access::local_write))  //= roce:C-OPS-89
      return Error{Code::invalid_argument,
                   "remote_write and remote_atomic need local_write too (IBTA 10.6.3.3)"};
  }
  return {};
}

// The rights that operations of an EFA can use, which refuses a registration with others.
Access usable_rights(Access access, const DeviceAttributes& attributes) noexcept {
  Access usable = access & Access::local_write;
  if (attributes.has_write) usable = usable | (access & Access::remote_write);
  if (attributes.has_read) usable = usable | (access & Access::remote_read);
  return usable;
}

Error no_dmabuf(const std::string& device) {
  return {Code::not_supported, "device " + device +
                                   " has no dma-buf registration (DeviceAttributes::has_dmabuf): "
                                   "it needs a device and driver that have, Linux 5.12 and "
                                   "rdma-core 34; or copy through registered memory"};
}

// Why a device did not register memory: the kernel only says that it could not, this names the
// page.
Error explain(int error, const void* base, size_t size, Access access) {
  const Result<void> mapped =
      memory::verify_mapped(base, size, {.write = has(access, Access::local_write)});
  if (!mapped) return mapped.error();
  return error_of(error, "the device did not register " + std::to_string(size) + " bytes");
}

}  // namespace

Result<std::shared_ptr<verbs::Region>> Domain::register_memory(void* base, size_t size,
                                                               uint64_t iova, Access access) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  if (const Result<void> ok = check_rights(access, context_.attributes()); !ok) return ok.error();
  if (context_.srd() != nullptr) access = usable_rights(access, context_.attributes());
  const Library& library = context_.library();
  const bool moved = iova != reinterpret_cast<uintptr_t>(base);
  if (moved && !context_.attributes().has_iova)
    return Error{Code::not_supported, "device " + context_.attributes().port +
                                          " registers memory under its own address only: "
                                          "zero_based and register_memory_iova() need "
                                          "DeviceAttributes::has_iova (rdma-core 28, no iWARP)"};
  const unsigned rights = to_verbs(access) & ~unsigned{IBV_ACCESS_ZERO_BASED};  // said by iova
  Owned<ibv_mr> region = own(moved ? library.reg_mr_iova2(raw(), base, size, iova, rights)
                                   : library.reg_mr(raw(), base, size, static_cast<int>(rights)),
                             library.dereg_mr);
  if (region == nullptr) return explain(errno, base, size, access);
  return std::shared_ptr<verbs::Region>(
      new Region(shared_from_this(), std::move(region), base, size, iova));
}

Result<std::shared_ptr<verbs::Region>> Domain::create_null_region() {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  Owned<ibv_mr> region = own(ibv_alloc_null_mr(raw()), context_.library().dereg_mr);
  if (region == nullptr) return error_of(errno, "the device made no null region");
  std::shared_ptr<Region> made(
      new Region(shared_from_this(), std::move(region), nullptr, SIZE_MAX, 0));
  made->rkey = RKey{};
  return std::shared_ptr<verbs::Region>(std::move(made));
}

Result<std::shared_ptr<verbs::Region>> Domain::register_dmabuf(int fd, uint64_t offset, size_t size,
                                                               Access access, void* at) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  const DeviceAttributes& device = context_.attributes();
  if (const Result<void> ok = check_rights(access, device); !ok) return ok.error();
  const Library& library = context_.library();
  if (!device.has_dmabuf) return no_dmabuf(device.port);
  if (context_.srd() != nullptr) access = usable_rights(access, device);
  Owned<ibv_mr> region =
      own(library.reg_dmabuf_mr(raw(), offset, size, reinterpret_cast<uint64_t>(at), fd,
                                static_cast<int>(to_verbs(access))),
          library.dereg_mr);
  if (region == nullptr && errno == EBADF)
    return Error{Code::invalid_argument, "register_dmabuf: " + std::to_string(fd) +
                                             " is no open descriptor: pass that of a dma-buf"};
  if (region == nullptr)
    return error_of(errno, "the device did not register " + std::to_string(size) +
                               " bytes of the dma-buf, from " + std::to_string(offset) + " on");
  return std::shared_ptr<verbs::Region>(
      new Region(shared_from_this(), std::move(region), at, size, reinterpret_cast<uintptr_t>(at)));
}

Result<std::shared_ptr<verbs::Window>> Domain::create_window(WindowType type, uint32_t) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  if (context_.srd() != nullptr)
    return Error{Code::not_supported, "SRD has no memory windows: register the memory instead"};
  return Window::create(shared_from_this(), type);
}

Result<std::shared_ptr<verbs::Srq>> Domain::create_srq(const SharedReceiveQueueOptions& options) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  if (context_.srd() != nullptr)
    return Error{Code::not_supported,
                 "SRD has no shared receive queues: one queue pair receives from all peers"};
  return Srq::create(shared_from_this(), options);
}

Result<std::shared_ptr<verbs::Qp>> Domain::create_qp(const QueuePairOptions& options) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
#if WEFT_HAVE_EFA
  if (context_.srd() != nullptr) return SrdQp::create(shared_from_this(), options);
#endif
  return Qp::create(shared_from_this(), options);
}

ibv_ah* Domain::address_handle(const AddressVector& path) noexcept {
  const std::lock_guard lock(mutex_);
  return find_or_make(path);
}

void Domain::add_peer(const Gid& address) noexcept {
  const std::lock_guard lock(mutex_);
  if (added_peers_ == kMostMet) return;
  const size_t before = handles_.size();
  const bool failed = find_or_make({.destination = address}) == nullptr;
  if (failed || handles_.size() != before) ++added_peers_;
}

ibv_ah* Domain::find_or_make(const AddressVector& path) noexcept {
  const PathKey key{path.destination, path.flow_label, path.hop_limit, path.traffic_class,
                    path.static_rate.bits_per_second};
  const auto known = handles_.find(key);
  if (known != handles_.end()) return known->second.get();
  const PortChoice& choice = context_.choice();
  ibv_ah_attr attributes = to_verbs(path, choice.port, choice.gid_index);
  const Library& library = context_.library();
  Owned<ibv_ah> handle = own(library.create_ah(raw(), &attributes), library.destroy_ah);
  if (handle == nullptr) return nullptr;
#if WEFT_HAVE_EFA
  efadv_ah_attr said{};
  const EfaSrd* const srd = context_.srd();
  if (srd != nullptr && srd->efa.query_ah(handle.get(), &said, sizeof said) == 0)
    addresses_[said.ahn] = path.destination;
#endif
  return handles_.emplace(key, std::move(handle)).first->second.get();
}

std::optional<Gid> Domain::address_of_handle(uint16_t handle) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = addresses_.find(handle);
  if (known == addresses_.end()) return std::nullopt;
  return known->second;
}

}  // namespace weft::ibverbs
