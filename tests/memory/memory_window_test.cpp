// SPDX-License-Identifier: BSD-3-Clause
// Memory windows in the key table: each rule of a binding alone, so that no other one refuses what
// it should, and what the end of a queue pair unbinds. //= roce:C-OPS-88
#include <bit>

#include "lib/memory/key_table.hpp"
#include "tests/support/catch.hpp"

namespace weft::memory {
namespace {

using base::SecureRandom;

struct Windows {
  SecureRandom random{5};
  KeyTable table{random};
  AccessContext owner{1, 9};
  uint32_t region = insert(Access::all | Access::window_bind, 1);

  uint32_t insert(Access access, uint32_t domain) {
    return table.insert(std::bit_cast<std::byte*>(uint64_t{0x1000}), 0x100, access, domain);
  }
  Binding binding(uint32_t window, uint32_t variant = 1) {
    return {window, region, table.choose_key(window, window + variant),
            0x1010, 0x10,   Access::remote_read};
  }
  bool reads(uint32_t key, uint64_t address, const AccessContext& by) {
    std::byte* where = nullptr;
    return table.check(key, by, address, 1, Access::remote_read, &where) == Verdict::ok;
  }
};

}  // namespace

TEST_CASE("only the domain of a window binds it, also to a region of another") {
  Windows w;
  Binding b = w.binding(w.table.insert_window(KeyKind::window_of_domain, 1));
  b.region = w.insert(Access::all | Access::window_bind, 2);
  CHECK_FALSE(w.table.bind(b, {2, 9}));
  b.window = 0x12345600;  // no window
  CHECK_FALSE(w.table.bind(b, w.owner));
  b.window = w.region;
  CHECK_FALSE(w.table.bind(b, w.owner));
}

TEST_CASE("a type 2 window is bound once, to something, under a new key") {
  Windows w;
  const uint32_t window = w.table.insert_window(KeyKind::window_of_queue, 1);
  Binding b = w.binding(window);
  Binding wrong = b;
  wrong.length = 0;
  CHECK_FALSE(w.table.bind(wrong, w.owner));
  wrong = b;
  wrong.key = window;  // the key that it has
  CHECK_FALSE(w.table.bind(wrong, w.owner));
  REQUIRE(w.table.bind(b, w.owner));
  const Binding again = w.binding(window, 7);
  REQUIRE(again.key != b.key);
  CHECK_FALSE(w.table.bind(again, w.owner));
  CHECK(w.reads(b.key, 0x1010, w.owner));
  REQUIRE(w.table.revoke(b.key, w.owner));
  CHECK_FALSE(w.reads(b.key, 0x1010, w.owner));
  CHECK(w.table.bind(again, w.owner));
}

TEST_CASE("a type 1 window draws another key each time, a type 2 window takes the wanted one") {
  Windows w;
  const uint32_t domain = w.table.insert_window(KeyKind::window_of_domain, 1);
  uint32_t before = domain, differs_from_wanted = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint32_t key = w.table.choose_key(domain, 5);
    CHECK(key != before);
    CHECK(key >> 8 == domain >> 8);
    differs_from_wanted += (key & 0xFF) != 5;
    before = key;
  }
  CHECK(differs_from_wanted > 900);
  const uint32_t queue = w.table.insert_window(KeyKind::window_of_queue, 1);
  for (uint32_t i = 0; i < 256; ++i) CHECK((w.table.choose_key(queue, i) & 0xFF) == i);
}

TEST_CASE("a window that peers write through needs a region that may be written to") {
  Windows w;
  w.region = w.insert(Access::remote_read | Access::window_bind, 1);
  Binding b = w.binding(w.table.insert_window(KeyKind::window_of_domain, 1));
  for (const Access access : {Access::remote_write, Access::remote_write | Access::remote_read,
                              Access::remote_atomic, Access::remote_atomic | Access::remote_read}) {
    b.access = access;
    CHECK_FALSE(w.table.bind(b, w.owner));
  }
  b.access = Access::remote_read;
  CHECK(w.table.bind(b, w.owner));
}

TEST_CASE("a zero-based window begins at 0, any other at the address that was bound") {
  for (const bool zero_based : {false, true}) {
    Windows w;
    Binding b = w.binding(w.table.insert_window(KeyKind::window_of_queue, 1));
    if (zero_based) b.access = b.access | Access::zero_based;
    REQUIRE(w.table.bind(b, w.owner));
    const uint64_t first = zero_based ? 0 : 0x1010;
    CHECK(w.reads(b.key, first, w.owner));
    CHECK(w.reads(b.key, first + 0xF, w.owner));
    CHECK_FALSE(w.reads(b.key, first + 0x10, w.owner));
    CHECK_FALSE(w.reads(b.key, first - 1, w.owner));
  }
}

