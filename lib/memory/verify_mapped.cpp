// SPDX-License-Identifier: BSD-3-Clause
// verify_mapped(). /proc/self/maps lists mappings and permissions, without touching (and
// committing) memory that the program has not used yet. It does not say where the file of a mapping
// ends: a page beyond the end is mapped but faults. A binary search with guarded reads finds the
// first such page.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "lib/base/check.hpp"
#include "lib/memory/guarded_access.hpp"
#include "lib/memory/guarded_copy.hpp"

namespace weft::memory {
namespace {

struct Mapping {
  uintptr_t low = 0, high = 0;
  bool readable = false, writable = false, shared = false, file = false, named = false;
};

// The first bad page and its fault; no text: all pages are good.
struct Finding {
  uintptr_t page = 0;
  const char* text = nullptr;
  bool unmapped = false;
};

uintptr_t page_size() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

std::byte* pointer(uintptr_t address) { return std::bit_cast<std::byte*>(address); }

// The first page of [low, high) that cannot be read, or `high`; bad pages are all at the end.
uintptr_t first_unreadable(uintptr_t low, uintptr_t high) {
  const uintptr_t page = page_size();
  WEFT_DCHECK(low < high && low % page == 0 && high % page == 0);
  if (probe(pointer(high - page), false)) return high;
  while (low < high) {
    const uintptr_t middle = low + (high - low) / page / 2 * page;
    WEFT_DCHECK(low <= middle && middle < high);
    if (probe(pointer(middle), false)) {
      low = middle + page;
    } else {
      high = middle;
    }
  }
  return low;
}

constexpr const char* kBeyondFile =
    "lies beyond the end of the file that is mapped there; make the file as long as the mapping";
constexpr const char* kReadOnly =
    "may not be written; map it with PROT_WRITE, or register without local_write";
constexpr const char* kUnreadable = "may not be read; map it with PROT_READ";
constexpr const char* kFleeting =
    "belongs to no file with a name that is shared; for flush_persistent map a file with "
    "MAP_SHARED";
constexpr const char* kUnmapped = "is not mapped; register only memory that is allocated";

// Checks the part of the range from `at` on that lies in `mapping`.
Finding inspect(const Mapping& mapping, uintptr_t at, uintptr_t end, Need need) {
  WEFT_DCHECK(mapping.low <= at && at < mapping.high && at < end);
  if (!mapping.readable) return {at, kUnreadable};
  if (need.write && !mapping.writable) return {at, kReadOnly};
  if (need.file && !(mapping.file && mapping.shared && mapping.named)) return {at, kFleeting};
  if (!mapping.file) return {};
  const uintptr_t high = std::min(mapping.high, end);
  const uintptr_t bad = first_unreadable(at, high);
  if (bad < high) return {bad, kBeyondFile};
  return {};
}

// The line buffer of getline(3).
struct Line {
  char* text = nullptr;
  size_t capacity = 0;
  ~Line() { std::free(text); }
};

bool next_mapping(FILE* maps, Line& line, Mapping* out) {
  errno = 0;
  if (getline(&line.text, &line.capacity, maps) < 0) {
    if (errno == ENOMEM) throw std::bad_alloc();
    return false;
  }
  char permissions[5] = {};
  uintmax_t inode = 0;
  const int fields = std::sscanf(line.text, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNuMAX,
                                 &out->low, &out->high, permissions, &inode);
  out->readable = permissions[0] == 'r';
  out->writable = permissions[1] == 'w';
  out->shared = permissions[3] == 's';
  out->file = inode != 0;
  out->named = std::strstr(line.text, " (deleted)") == nullptr;
  return fields == 4;
}

// Walks the mappings over [low, end), both multiples of the page size.
Finding walk(FILE* maps, uintptr_t low, uintptr_t end, Need need) {
  Line line;
  uintptr_t at = low;
  Finding finding;
  Mapping mapping;
  while (at < end && finding.text == nullptr && next_mapping(maps, line, &mapping)) {
    if (mapping.high <= at) continue;
    if (mapping.low > at) break;
    finding = inspect(mapping, at, end, need);
    at = mapping.high;
  }
  WEFT_DCHECK(at >= low && (finding.text == nullptr || finding.page < end));
  if (finding.text == nullptr && at < end) return {at, kUnmapped, true};
  return finding;
}

// Without /proc: touch every page. This commits memory, as pinning would.
Finding touch_all(uintptr_t low, uintptr_t end, bool write) {
  for (uintptr_t at = low; at < end; at += page_size()) {
    if (!probe(pointer(at), false)) return {at, "is not mapped or may not be read"};
    if (write && !probe(pointer(at), true)) return {at, kReadOnly};
  }
  return {};
}

Finding find_bad_page(uintptr_t low, uintptr_t end, Need need) {
  Finding finding;
  for (uintptr_t grown = 0;; grown = finding.page) {
    const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                     std::fclose);
    if (maps == nullptr && errno == ENOMEM) throw std::bad_alloc();
    if (maps == nullptr && need.file) return {low, kFleeting};
    if (maps == nullptr) return touch_all(low, end, need.write);
    finding = walk(maps.get(), low, end, need);
    // A stack grows when it is touched: a large array on it may not be mapped yet.
    if (!finding.unmapped || finding.page == grown) return finding;
    if (!probe(pointer(finding.page), need.write)) return finding;
  }
}

}  // namespace

Result<void> verify_mapped(const void* base, size_t size, Need need) {
  install_fault_guard();
  const uintptr_t first = std::bit_cast<uintptr_t>(base);
  const uintptr_t page = page_size();
  if (size == 0) return {};
  if (size - 1 > ~first || first + (size - 1) >= ~(page - 1))
    return Error{Code::invalid_argument, "the region reaches beyond the end of the address space"};
  const uintptr_t low = first & ~(page - 1);
  const uintptr_t end = ((first + (size - 1)) & ~(page - 1)) + page;
  WEFT_DCHECK(page != 0 && (page & (page - 1)) == 0 && low < end);
  const Finding finding = find_bad_page(low, end, need);
  if (finding.text == nullptr) return {};
  char message[256];
  std::snprintf(message, sizeof message, "page %#" PRIxPTR " of the %zu bytes at %#" PRIxPTR " %s",
                finding.page, size, first, finding.text);
  return Error{Code::permission_denied, message};
}

bool make_persistent(const std::byte* base, uint64_t size) noexcept {
  const uintptr_t low = std::bit_cast<uintptr_t>(base) & ~(page_size() - 1);
  const uint64_t length = std::bit_cast<uintptr_t>(base) + size - low;
  WEFT_DCHECK(length >= size);
  return ::msync(std::bit_cast<void*>(low), length, MS_SYNC) == 0;
}

}  // namespace weft::memory
