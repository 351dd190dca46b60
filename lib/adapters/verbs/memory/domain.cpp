// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, parent domains and thread domains. A parent domain has the rights of its
// protection domain; its allocators are not called, since no queue needs memory of the program, and
// a thread domain changes nothing, since every queue may be used by any thread.
#include <memory>

#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

Td* make_td(ibv_context* verbs) noexcept {
  auto* td = new (std::nothrow) Td{.td = {.context = verbs}};
  if (td != nullptr) retain(context_of(verbs));
  return td;
}

ibv_td* alloc_td(ibv_context* verbs, ibv_td_init_attr* attr) noexcept {
  if (attr->comp_mask != 0)
    return refuse_null<ibv_td>(EINVAL, "ibv_alloc_td", "comp_mask is 0x%x, and must be 0",
                               attr->comp_mask);
  Td* td = make_td(verbs);
  return td == nullptr ? refuse_null<ibv_td>(ENOMEM, "ibv_alloc_td", "out of memory") : &td->td;
}

int dealloc_td(ibv_td* verbs) noexcept {
  Td& td = of(verbs);
  if (const int users = td.users)
    return refuse(EBUSY, "ibv_dealloc_td", "%d parent domains use it", users);
  Context& context = context_of(verbs->context);
  delete &td;
  release(context);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* verbs, ibv_parent_domain_init_attr* attr) noexcept {
  constexpr const char* kCall = "ibv_alloc_parent_domain";
  constexpr uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if ((attr->comp_mask & ~kKnown) != 0)
    return refuse_null<ibv_pd>(EINVAL, kCall, "comp_mask 0x%x has unknown bits", attr->comp_mask);
  if (attr->pd == nullptr) return refuse_null<ibv_pd>(EINVAL, kCall, "pd is null");
  Pd& original = of(attr->pd);
  auto* td = attr->td == nullptr ? nullptr : &of(attr->td);
  auto* pd = new (std::nothrow) Pd{.pd = {.context = verbs, .handle = attr->pd->handle},
                                   .domain = original.domain,
                                   .original = &original,
                                   .td = td};
  if (pd == nullptr) return refuse_null<ibv_pd>(ENOMEM, kCall, "out of memory");
  ++original.users;
  if (td != nullptr) ++td->users;
  retain(context_of(verbs));
  return &pd->pd;
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
  constexpr const char* kCall = "ibv_alloc_pd";
  return without_exceptions(kCall, [&]() -> ibv_pd* {
    Context& context = context_of(verbs);
    auto domain = context.device.protection_domain();
    if (!domain) return refuse_null<ibv_pd>(kCall, domain.error());
    static std::atomic<uint32_t> last_handle{0};
    auto* pd = new Pd{.pd = {.context = verbs, .handle = ++last_handle}, .domain = *domain};
    retain(context);
    return &pd->pd;
  });
}

int ibv_dealloc_pd(ibv_pd* verbs) {
  Pd& pd = of(verbs);
  if (const int users = pd.users)
    return refuse(EBUSY, "ibv_dealloc_pd", "%d objects of the domain exist", users);
  Context& context = context_of(verbs->context);
  if (pd.original != nullptr) --pd.original->users;
  if (pd.td != nullptr) --pd.td->users;
  delete &pd;
  release(context);
  return 0;
}

const weft::ProtectionDomain& weft_verbs_domain(ibv_pd* pd) { return of(pd).domain; }