TEST_CASE("the end of a queue pair unbinds its type 2 windows, and no others") {
  Windows w;
  const AccessContext neighbour{1, 8};
  const Binding mine = w.binding(w.table.insert_window(KeyKind::window_of_queue, 1)),
                theirs = w.binding(w.table.insert_window(KeyKind::window_of_queue, 1)),
                of_domain = w.binding(w.table.insert_window(KeyKind::window_of_domain, 1));
  REQUIRE(w.table.bind(mine, w.owner));
  REQUIRE(w.table.bind(theirs, neighbour));
  REQUIRE(w.table.bind(of_domain, w.owner));
  w.table.release(w.owner.qp);
  CHECK_FALSE(w.reads(mine.key, 0x1010, w.owner));
  CHECK(w.reads(theirs.key, 0x1010, neighbour));
  CHECK(w.reads(of_domain.key, 0x1010, w.owner));
  w.table.release(neighbour.qp);
  CHECK_FALSE(w.reads(theirs.key, 0x1010, neighbour));
  CHECK(w.reads(of_domain.key, 0x1010, w.owner));
}

TEST_CASE(
    "a window that is bound elsewhere, or to nothing, leaves its region as if it had no window") {
  Windows w;
  const uint32_t window = w.table.insert_window(KeyKind::window_of_domain, 1);
  const uint32_t first = w.region;
  const Registration other{{std::bit_cast<std::byte*>(uint64_t{0x9000}), 0x100, 0x9000},
                           Access::all | Access::window_bind,
                           1};
  const Binding to_first = w.binding(window);
  REQUIRE(w.table.bind(to_first, w.owner));
  CHECK_FALSE(w.table.replace(first, other));
  w.region = w.insert(Access::all | Access::window_bind, 1);
  const Binding to_second = w.binding(window);
  REQUIRE(w.table.bind(to_second, w.owner));
  CHECK(w.table.replace(first, other));
  CHECK_FALSE(w.reads(to_first.key, 0x1010, w.owner));
  CHECK(w.reads(to_second.key, 0x1010, w.owner));
  Binding to_nothing = w.binding(window);
  to_nothing.length = 0;
  REQUIRE(w.table.bind(to_nothing, w.owner));
  CHECK(w.table.replace(w.region, other));
  CHECK_FALSE(w.reads(to_second.key, 0x1010, w.owner));
  CHECK_FALSE(w.reads(to_nothing.key, 0x1010, w.owner));
}

TEST_CASE(
    "type 1 windows that are unbound do not count against the type 2 windows of a queue pair") {
  Windows w;
  const Binding of_queue = w.binding(w.table.insert_window(KeyKind::window_of_queue, 1));
  REQUIRE(w.table.bind(of_queue, w.owner));
  Binding of_domain = w.binding(w.table.insert_window(KeyKind::window_of_domain, 1));
  REQUIRE(w.table.bind(of_domain, w.owner));
  of_domain.length = 0;
  REQUIRE(w.table.bind(of_domain, w.owner));
  w.table.release(w.owner.qp);
  CHECK_FALSE(w.reads(of_queue.key, 0x1010, w.owner));
}

TEST_CASE("a peer invalidates no type 1 window, and no type 2 window of another queue pair") {
  Windows w;
  const AccessContext neighbour{1, 8};
  const Binding of_domain = w.binding(w.table.insert_window(KeyKind::window_of_domain, 1)),
                theirs = w.binding(w.table.insert_window(KeyKind::window_of_queue, 1));
  REQUIRE(w.table.bind(of_domain, w.owner));
  REQUIRE(w.table.bind(theirs, neighbour));
  CHECK_FALSE(w.table.revoke(of_domain.key, w.owner));
  CHECK(w.reads(of_domain.key, 0x1010, w.owner));
  CHECK_FALSE(w.table.revoke(theirs.key, w.owner));
  CHECK(w.reads(theirs.key, 0x1010, neighbour));
  const uint32_t unbound = w.table.insert_window(KeyKind::window_of_queue, 1);
  CHECK_FALSE(w.table.revoke(unbound, w.owner));
}

TEST_CASE("the first key of a type 1 window is not the one that it was made with") {
  for (uint32_t i = 0; i < 2000; ++i) {
    Windows w;
    w.random = SecureRandom{i};
    const uint32_t window = w.table.insert_window(KeyKind::window_of_domain, 1);
    CHECK(w.table.choose_key(window, 0) != window);
  }
}

TEST_CASE("the memory of a whole key: each reason to refuse it by name") {
  Windows w;
  std::byte* where = nullptr;
  uint64_t length = 0;
  const auto check = [&](uint32_t key, AccessContext by, Access need) {
    return w.table.check_whole(key, by, need, &where, &length);
  };
  CHECK(check(0x12345678, w.owner, Access::remote_read) == Verdict::bad_key);
  CHECK(check(w.region, {2, 9}, Access::remote_read) == Verdict::wrong_domain);
  const uint32_t read_only = w.insert(Access::remote_read, 1);
  CHECK(check(read_only, w.owner, Access::remote_write) == Verdict::no_permission);
  CHECK(length == 0);
  CHECK(check(read_only, w.owner, Access::remote_read) == Verdict::ok);
  CHECK(length == 0x100);
  CHECK(where == std::bit_cast<std::byte*>(uint64_t{0x1000}));
}

}  // namespace weft::memory
