// SPDX-License-Identifier: BSD-3-Clause
// Copies into and out of user memory that cannot kill the process: a page that the user unmapped,
// made read-only or truncated after registration gives `false`, not a signal. A SIGSEGV/SIGBUS
// handler is installed at first use; it acts only on faults inside these calls and hands all others
// on to the handler that was there before.
//
// Order of visibility (docs/design.md): copy_in makes the bytes visible in address order as
// far as a reader can tell who spins on the last byte or the last aligned word: that is stored
// last, with release semantics.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/result.hpp"

namespace weft::memory {

inline constexpr size_t kLargestCopy = size_t{1} << 31;  // bytes in one call

// Installs the handlers. Idempotent, thread-safe; called at registration.
void install_fault_guard() noexcept;

// Copies into user memory, last aligned word released last. False on a fault: then a part may have
// been written. Sizes 0..kLargestCopy. Fast for 8 bytes and for 4 KiB: both are hot.
[[nodiscard]] bool copy_in(std::byte* to, const std::byte* from, size_t size) noexcept;
// Copies out of user memory. False on a fault.
[[nodiscard]] bool copy_out(std::byte* to, const std::byte* from, size_t size) noexcept;

// 64-bit atomics on user memory, sequentially consistent; `address` is a multiple of 8. False on a
// fault. `original` gets the value before.
[[nodiscard]] bool compare_swap(std::byte* address, uint64_t expected, uint64_t desired,
                                uint64_t* original) noexcept;
[[nodiscard]] bool fetch_add(std::byte* address, uint64_t addend, uint64_t* original) noexcept;

// Runs fn(argument) under the guard: false if it hit a fault (then it was left in the middle: it
// must hold no lock and own nothing). For copies that do something on the way, like summing.
[[nodiscard]] bool run_guarded(void (*fn)(void*), void* argument) noexcept;

// What memory must be for its region.
struct Need {
  bool write = false;
  bool file = false;  // a shared mapping of a file
};
// Proves that every page of [base, base + size) is mapped, readable, and what is needed, without
// changing a byte. The error names the first bad page.
Result<void> verify_mapped(const void* base, size_t size, Need need);

// The bytes are in their file when it returns, which may take as long as a disk does. False: they
// are not, or are not mapped any more.
[[nodiscard]] bool make_persistent(const std::byte* base, uint64_t size) noexcept;

}  // namespace weft::memory
