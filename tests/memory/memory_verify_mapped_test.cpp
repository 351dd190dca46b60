// SPDX-License-Identifier: BSD-3-Clause
// verify_mapped: memory that registration accepts, and errors that name the first bad page and the
// missing permission. It must not write, nor commit memory that was never touched.
#include <alloca.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "lib/memory/guarded_copy.hpp"
#include "tests/support/pages.hpp"

using weft::Code;
using weft::Result;
using weft::memory::make_persistent;
using weft::memory::Need;
using weft::memory::verify_mapped;
using weft::test::kPage;
using weft::test::make_file;
using weft::test::Pages;

namespace {

std::string hex(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

// Refused with permission_denied, naming this page and this remedy.
void check_refused(const Result<void>& result, const std::byte* page, const char* words) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == Code::permission_denied);
  INFO(result.error().message);
  CHECK(result.error().message.find("page " + hex(page) + " ") == 0);
  CHECK(result.error().message.find(words) != std::string::npos);
}

}  // namespace

TEST_CASE("memory of every common kind is accepted for writing") {
  const Pages pages(4);
  std::vector<char> heap(1'000'001);
  char stack[100];
  static char data[5000];
  CHECK(verify_mapped(pages.at, pages.size, {true}));
  CHECK(verify_mapped(pages.at + kPage - 1, 2, {true}));
  CHECK(verify_mapped(heap.data(), heap.size(), {true}));
  CHECK(verify_mapped(stack, sizeof stack, {true}));
  CHECK(verify_mapped(data, sizeof data, {true}));
  CHECK(verify_mapped("text", 5, {false}));
  CHECK(verify_mapped(nullptr, 0, {true}));
}

TEST_CASE("a range over several mappings is accepted, also with different permissions") {
  const Pages pages(4);
  pages.protect(1, PROT_READ);
  pages.protect(3, PROT_READ | PROT_WRITE | PROT_EXEC);
  CHECK(verify_mapped(pages.at, pages.size, {false}));
  check_refused(verify_mapped(pages.at, pages.size, {true}), pages.at + kPage, "PROT_WRITE");
  CHECK(verify_mapped(pages.at + 2 * kPage, 2 * kPage, {true}));
}

TEST_CASE("the first bad page is named, wherever it is") {
  for (size_t bad = 0; bad < 6; ++bad) {
    Pages pages(6);
    pages.protect(bad, PROT_NONE);
    if (bad < 5) pages.protect(5, PROT_NONE);
    check_refused(verify_mapped(pages.at + 100, pages.size - 100, {false}), pages.at + bad * kPage,
                  "PROT_READ");
    pages.unmap(bad);
    check_refused(verify_mapped(pages.at + 100, pages.size - 100, {true}), pages.at + bad * kPage,
                  "is not mapped");
  }
}

TEST_CASE("one byte beyond the last good page is refused, the last good byte is not") {
  Pages pages(2);
  pages.unmap(1);
  CHECK(verify_mapped(pages.at + kPage - 1, 1, {true}));
  check_refused(verify_mapped(pages.at + kPage - 1, 2, {true}), pages.at + kPage, "is not mapped");
}

TEST_CASE("a mapping that reaches beyond the end of its file is refused at the first such page") {
  for (size_t whole = 0; whole <= 9; ++whole) {
    const int fd = make_file(whole * kPage + (whole % 2) * 10);  // a part of a page is a page
    const size_t good = whole + whole % 2;
    const Pages pages(9, fd);
    const Result<void> all = verify_mapped(pages.at, pages.size, {true});
    if (good >= 9) {
      CHECK(all);
    } else {
      check_refused(all, pages.at + good * kPage, "end of the file");
      check_refused(verify_mapped(pages.at + 8 * kPage, 8, {true}), pages.at + 8 * kPage, "file");
    }
    if (good > 0) CHECK(verify_mapped(pages.at, good * kPage, {true}));
    close(fd);
  }
}

TEST_CASE("a range that wraps around the address space is an invalid argument") {
  const Result<void> result =
      verify_mapped(reinterpret_cast<void*>(~uintptr_t{0} - 10), 100, {true});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == Code::invalid_argument);
}

TEST_CASE("a large array on a stack that has not grown there yet is accepted") {
  // The main thread's stack; gcc and clang do not touch what alloca gives.
  void* array = alloca(2 << 20);
  CHECK(verify_mapped(array, 2 << 20, {true}));
}

TEST_CASE("verification neither changes nor commits memory") {
  constexpr size_t kSize = size_t{1} << 36;  // 64 GiB of address space
  void* region = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return;  // a limit on address space
  CHECK(verify_mapped(region, kSize, {true}));
  unsigned char resident[16] = {};
  REQUIRE(mincore(region, 16 * kPage, resident) == 0);
  for (const unsigned char page : resident) CHECK((page & 1) == 0);
  munmap(region, kSize);

  const Pages pages(3);
  std::memset(pages.at, 0x5A, pages.size);
  CHECK(verify_mapped(pages.at, pages.size, {true}));
  for (size_t i = 0; i < pages.size; ++i) REQUIRE(pages.at[i] == std::byte{0x5A});
}

TEST_CASE("persistent memory must be a shared mapping of a file") {
  const Pages anonymous(2);
  const Need file{.write = true, .file = true};
  check_refused(verify_mapped(anonymous.at, anonymous.size, file), anonymous.at, "MAP_SHARED");
  const int nameless = make_file(2 * kPage);
  const Pages gone(2, nameless);
  check_refused(verify_mapped(gone.at, gone.size, file), gone.at, "MAP_SHARED");
  close(nameless);
  char name[] = "weft-persistent-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(fd >= 0);
  REQUIRE(ftruncate(fd, 2 * kPage) == 0);
  const Pages pages(2, fd);
  CHECK(verify_mapped(pages.at + 5, kPage, file));
  std::memcpy(pages.at + kPage - 2, "weft", 4);
  CHECK(make_persistent(pages.at + kPage - 2, 4));
  char text[4] = {};
  CHECK(pread(fd, text, 4, kPage - 2) == 4);
  CHECK(std::memcmp(text, "weft", 4) == 0);
  unlink(name);
  close(fd);
}

TEST_CASE("unmapped memory cannot be made persistent") {
  Pages pages(3);
  pages.unmap(1);
  CHECK_FALSE(make_persistent(pages.at + kPage - 4, 8));
}
