// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, parent domains and thread domains. A parent domain has the rights of its
// protection domain; its allocators are not called, since no queue needs memory of the program, and
// a thread domain changes nothing, since every queue may be used by any thread.
#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

ibv_td* alloc_td(ibv_context* verbs, ibv_td_init_attr* attr) noexcept {
  constexpr const char* kCall = "ibv_alloc_td";
  if (attr->comp_mask != 0)
    return refuse_null<ibv_td>(EINVAL, kCall, "comp_mask is 0x%x, and must be 0", attr->comp_mask);
  return without_exceptions(kCall, [&] {
    auto td = std::unique_ptr<Td>(new Td{.td = {.context = verbs}});
    adopt(context_of(verbs), td.get(), Kind::td);
    return &td.release()->td;
  });
}

int dealloc_td(ibv_td* verbs) noexcept {
  constexpr const char* kCall = "ibv_dealloc_td";
  if (const int error = check_exists(kCall, verbs, Kind::td)) return error;
  Td& td = of(verbs);
  if (const int users = td.users.count())
    return refuse(EBUSY, kCall, "%d parent domains use it", users);
  Context& context = context_of(verbs->context);
  forget(verbs);
  delete &td;
  release(context);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* verbs, ibv_parent_domain_init_attr* attr) noexcept {
  constexpr const char* kCall = "ibv_alloc_parent_domain";
  constexpr uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  // IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of rdma-core 65.
  constexpr uint32_t kUnprotected = 1u << 2;
  if ((attr->comp_mask & ~kKnown) == kUnprotected)
    return refuse_null<ibv_pd>(EOPNOTSUPP, kCall,
                               "comp_mask 0x%x: there is no memory for confidential guests",
                               attr->comp_mask);
  if ((attr->comp_mask & ~kKnown) != 0)
    return refuse_null<ibv_pd>(EINVAL, kCall, "comp_mask 0x%x has unknown bits", attr->comp_mask);
  if (attr->pd == nullptr) return refuse_null<ibv_pd>(EINVAL, kCall, "pd is null");
  Pd& original = of(attr->pd);
  auto* td = attr->td == nullptr ? nullptr : &of(attr->td);
  return without_exceptions(kCall, [&] {
    auto pd = std::unique_ptr<Pd>(new Pd{.pd = {.context = verbs, .handle = attr->pd->handle},
                                         .domain = original.domain,
                                         .original = &original,
                                         .td = td});
    adopt(context_of(verbs), pd.get(), Kind::pd);
    original.users.add(1);
    if (td != nullptr) td->users.add(1);
    return &pd.release()->pd;
  });
}

}  // namespace

void set_domain_operations(verbs_context& verbs) noexcept {
  verbs.alloc_td = alloc_td;
  verbs.dealloc_td = dealloc_td;
  verbs.alloc_parent_domain = alloc_parent_domain;
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_pd* ibv_alloc_pd(ibv_context* verbs) {
  WEFT_FORWARD(verbs, ibv_alloc_pd, verbs);
  constexpr const char* kCall = "ibv_alloc_pd";
  return without_exceptions(kCall, [&]() -> ibv_pd* {
    Context& context = context_of(verbs);
    auto domain = context.device.protection_domain();
    if (!domain) return refuse_null<ibv_pd>(kCall, domain.error());
    static std::atomic<uint32_t> last_handle{0};
    auto pd = std::unique_ptr<Pd>(
        new Pd{.pd = {.context = verbs, .handle = ++last_handle}, .domain = *domain});
    adopt(context, pd.get(), Kind::pd);
    return &pd.release()->pd;
  });
}

int ibv_dealloc_pd(ibv_pd* verbs) {
  WEFT_FORWARD(verbs->context, ibv_dealloc_pd, verbs);
  constexpr const char* kCall = "ibv_dealloc_pd";
  if (const int error = check_exists(kCall, verbs, Kind::pd)) return error;
  Pd& pd = of(verbs);
  if (const int users = pd.users.count())
    return refuse(EBUSY, kCall, "%d objects of the domain exist", users);
  Context& context = context_of(verbs->context);
  if (pd.original != nullptr) pd.original->users.remove();
  if (pd.td != nullptr) pd.td->users.remove();
  forget(verbs);
  delete &pd;
  release(context);
  return 0;
}

const weft::ProtectionDomain& weft_verbs_domain(ibv_pd* pd) { return of(pd).domain; }
