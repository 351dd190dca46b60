// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations of fi_atomic(3) on memory, by type and operation.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>

namespace weft::fi {

enum class AtomicForm : uint8_t { write, fetch, compare };

// Bytes of an element; 0: not a type of fi_atomic.
size_t element_size(unsigned type) noexcept;
// Whether the operation exists for the type in this form.
bool is_atomic(AtomicForm form, unsigned type, unsigned op) noexcept;
// Executes is_atomic() operations on `count` elements at `target`, of any alignment: the former
// values go to `results` if it is not null. `compare` for AtomicForm::compare only; no operands for
// FI_ATOMIC_READ. The caller excludes other atomics.
void execute_atomic(AtomicForm form, unsigned type, unsigned op, size_t count, void* target,
                    const void* operands, const void* compare, void* results) noexcept;

}  // namespace weft::fi
