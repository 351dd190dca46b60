// SPDX-License-Identifier: BSD-3-Clause
// Guarded accesses on x86-64. Each is a leaf function in assembly that does not change the stack or
// callee-saved registers and holds the user's range in r8 (first byte) and r9 (end). When the
// faulting instruction is between the two labels around these functions and the faulting address is
// in [r8, r9), the handler sets the program counter to `return false`. So the guard costs nothing,
// works in any thread, and does not depend on compiler, optimization or sanitizers.
//
// Order of stores. x86 makes stores visible in program order, and the compiler does not reorder
// assembly. A copy goes from low to high addresses: naturally aligned pieces up to an 8-byte
// boundary, then words, of which all but the last may use vector registers, then the last word
// alone, then the 0..7 bytes after it in naturally aligned pieces. No aligned word of the user's
// memory is torn, in either direction.
#include "lib/memory/guarded_access.hpp"

#if WEFT_GUARD_X86_64

#include <ucontext.h>

#include <bit>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/memory/guarded_copy.hpp"

extern "C" {
#define WEFT_HIDDEN __attribute__((visibility("hidden")))
extern const char weft_guarded_begin[] WEFT_HIDDEN;
extern const char weft_guarded_end[] WEFT_HIDDEN;
extern const char weft_guarded_fault[] WEFT_HIDDEN;
extern const char weft_guarded_call_fault[] WEFT_HIDDEN;
extern uint8_t weft_guarded_wide WEFT_HIDDEN;
bool weft_guarded_copy_in(std::byte* to, const std::byte* from, size_t size) noexcept WEFT_HIDDEN;
bool weft_guarded_copy_out(std::byte* to, const std::byte* from, size_t size) noexcept WEFT_HIDDEN;
bool weft_guarded_compare_swap(std::byte* address, uint64_t expected, uint64_t desired,
                               uint64_t* original) noexcept WEFT_HIDDEN;
bool weft_guarded_fetch_add(std::byte* address, uint64_t addend,
                            uint64_t* original) noexcept WEFT_HIDDEN;
bool weft_guarded_read_byte(std::byte* address) noexcept WEFT_HIDDEN;
bool weft_guarded_touch_byte(std::byte* address) noexcept WEFT_HIDDEN;
bool weft_guarded_call(void (*fn)(void*), void* argument, uintptr_t* stack) noexcept WEFT_HIDDEN;
// Defined only in a program built with AddressSanitizer.
__attribute__((weak)) void __asan_handle_no_return();
}

