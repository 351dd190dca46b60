// SPDX-License-Identifier: BSD-3-Clause
// Pages of memory for tests that protect, truncate or unmap them.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/support/catch.hpp"

namespace weft::test {

inline const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// Pages of our own, unmapped at the end; of a file if one is given.
struct Pages {
  explicit Pages(size_t pages, int fd = -1) : size(pages * kPage) {
    const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* where = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    REQUIRE(where != MAP_FAILED);
    at = static_cast<std::byte*>(where);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    for (size_t page = 0; page < size / kPage; ++page)
      if (std::find(holes_.begin(), holes_.end(), page) == holes_.end())
        munmap(at + page * kPage, kPage);
  }
  // Takes pages away. What is mapped in their place later is not ours to unmap.
  void unmap(size_t first, size_t count = 1) {
    REQUIRE(munmap(at + first * kPage, count * kPage) == 0);
    for (size_t page = first; page < first + count; ++page) holes_.push_back(page);
  }
  void protect(size_t page, int protection) const {
    REQUIRE(mprotect(at + page * kPage, kPage, protection) == 0);
  }
  std::byte* at;
  size_t size;

 private:
  std::vector<size_t> holes_;
};

// A file of the given length without a name.
inline int make_file(size_t size) {
  const int fd = memfd_create("weft-test", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(ftruncate(fd, static_cast<off_t>(size)) == 0);
  return fd;
}

}  // namespace weft::test
