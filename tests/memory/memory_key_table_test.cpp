// SPDX-License-Identifier: BSD-3-Clause
// lib/memory/key_table: every verdict, against references that are written in another way: a
// std::map for which keys exist, 128-bit arithmetic for bounds. WEFT_TEST_SCALE multiplies the
// number of random accesses, WEFT_TEST_SEED repeats a run.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "lib/memory/key_table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scale.hpp"

using weft::Access;
using weft::base::Random;
using weft::base::SecureRandom;
using weft::memory::AccessContext;
using weft::memory::Binding;
using weft::memory::KeyKind;
using weft::memory::KeyTable;
using weft::memory::Verdict;

namespace {

__extension__ using Wide = __int128;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}
uint64_t seed() {
  const uint64_t chosen = from_environment("WEFT_TEST_SEED", SecureRandom().next64());
  UNSCOPED_INFO("replay: WEFT_TEST_SEED=" << chosen << " memory_key_table_test");
  return chosen;
}

std::byte* pointer(uint64_t address) { return std::bit_cast<std::byte*>(address); }

}  // namespace

TEST_CASE("a region is accessible by its key, exactly within its bounds") {
  SecureRandom random(1);
  KeyTable table(random);
  const uint32_t key = table.insert(pointer(0x1000), 0x100, Access::all, 5);
  CHECK(key != 0);
  CHECK(table.size() == 1);
  std::byte* where = nullptr;
  CHECK(table.check(key, 5, 0x1000, 0x100, Access::remote_write, &where) == Verdict::ok);
  CHECK(where == pointer(0x1000));
  CHECK(table.check(key, 5, 0x10FF, 1, Access::remote_read, &where) == Verdict::ok);
  CHECK(where == pointer(0x10FF));
  CHECK(table.check(key, 5, 0x10FF, 2, Access::remote_read, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, 0x1100, 1, Access::remote_read, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, 0x0FFF, 1, Access::remote_read, &where) == Verdict::out_of_bounds);
  CHECK(table.check(key, 5, 0x0FFF, 2, Access::remote_read, &where) == Verdict::out_of_bounds);
  CHECK(where == pointer(0x10FF));  // a refusal says nothing
  CHECK(table.check(key ^ 1, 5, 0x1000, 1, Access::none, &where) == Verdict::bad_key);
  CHECK(table.check(0, 5, 0x1000, 1, Access::none, &where) == Verdict::bad_key);
}

TEST_CASE("a removed key is invalid and can be removed once") {
  SecureRandom random(2);
  KeyTable table(random);
  std::byte* where = nullptr;
  const uint32_t key = table.insert(pointer(0x1000), 8, Access::all, 1);
  CHECK(table.remove(key));
  CHECK_FALSE(table.remove(key));
  CHECK_FALSE(table.remove(0));
  CHECK(table.size() == 0);
  CHECK(table.check(key, 1, 0x1000, 8, Access::none, &where) == Verdict::bad_key);
}