// clang-format off
__asm__(R"(
  .macro WEFT_ENTRY name
  .p2align 4
  .globl weft_guarded_\name
  .hidden weft_guarded_\name
  .type weft_guarded_\name, @function
weft_guarded_\name:
  .cfi_startproc
  .endm
  .macro WEFT_END name
  .cfi_endproc
  .size weft_guarded_\name, . - weft_guarded_\name
  .endm
  .pushsection .text
  .p2align 6
  .hidden weft_guarded_begin, weft_guarded_end, weft_guarded_fault, weft_guarded_call_fault
  .globl weft_guarded_begin, weft_guarded_end, weft_guarded_fault, weft_guarded_call_fault
weft_guarded_begin:
  WEFT_ENTRY copy_in
  mov %rdi, %r8
  lea (%rdi,%rdx), %r9
  mov %edi, %ecx
  jmp .Lweft_copy
  WEFT_END copy_in
  WEFT_ENTRY copy_out
  mov %rsi, %r8
  lea (%rsi,%rdx), %r9
  mov %esi, %ecx
.Lweft_copy:                       # rdi to, rsi from, rdx size, ecx the user's side
  and $7, %ecx
  jne .Lweft_head
.Lweft_words:
  mov %rdx, %rax
  sub $16, %rax
  jae .Lweft_many
  test $8, %dl
  je .Lweft_tail
.Lweft_last_word:
  mov (%rsi), %rcx
  mov %rcx, (%rdi)
  and $7, %edx
  jne .Lweft_after_word
  mov $1, %eax
  ret
.Lweft_many:                       # rax: bytes in whole words, without the last word
  add $8, %rax
  and $-8, %rax
  cmp $64, %rax
  jb .Lweft_below_64
  cmp $256, %rax
  jb .Lweft_by_64
  cmpb $0, weft_guarded_wide(%rip)
  je .Lweft_by_64
  .p2align 5
.Lweft_by_128:
  vmovdqu (%rsi), %ymm0
  vmovdqu 32(%rsi), %ymm1
  vmovdqu 64(%rsi), %ymm2
  vmovdqu 96(%rsi), %ymm3
  vmovdqu %ymm0, (%rdi)
  vmovdqu %ymm1, 32(%rdi)
  vmovdqu %ymm2, 64(%rdi)
  vmovdqu %ymm3, 96(%rdi)
  sub $-128, %rsi
  sub $-128, %rdi
  add $-128, %rax
  cmp $128, %rax
  jae .Lweft_by_128
  vzeroupper
  cmp $64, %rax
  jb .Lweft_below_64
.Lweft_by_64:
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, 32(%rdi)
  movups %xmm3, 48(%rdi)
  add $64, %rsi
  add $64, %rdi
  sub $64, %rax
  cmp $64, %rax
  jae .Lweft_by_64
.Lweft_below_64:
  test $32, %al
  je 1f
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  add $32, %rsi
  add $32, %rdi
1:
  test $16, %al
  je 1f
  movups (%rsi), %xmm0
  movups %xmm0, (%rdi)
  add $16, %rsi
  add $16, %rdi
1:
  test $8, %al
  je .Lweft_last_word
  mov (%rsi), %rcx
  mov %rcx, (%rdi)
  add $8, %rsi
  add $8, %rdi
  jmp .Lweft_last_word
.Lweft_after_word:
  add $8, %rsi
  add $8, %rdi
.Lweft_tail:                       # the low three bits of rdx say what is left
  test $4, %dl
  je 1f
  mov (%rsi), %eax
  mov %eax, (%rdi)
  add $4, %rsi
  add $4, %rdi
1:
  test $2, %dl
  je 1f
  movzwl (%rsi), %eax
  mov %ax, (%rdi)
  add $2, %rsi
  add $2, %rdi
1:
  test $1, %dl
  je 1f
  movzbl (%rsi), %eax
  mov %al, (%rdi)
1:
  mov $1, %eax
  ret
.Lweft_head:                       # up to the boundary, or to the tail if that comes first
  test $1, %cl
  je 1f
  sub $1, %rdx
  jb .Lweft_nothing
  movzbl (%rsi), %eax
  mov %al, (%rdi)
  inc %rsi
  inc %rdi
  inc %ecx
1:
  test $2, %cl
  je 1f
  cmp $2, %rdx
  jb .Lweft_tail
  movzwl (%rsi), %eax
  mov %ax, (%rdi)
  add $2, %rsi
  add $2, %rdi
  add $2, %ecx
  sub $2, %rdx
1:
  test $4, %cl
  je .Lweft_words
  cmp $4, %rdx
  jb .Lweft_tail
  mov (%rsi), %eax
  mov %eax, (%rdi)
  add $4, %rsi
  add $4, %rdi
  sub $4, %rdx
  jmp .Lweft_words
.Lweft_nothing:
  mov $1, %eax
  ret
  WEFT_END copy_out
  WEFT_ENTRY compare_swap
  mov %rdi, %r8
  lea 8(%rdi), %r9
  mov %rsi, %rax
  lock cmpxchg %rdx, (%rdi)
  mov %rax, (%rcx)
  mov $1, %eax
  ret
  WEFT_END compare_swap
  WEFT_ENTRY fetch_add
  mov %rdi, %r8
  lea 8(%rdi), %r9
  lock xadd %rsi, (%rdi)
  mov %rsi, (%rdx)
  mov $1, %eax
  ret
  WEFT_END fetch_add
  WEFT_ENTRY read_byte
  mov %rdi, %r8
  lea 1(%rdi), %r9
  movzbl (%rdi), %eax
  mov $1, %eax
  ret
  WEFT_END read_byte
  WEFT_ENTRY touch_byte
  mov %rdi, %r8
  lea 1(%rdi), %r9
  lock addb $0, (%rdi)
  mov $1, %eax
  ret
  WEFT_END touch_byte
weft_guarded_fault:                # where the handler goes on with an access that failed
  .cfi_startproc
  xor %eax, %eax
  cmpb $0, weft_guarded_wide(%rip)
  je 1f
  vzeroupper
1:
  ret
  .cfi_endproc
weft_guarded_end:

# rdi function, rsi argument, rdx this thread's guard: it holds the stack pointer to come back to.
  WEFT_ENTRY call
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  push (%rdx)
  push %rdx
  sub $8, %rsp
  mov %rsp, (%rdx)
  mov %rdi, %rax
  mov %rsi, %rdi
  call *%rax
  mov $1, %eax
  jmp 1f
weft_guarded_call_fault:           # the handler has set rsp from the guard
  xor %eax, %eax
1:
  add $8, %rsp
  pop %rdx
  pop (%rdx)
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  mov %rsp, %rbp
  pop %rbp
  .cfi_def_cfa %rsp, 8
  ret
  WEFT_END call
  .popsection
  .purgem WEFT_ENTRY
  .purgem WEFT_END
)");
// clang-format on

