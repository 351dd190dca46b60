// SPDX-License-Identifier: BSD-3-Clause
// The seam inside guarded_copy: the signal handler (guarded_copy.cpp) knows signals, the files
// below know how a guarded access is made and left. Exactly one of them is compiled:
// guarded_x86_64.cpp has its accesses in assembly and lets the handler move the program counter, so
// that a guard costs nothing; guarded_portable.cpp does it for any other machine with sigsetjmp.
#pragma once

#include <csignal>
#include <cstddef>

#if defined(__x86_64__) && defined(__LP64__) && !defined(WEFT_PORTABLE_GUARD)
#define WEFT_GUARD_X86_64 1
#else
#define WEFT_GUARD_X86_64 0
#endif

namespace weft::memory {

// Looks at the machine once, before the first guarded access that should be fast.
void prepare_guarded_access() noexcept;

// Called in the signal handler. When the fault belongs to a guarded access of this thread, makes
// that access return false (by changing `context`, or by not returning) and returns true.
bool recover_guarded_access(const siginfo_t* info, void* context) noexcept;

// Reads one byte, or writes it back atomically as it is. False on a fault.
bool probe(std::byte* address, bool write) noexcept;

}  // namespace weft::memory
