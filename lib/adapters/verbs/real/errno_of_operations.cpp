// SPDX-License-Identifier: BSD-3-Clause
// Calls that verbs.h makes through a context of the system's library, and that return a pointer:
// the reason for null is in the errno of the C library of that namespace. Each is replaced by one
// that calls it and copies errno.
#include <array>
#include <cerrno>
#include <mutex>
#include <unordered_map>

#include "lib/adapters/verbs/real/real_library.hpp"

namespace weft::drop_in {
namespace {

// The functions that were replaced, by context. Contexts are never removed: one that is closed is
// replaced when another one has its address.
using Originals = std::array<void (*)(), 16>;
struct Table {
  std::mutex lock;
  std::unordered_map<const ibv_context*, Originals> contexts;
};
Table& table() {
  static auto& originals = *new Table;
  return originals;
}

const ibv_context* context_of(const ibv_context* context) noexcept { return context; }
template <class Object>
const ibv_context* context_of(const Object* object) noexcept {
  return object->context;
}

template <size_t kIndex, class Result, class First, class... Rest>
Result* call(First* first, Rest... rest) noexcept {
  void (*original)() = nullptr;
  {
    Table& originals = table();
    const std::lock_guard guard(originals.lock);
    original = originals.contexts[context_of(first)][kIndex];
  }
  auto* const result = reinterpret_cast<Result* (*)(First*, Rest...)>(original)(first, rest...);
  errno = *real_library()->errno_location();
  return result;
}

template <size_t kIndex, class Result, class First, class... Rest>
void replace(Originals& originals, Result* (*&slot)(First*, Rest...)) noexcept {
  if (slot == nullptr) return;
  originals[kIndex] = reinterpret_cast<void (*)()>(slot);
  slot = call<kIndex, Result, First, Rest...>;
}

}  // namespace

void set_errno_of_operations(ibv_context& context) {
  Originals originals{};
  replace<0>(originals, context.ops.alloc_mw);
#define WEFT_REPLACE(INDEX, OPERATION)                            \
  if (verbs_context* has = verbs_get_ctx_op(&context, OPERATION)) \
  replace<INDEX>(originals, has->OPERATION)
  WEFT_REPLACE(1, create_qp_ex);
  WEFT_REPLACE(2, create_cq_ex);
  WEFT_REPLACE(3, create_srq_ex);
  WEFT_REPLACE(4, open_xrcd);
  WEFT_REPLACE(5, open_qp);
  WEFT_REPLACE(6, alloc_td);
  WEFT_REPLACE(7, alloc_parent_domain);
  WEFT_REPLACE(8, alloc_dm);
  WEFT_REPLACE(9, reg_dm_mr);
  WEFT_REPLACE(10, alloc_null_mr);
  WEFT_REPLACE(11, create_wq);
  WEFT_REPLACE(12, create_rwq_ind_table);
  WEFT_REPLACE(13, ibv_create_flow);
  WEFT_REPLACE(14, create_counters);
  WEFT_REPLACE(15, create_flow_action_esp);
#undef WEFT_REPLACE
  Table& all = table();
  const std::lock_guard guard(all.lock);
  all.contexts[&context] = originals;
}

}  // namespace weft::drop_in
