// SPDX-License-Identifier: BSD-3-Clause
// See free_stack.hpp.
#include "providers/port/dpdk/free_stack.hpp"

#include <rte_mempool.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace weft::port::dpdk {
namespace {

struct alignas(void*) Stack {  // and behind it the objects
  unsigned count;
  void** objects() noexcept { return reinterpret_cast<void**>(this + 1); }
};

Stack& stack_of(const rte_mempool* pool) noexcept { return *static_cast<Stack*>(pool->pool_data); }

int allocate(rte_mempool* pool) {
  auto* const stack =
      static_cast<Stack*>(std::malloc(sizeof(Stack) + size_t{pool->size} * sizeof(void*)));
  if (stack == nullptr) return -ENOMEM;
  stack->count = 0;
  pool->pool_data = stack;
  return 0;
}

void release(rte_mempool* pool) { std::free(pool->pool_data); }

int put(rte_mempool* pool, void* const* objects, unsigned count) {
  Stack& stack = stack_of(pool);
  if (count > pool->size - stack.count) return -ENOBUFS;
  std::copy_n(objects, count, stack.objects() + stack.count);
  stack.count += count;
  return 0;
}

int take(rte_mempool* pool, void** objects, unsigned count) {
  Stack& stack = stack_of(pool);
  if (count > stack.count) return -ENOBUFS;
  stack.count -= count;
  std::reverse_copy(stack.objects() + stack.count, stack.objects() + stack.count + count, objects);
  return 0;
}

unsigned count(const rte_mempool* pool) { return stack_of(pool).count; }

const char* enter() noexcept {
  static rte_mempool_ops kind{};
  constexpr char kName[] = "weft_stack";
  std::copy_n(kName, sizeof kName, kind.name);
  kind.alloc = allocate;
  kind.free = release;
  kind.enqueue = put;
  kind.dequeue = take;
  kind.get_count = count;
  return rte_mempool_register_ops(&kind) < 0 ? nullptr : kind.name;
}

}  // namespace

const char* free_stack_name() noexcept {
  static const char* const name = enter();
  return name;
}

}  // namespace weft::port::dpdk