namespace weft::memory {
namespace {

// The stack pointer of the innermost run_guarded of this thread, 0 outside. In the static TLS
// block, because the handler reads it and must not allocate.
constinit thread_local uintptr_t guard_stack __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

bool copy_in(std::byte* to, const std::byte* from, size_t size) noexcept {
  WEFT_DCHECK(size <= kLargestCopy);
  return weft_guarded_copy_in(to, from, size);
}

bool copy_out(std::byte* to, const std::byte* from, size_t size) noexcept {
  WEFT_DCHECK(size <= kLargestCopy);
  return weft_guarded_copy_out(to, from, size);
}

bool compare_swap(std::byte* address, uint64_t expected, uint64_t desired,
                  uint64_t* original) noexcept {
  WEFT_DCHECK(std::bit_cast<uintptr_t>(address) % 8 == 0);
  return weft_guarded_compare_swap(address, expected, desired, original);
}

bool fetch_add(std::byte* address, uint64_t addend, uint64_t* original) noexcept {
  WEFT_DCHECK(std::bit_cast<uintptr_t>(address) % 8 == 0);
  return weft_guarded_fetch_add(address, addend, original);
}

bool probe(std::byte* address, bool write) noexcept {
  return write ? weft_guarded_touch_byte(address) : weft_guarded_read_byte(address);
}

bool run_guarded(void (*fn)(void*), void* argument) noexcept {
  WEFT_DCHECK(fn != nullptr);
  if (weft_guarded_call(fn, argument, &guard_stack)) return true;
  // The stack frames that were left still have poisoned red zones.
  if (__asan_handle_no_return != nullptr) __asan_handle_no_return();
  return false;
}

void prepare_guarded_access() noexcept {
  weft_guarded_wide = __builtin_cpu_supports("avx2") ? 1 : 0;
}

bool recover_guarded_access(const siginfo_t* info, void* context) noexcept {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto at = static_cast<uintptr_t>(registers[REG_RIP]);
  const uintptr_t address = std::bit_cast<uintptr_t>(info->si_addr);
  if (at >= std::bit_cast<uintptr_t>(&weft_guarded_begin[0]) &&
      at < std::bit_cast<uintptr_t>(&weft_guarded_end[0])) {
    // A fault on weft's side of the copy is a defect of weft and is not handled. The kernel reports
    // the exact address, except for failed memory, where it reports the page.
    auto low = static_cast<uintptr_t>(registers[REG_R8]);
    const auto high = static_cast<uintptr_t>(registers[REG_R9]);
    if (is_beyond_pages(info, high)) {
      registers[REG_RIP] = std::bit_cast<greg_t>(&weft_guarded_fault[0]);
      return true;
    }
    if (info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AR)
      low &= ~((uintptr_t{1} << info->si_addr_lsb) - 1);
    if (address < low || address >= high) return false;
    registers[REG_RIP] = std::bit_cast<greg_t>(&weft_guarded_fault[0]);
    return true;
  }
  if (guard_stack == 0) return false;
  registers[REG_EFL] &= ~greg_t{0x400};  // the direction flag is clear outside of copies
  registers[REG_RSP] = static_cast<greg_t>(guard_stack);
  registers[REG_RIP] = std::bit_cast<greg_t>(&weft_guarded_call_fault[0]);
  return true;
}

}  // namespace weft::memory

extern "C" {
// Whether vector registers of 32 bytes may be used. Set once, at installation.
uint8_t weft_guarded_wide = 0;
}

#endif  // WEFT_GUARD_X86_64