TEST_CASE("roce:C-OPS-88 windows of a domain and of a queue pair") {
  SecureRandom random(1);
  KeyTable table(random);
  const Access rights = Access::all | Access::window_bind;
  const uint32_t region = table.insert(pointer(0x1000), 0x100, rights, 1);
  const AccessContext owner{1, 9}, neighbour{1, 8}, other_domain{2, 9};
  std::byte* where = nullptr;
  for (const KeyKind kind : {KeyKind::window_of_domain, KeyKind::window_of_queue}) {
    const bool of_queue = kind == KeyKind::window_of_queue;
    const uint32_t window = table.insert_window(kind, 1);
    CHECK(table.check(window, owner, 0x1000, 1, Access::none, &where) == Verdict::bad_key);
    CHECK(table.window(window ^ 0xFF) != nullptr);
    CHECK(table.window(region) == nullptr);
    const uint32_t key = table.choose_key(window, window + 1);
    CHECK(key >> 8 == window >> 8);
    const Binding binding{window, region, key, 0x1010, 0x10, Access::remote_read};
    CHECK_FALSE(table.bind(binding, other_domain));
    Binding bad = binding;
    bad.length = 0x1000;
    CHECK_FALSE(table.bind(bad, owner));
    bad = binding;
    bad.region = window;
    CHECK_FALSE(table.bind(bad, owner));
    REQUIRE(table.bind(binding, owner));
    CHECK(table.check(key, owner, 0x1010, 0x10, Access::remote_read, &where) == Verdict::ok);
    CHECK(where == pointer(0x1010));
    CHECK(table.check(key, owner, 0x100F, 1, Access::remote_read, &where) ==
          Verdict::out_of_bounds);
    CHECK(table.check(key, owner, 0x1020, 1, Access::remote_read, &where) ==
          Verdict::out_of_bounds);
    CHECK(table.check(key, owner, 0x1010, 1, Access::remote_write, &where) ==
          Verdict::no_permission);
    CHECK(table.check(key, other_domain, 0x1010, 1, Access::remote_read, &where) ==
          Verdict::wrong_domain);
    CHECK((table.check(key, neighbour, 0x1010, 1, Access::remote_read, &where) == Verdict::ok) !=
          of_queue);
    // Not for local use, and not under a key that it had.
    CHECK(table.check(key, 1, 0x1010, 1, Access::none, &where) == Verdict::bad_key);
    CHECK(table.check(window, owner, 0x1010, 1, Access::none, &where) == Verdict::bad_key);
    CHECK(table.bind(binding, owner) != of_queue);  // type 2 must be revoked first
    CHECK_FALSE(table.revoke(key, neighbour));
    CHECK(table.revoke(key, owner) == of_queue);
    CHECK_FALSE(table.remove(key));  // no region
  }
  const size_t before = table.size();
  REQUIRE(table.remove(region));  // the type 1 window still shows it
  CHECK(table.size() == before - 1);
}

TEST_CASE("roce:C-OPS-88 removing a region unbinds its windows") {
  SecureRandom random(1);
  KeyTable table(random);
  const uint32_t region = table.insert(pointer(0x1000), 64, Access::all | Access::window_bind, 1);
  std::vector<uint32_t> keys;
  const AccessContext owner{1, 9};
  for (int i = 0; i < 20; ++i) {
    const uint32_t window = table.insert_window(KeyKind::window_of_domain, 1);
    keys.push_back(table.choose_key(window, 0));
    REQUIRE(table.bind({window, region, keys.back(), 0x1000, 64, Access::remote_read}, owner));
  }
  table.remove_window(keys.back());
  std::byte* where = nullptr;
  REQUIRE(table.check(keys[3], owner, 0x1000, 64, Access::remote_read, &where) == Verdict::ok);
  REQUIRE(table.remove(region));
  for (const uint32_t key : keys)
    CHECK(table.check(key, owner, 0x1000, 1, Access::none, &where) == Verdict::bad_key);
  CHECK(table.size() == 19);
}

TEST_CASE("roce:C-OPS-73 an invalidated key keeps its local rights, in its own domain only") {
  SecureRandom random(7);
  KeyTable table(random);
  std::byte* where = nullptr;
  const uint32_t key = table.insert(pointer(0x1000), 8, Access::all, 1);
  const uint32_t other = table.insert(pointer(0x1000), 8, Access::all, 1);
  CHECK_FALSE(table.revoke(key, {2, 0}));
  CHECK_FALSE(table.revoke(0, {1, 0}));
  CHECK(table.check(key, 1, 0x1000, 8, Access::all, &where) == Verdict::ok);
  CHECK(table.revoke(key, {1, 0}));
  for (const Access right : {Access::remote_write, Access::remote_read, Access::remote_atomic})
    CHECK(table.check(key, 1, 0x1000, 8, right, &where) == Verdict::no_permission);
  CHECK(table.check(key, 1, 0x1000, 8, Access::local_write, &where) == Verdict::ok);
  CHECK(table.check(key, 1, 0x1000, 8, Access::none, &where) == Verdict::ok);
  CHECK(table.check(other, 1, 0x1000, 8, Access::all, &where) == Verdict::ok);
  CHECK(table.remove(key));
}

