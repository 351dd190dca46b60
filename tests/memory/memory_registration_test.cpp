// SPDX-License-Identifier: BSD-3-Clause
// lib/memory/key_table: regions that are not memory under its own address, and regions that change.
#include <bit>

#include "lib/memory/key_table.hpp"
#include "tests/support/catch.hpp"

namespace weft::memory {
namespace {

using base::SecureRandom;

std::byte* pointer(uint64_t address) { return std::bit_cast<std::byte*>(address); }

TEST_CASE("requests name a region by its iova") {
  SecureRandom random(3);
  KeyTable table(random);
  std::byte* where = nullptr;
  const uint64_t iova = UINT64_MAX - 0xFF;
  const uint32_t key = table.insert({{pointer(0x1000), 0x100, iova}, Access::all, 5});
  CHECK(table.check(key, 5, iova, 0x100, Access::none, &where) == Verdict::ok);
  CHECK(where == pointer(0x1000));
  CHECK(table.check(key, 5, iova + 0xFF, 1, Access::none, &where) == Verdict::ok);
  CHECK(where == pointer(0x10FF));
  CHECK(table.check(key, 5, iova + 0xFF, 2, Access::none, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, iova - 1, 2, Access::none, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, 0x1000, 1, Access::none, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, 0, 1, Access::none, &where) == Verdict::out_of_bounds);
  uint64_t length = 0;
  CHECK(table.check_whole(key, AccessContext{5, 0}, Access::none, &where, &length) == Verdict::ok);
  CHECK(where == pointer(0x1000));
}

TEST_CASE("a region of the whole address space has no end to run over") {
  SecureRandom random(4);
  KeyTable table(random);
  std::byte* where = nullptr;
  const uint32_t key = table.insert(nullptr, UINT64_MAX, Access::all, 5);
  CHECK(table.check(key, 5, 0, 1, Access::none, &where) == Verdict::ok);
  CHECK(where == nullptr);
  CHECK(table.check(key, 5, UINT64_MAX - 1, 1, Access::none, &where) == Verdict::ok);
  CHECK(table.check(key, 5, UINT64_MAX - 1, 2, Access::none, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, UINT64_MAX, 1, Access::none, &where) == Verdict::out_of_bounds);
}

TEST_CASE("a null region is for local accesses of its domain") {
  SecureRandom random(5);
  KeyTable table(random);
  std::byte* where = nullptr;
  std::byte* sink = nullptr;
  const uint32_t key = table.insert({{}, Access::local_write, 5, KeyKind::null_region});
  CHECK(table.check(key, 5, 77, 4096, Access::none, &where) == Verdict::ok);
  CHECK(*where == std::byte{0});
  CHECK(where[4095] == std::byte{0});
  REQUIRE(table.check(key, 5, UINT64_MAX, 4096, Access::local_write, &sink) == Verdict::ok);
  CHECK(sink != where);
  *sink = std::byte{1};
  CHECK(*where == std::byte{0});
  CHECK(table.check(key, 6, 77, 1, Access::none, &where) == Verdict::wrong_domain);
  CHECK(table.check(key, AccessContext{5, 1}, 77, 1, Access::none, &where) == Verdict::bad_key);
  CHECK(table.window(key) == nullptr);
  const uint32_t window = table.insert_window(KeyKind::window_of_domain, 5);
  CHECK_FALSE(table.bind({window, key, table.choose_key(window, 0), 0, 8, Access::remote_read},
                         AccessContext{5, 1}));
  CHECK_FALSE(table.revoke(key, AccessContext{5, 1}));
  CHECK_FALSE(table.replace(key, {{pointer(0x1000), 8, 0x1000}, Access::all, 5}));
  CHECK(table.remove(key));
  CHECK(table.check(key, 5, 77, 1, Access::none, &where) == Verdict::bad_key);
}

TEST_CASE("a region is replaced under its key unless a window is bound to it") {
  SecureRandom random(6);
  KeyTable table(random);
  std::byte* where = nullptr;
  const Access rights = Access::all | Access::window_bind;
  const uint32_t key = table.insert(pointer(0x1000), 0x100, rights, 5);
  REQUIRE(table.replace(key, {{pointer(0x2000), 0x10, 0x50}, rights, 6}));
  CHECK(table.check(key, 5, 0x1000, 1, Access::none, &where) == Verdict::wrong_domain);
  CHECK(table.check(key, 6, 0x1000, 1, Access::none, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 6, 0x51, 1, Access::none, &where) == Verdict::ok);
  CHECK(where == pointer(0x2001));
  const uint32_t window = table.insert_window(KeyKind::window_of_domain, 6);
  const uint32_t bound = table.choose_key(window, 0);
  REQUIRE(table.bind({window, key, bound, 0x52, 4, Access::remote_write}, AccessContext{6, 1}));
  CHECK(table.check(bound, AccessContext{6, 1}, 0x52, 4, Access::remote_write, &where) ==
        Verdict::ok);
  CHECK(where == pointer(0x2002));
  CHECK_FALSE(table.replace(key, {{pointer(0x3000), 0x10, 0}, Access::none, 6}));
  CHECK(table.check(key, 6, 0x51, 1, Access::local_write, &where) == Verdict::ok);
  table.remove_window(bound);
  CHECK(table.replace(key, {{pointer(0x3000), 0x10, 0}, Access::none, 6}));
  CHECK_FALSE(table.replace(key ^ 1, {{pointer(0x3000), 0x10, 0}, Access::none, 6}));
  table.check_invariants();
}

}  // namespace
}  // namespace weft::memory
