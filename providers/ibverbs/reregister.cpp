// SPDX-License-Identifier: BSD-3-Clause
// Regions that change: see context/region.hpp. An error leaves it to the device what the region is.
#include <cerrno>

#include "providers/ibverbs/context/region.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

// The domain of a change if it is of this device, else null.
std::shared_ptr<const Domain> Region::keep_alive(const verbs::Domain* domain) const {
  const auto* const ours = dynamic_cast<const Domain*>(domain);
  if (ours == nullptr || &ours->context() != &domain_->context()) return nullptr;
  return ours->shared_from_this();
}

Result<void> Region::reregister(const Reregistration& change, const verbs::Domain* domain) {
  const Context& context = domain_->context();
  if (context.forked()) return Error{Code::permission_denied, kForked};
  if (context.library().rereg_mr == nullptr)
    return Error{Code::not_supported, "this libibverbs has no ibv_rereg_mr"};
  const std::shared_ptr<const Domain> next = keep_alive(domain);
  if (domain != nullptr && next == nullptr)
    return Error{Code::invalid_argument,
                 "Reregistration::domain must be of the open device of the region"};
  const auto& to = change.translation;
  if (to && to->iova != reinterpret_cast<uintptr_t>(to->address))
    return Error{Code::not_supported,
                 "ibverbs registers changed memory under its own address only: leave "
                 "Translation::iova equal to `address`"};
  const int flags = (to ? IBV_REREG_MR_CHANGE_TRANSLATION : 0) |
                    (next != nullptr ? IBV_REREG_MR_CHANGE_PD : 0) |
                    (change.access ? IBV_REREG_MR_CHANGE_ACCESS : 0);
  if (flags == 0) return {};
  const int failed = context.library().rereg_mr(
      region_.get(), flags, next != nullptr ? next->raw() : nullptr, to ? to->address : nullptr,
      to ? to->size : 0, change.access ? static_cast<int>(to_verbs(*change.access)) : 0);
  if (failed == IBV_REREG_MR_ERR_INPUT)
    return Error{Code::invalid_argument, "the device does not take this change of a region"};
  if (failed != 0) return error_of(errno, "the device did not change the region");
  if (to) {
    base = to->address;
    size = to->size;
    iova = to->iova;
  }
  if (next != nullptr) reregistered_in_ = next;
  lkey = LKey{region_->lkey};
  rkey = RKey{region_->rkey};
  return {};
}

}  // namespace weft::ibverbs