TEST_CASE("every combination of granted and needed rights") {
  SecureRandom random(3);
  KeyTable table(random);
  std::byte* where = nullptr;
  for (uint32_t granted = 0; granted < 16; ++granted) {
    const uint32_t key = table.insert(pointer(0x2000), 64, static_cast<Access>(granted), 1);
    for (uint32_t need = 0; need < 16; ++need) {
      const Verdict expected = (need & ~granted) == 0 ? Verdict::ok : Verdict::no_permission;
      CHECK(table.check(key, 1, 0x2000, 64, static_cast<Access>(need), &where) == expected);
    }
  }
}

TEST_CASE("threat:A05 a key works in its own domain only, over the full cross product") {
  SecureRandom random(4);
  KeyTable table(random);
  constexpr uint32_t kDomains = 40;
  std::array<std::vector<uint32_t>, kDomains> keys;
  for (uint32_t domain = 0; domain < kDomains; ++domain)
    for (int i = 0; i < 10; ++i)
      keys[domain].push_back(table.insert(pointer(0x4000), 4096, Access::all, domain));
  size_t wrong = 0;
  std::byte* where = nullptr;
  for (uint32_t owner = 0; owner < kDomains; ++owner)
    for (uint32_t user = 0; user < kDomains; ++user)
      for (const uint32_t key : keys[owner]) {
        const Verdict expected = owner == user ? Verdict::ok : Verdict::wrong_domain;
        wrong += table.check(key, user, 0x4000, 1, Access::local_write, &where) != expected;
      }
  CHECK(wrong == 0);
}

TEST_CASE("threat:A06 bounds agree with 128-bit arithmetic, at every edge") {
  SecureRandom secure(5);
  Random random(seed());
  const bool all = std::getenv("WEFT_TEST_LONG") != nullptr;  // 10^8
  const uint64_t rounds = weft::test::scaled(all ? 100'000 : 2'000);
  uint64_t mismatches = 0;
  std::array<uint64_t, 2> seen{};  // accepted, refused: both must be common
  const auto number = [&]() -> uint64_t { return random.next() >> random.below(64); };
  for (uint64_t round = 0; round < rounds; ++round) {
    KeyTable table(secure);
    uint64_t base = random.below(4) == 0 ? 0 - number() : number();
    uint64_t length = number();
    if (length != 0 && length - 1 > ~base) length = random.below(2) ? 0 - base : ~base;
    const uint32_t key = table.insert(pointer(base), length, Access::all, 1);
    for (int i = 0; i < 1000; ++i) {
      // Interesting places: around 0, the base and the end, and anywhere; then a step of any size.
      const std::array<uint64_t, 4> places = {0, base, base + length, random.next()};
      uint64_t va = places[random.below(4)] + (random.below(2) ? number() : 0 - number());
      if (random.below(4) == 0) va = places[random.below(3)] + random.below(5) - 2;
      uint64_t size = random.below(2) ? number() : base + length - va + random.below(3) - 1;
      if (size == 0) size = 1;
      const Wide low = va;
      const Wide high = low + size;
      const bool inside = low >= Wide{base} && high <= Wide{base} + length;
      std::byte* where = nullptr;
      const Verdict verdict = table.check(key, 1, va, size, Access::none, &where);
      const bool agrees = inside ? verdict == Verdict::ok && where == pointer(va)
                                 : verdict == Verdict::out_of_bounds;
      mismatches += !agrees;
      ++seen[inside ? 0 : 1];
    }
  }
  CHECK(mismatches == 0);
  CHECK(seen[0] > rounds * 50);
  CHECK(seen[1] > rounds * 50);
}

