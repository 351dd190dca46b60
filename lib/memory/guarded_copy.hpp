// SPDX-License-Identifier: BSD-3-Clause
// Guarded access to user memory: a page that was unmapped, made read-only or truncated after
// registration gives `false`, not a signal. A SIGSEGV/SIGBUS handler is installed at first use; it
// handles only faults of these functions and passes all others to the handler before it.
//
// Order of visibility (docs/design.md): copy_in stores the last byte, or the last aligned word,
// last and with release semantics, so that a reader that spins on it sees all bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/result.hpp"

namespace weft::memory {

inline constexpr size_t kLargestCopy = size_t{1} << 31;  // bytes in one call

// Installs the handlers. Idempotent, thread-safe; called at registration.
void install_fault_guard() noexcept;

// Copies into user memory; the last aligned word is stored last. False on a fault: then a part may
// have been written. Sizes 0..kLargestCopy. Fast for 8 bytes and for 4 KiB: both are hot.
[[nodiscard]] bool copy_in(std::byte* to, const std::byte* from, size_t size) noexcept;
// Copies out of user memory. False on a fault.
[[nodiscard]] bool copy_out(std::byte* to, const std::byte* from, size_t size) noexcept;

// 64-bit atomics on user memory, sequentially consistent; `address` is a multiple of 8. False on a
// fault. `original` gets the value before.
[[nodiscard]] bool compare_swap(std::byte* address, uint64_t expected, uint64_t desired,
                                uint64_t* original) noexcept;
[[nodiscard]] bool fetch_add(std::byte* address, uint64_t addend, uint64_t* original) noexcept;

// Runs fn(argument) guarded. False: it faulted and was left at that instruction, so it must hold no
// lock and own no resource. For copies that also compute, such as a CRC.
[[nodiscard]] bool run_guarded(void (*fn)(void*), void* argument) noexcept;

// Requirements of a registration.
struct Need {
  bool write = false;
  bool file = false;  // a shared mapping of a file
};
// Checks that every page of [base, base + size) is mapped, readable and as `need` says, without
// changing memory. The error names the first bad page.
Result<void> verify_mapped(const void* base, size_t size, Need need);

// Writes the bytes back to their file (msync), which blocks for as long as the disk needs. False on
// an error, or if they are not mapped any more.
[[nodiscard]] bool make_persistent(const std::byte* base, uint64_t size) noexcept;

}  // namespace weft::memory
