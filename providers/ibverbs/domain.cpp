// SPDX-License-Identifier: BSD-3-Clause
// See domain.hpp.
#include "providers/ibverbs/domain.hpp"

#include <cerrno>

#include "lib/memory/guarded_copy.hpp"
#include "providers/ibverbs/qp.hpp"
#include "providers/ibverbs/region.hpp"
#include "providers/ibverbs/srq.hpp"
#include "providers/ibverbs/translate.hpp"

namespace weft::ibverbs {

namespace {

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
                                                               Access access) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  if (has(access, Access::zero_based))
    return Error{Code::invalid_argument, "zero_based is for memory windows, not for regions"};
  if (has(access, Access::flush_global) || has(access, Access::flush_persistent))
    return Error{Code::not_supported,
                 "FLUSH is not there on ibverbs yet: register without flush_*"};
  if (has(access, Access::remote_write) || has(access, Access::remote_atomic)) {
    if (!has(access, Access::local_write))  //= roce:C-OPS-89
      return Error{Code::invalid_argument,
                   "remote_write and remote_atomic need local_write too (IBTA 10.6.3.3)"};
  }
  const Library& library = context_.library();
  Owned<ibv_mr> region =
      own(library.reg_mr(raw(), base, size, static_cast<int>(to_verbs(access))), library.dereg_mr);
  if (region == nullptr) return explain(errno, base, size, access);
  return std::shared_ptr<verbs::Region>(
      new Region(shared_from_this(), std::move(region), base, size));
}

Result<std::shared_ptr<verbs::Window>> Domain::create_window(WindowType type, uint32_t) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  return Window::create(shared_from_this(), type);
}

Result<std::shared_ptr<verbs::Srq>> Domain::create_srq(const SharedReceiveQueueOptions& options) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  return Srq::create(shared_from_this(), options);
}

Result<std::shared_ptr<verbs::Qp>> Domain::create_qp(const QueuePairOptions& options) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  return Qp::create(shared_from_this(), options);
}

ibv_ah* Domain::address_handle(const AddressVector& path) noexcept {
  const PathKey key{path.destination, path.flow_label, path.hop_limit, path.traffic_class};
  const std::lock_guard lock(mutex_);
  const auto known = handles_.find(key);
  if (known != handles_.end()) return known->second.get();
  const PortChoice& choice = context_.choice();
  ibv_ah_attr attributes = to_verbs(path, choice.port, choice.gid_index);
  const Library& library = context_.library();
  Owned<ibv_ah> handle = own(library.create_ah(raw(), &attributes), library.destroy_ah);
  if (handle == nullptr) return nullptr;
  return handles_.emplace(key, std::move(handle)).first->second.get();
}

}  // namespace weft::ibverbs