TEST_CASE("threat:A04 keys cannot be guessed from one another") {
  SecureRandom random;  // as in production
  KeyTable table(random);
  constexpr uint32_t kKeys = 1'000'000;
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < kKeys; ++i)
    keys.push_back(table.insert(pointer(0x1000), 8, Access::all, 1));
  REQUIRE(table.size() == kKeys);

  // No key is a small step from the one before; equal differences repeat no more than by chance.
  std::vector<uint32_t> steps;
  for (size_t i = 1; i < keys.size(); ++i) steps.push_back(keys[i] - keys[i - 1]);
  const auto small =
      std::count_if(steps.begin(), steps.end(), [](uint32_t s) { return s + 1000 <= 2000; });
  CHECK(small <= 6);  // expected 0.5
  std::sort(steps.begin(), steps.end());
  size_t equal = 0;
  for (size_t i = 1; i < steps.size(); ++i) equal += steps[i] == steps[i - 1];
  CHECK(equal < 200);  // expected n^2 / 2^33 = 116

  // Each of the 256 values of each byte is as frequent as the others: the most frequent one bounds
  // the min-entropy of the byte. Expected 3906, sigma 62.
  double entropy = 0;
  for (int byte = 0; byte < 4; ++byte) {
    std::array<uint32_t, 256> count{};
    for (const uint32_t key : keys) ++count[(key >> (8 * byte)) & 0xFF];
    entropy -= std::log2(*std::max_element(count.begin(), count.end()) / double{kKeys});
    CHECK(*std::min_element(count.begin(), count.end()) > 3500);
  }
  CHECK(entropy >= 31);
  std::sort(keys.begin(), keys.end());
  CHECK(keys.front() != 0);
  CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
}

TEST_CASE("threat:A04 wrong keys give no access") {
  SecureRandom secure(6);
  Random random(seed());
  KeyTable table(secure);
  std::map<uint32_t, bool> known;
  for (int i = 0; i < 1000; ++i) known[table.insert(pointer(0x1000), 8, Access::all, 1)] = true;
  uint64_t opened = 0;
  std::byte* where = nullptr;
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    const auto key = static_cast<uint32_t>(random.next());
    if (known.count(key) != 0) continue;
    opened += table.check(key, 1, 0x1000, 8, Access::none, &where) != Verdict::bad_key;
  }
  CHECK(opened == 0);
  CHECK(table.check(0, 0, 0, 1, Access::none, &where) == Verdict::bad_key);
}

TEST_CASE("the table agrees with a map over random insertions and removals") {
  struct Entry {
    uint64_t base, length;
    uint32_t domain;
  };
  const uint64_t start = seed();
  for (uint64_t run = 0; run < weft::test::scaled(20); ++run) {
    SecureRandom secure(start + run);
    Random random(start + run);
    KeyTable table(secure);
    std::map<uint32_t, Entry> shadow;
    std::vector<uint32_t> every_key;  // dead ones too
    uint64_t mismatches = 0;
    const uint64_t insert_of_8 = 3 + random.below(4);
    for (int step = 0; step < 3000; ++step) {
      if (random.below(8) < insert_of_8 || every_key.empty()) {
        const Entry entry = {random.next() >> 2, random.below(1 << 20) + 1,
                             static_cast<uint32_t>(random.below(4))};
        const uint32_t key =
            table.insert(pointer(entry.base), entry.length, Access::all, entry.domain);
        mismatches += key == 0 || !shadow.emplace(key, entry).second;
        every_key.push_back(key);
      } else {
        const uint32_t key = every_key[random.below(every_key.size())];
        mismatches += table.remove(key) != (shadow.erase(key) != 0);
      }
      mismatches += table.size() != shadow.size();
      if (step % 50 != 0) continue;
      for (const uint32_t key : every_key) {
        const auto found = shadow.find(key);
        std::byte* where = nullptr;
        const bool lives = found != shadow.end();
        const Entry entry = lives ? found->second : Entry{1, 1, 0};
        const Verdict verdict =
            table.check(key, entry.domain, entry.base, entry.length, Access::all, &where);
        mismatches += verdict != (lives ? Verdict::ok : Verdict::bad_key);
        mismatches += lives && where != pointer(entry.base);
      }
    }
    CHECK(mismatches == 0);
  }
}
