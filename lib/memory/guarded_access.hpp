// SPDX-License-Identifier: BSD-3-Clause
// The machine-dependent part of guarded_copy: how a guarded access is made and aborted. One of two
// files is compiled: guarded_x86_64.cpp has accesses in assembly and lets the handler change the
// program counter, so that the guard costs nothing; guarded_portable.cpp uses sigsetjmp.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__LP64__) && !defined(WEFT_PORTABLE_GUARD)
#define WEFT_GUARD_X86_64 1
#else
#define WEFT_GUARD_X86_64 0
#endif

namespace weft::memory {

// Detects CPU features, once.
void prepare_guarded_access() noexcept;

// Called by the signal handler. If the fault is of a guarded access of this thread, makes that
// access return false (by changing `context`, or by a jump) and returns true.
bool recover_guarded_access(const siginfo_t* info, void* context) noexcept;

// True if the fault of an access to memory that ends at `high` is one of an address that no page
// can have (x86-64: a non-canonical one). The kernel does not report that address. A region on
// demand may contain such addresses.
inline bool is_beyond_pages(const siginfo_t* info, uintptr_t high) noexcept {
  constexpr uintptr_t kPagesEnd = uintptr_t{1} << (sizeof(uintptr_t) == 8 ? 47 : 31);
  return info->si_code == SI_KERNEL && info->si_addr == nullptr && high > kPagesEnd;
}

// Reads one byte, or rewrites it atomically with its value. False on a fault.
bool probe(std::byte* address, bool write) noexcept;

}  // namespace weft::memory
