// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target for lib/memory/key_table: the bytes are a program of insertions, removals and checks;
// each answer is compared with a std::map and 128-bit arithmetic.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/memory/key_table.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using weft::Access;
using weft::fuzz::Input;
using weft::memory::KeyTable;
using weft::memory::Verdict;

__extension__ using Wide = __int128;

struct Entry {
  uint64_t base, length;
  uint32_t domain, access;
};

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed), table_(random_) {}

  void check_invariants() const { table_.check_invariants(); }
  void step(Input& input) {
    const auto operation = input.take<uint8_t>();
    switch (operation % 4) {
      case 0:
        return insert(input);
      case 1:
        return remove(input);
      default:
        return check(input, operation);
    }
  }

 private:
  // A key of the table, one that has been, a neighbour of one, or any number.
  uint32_t choose_key(Input& input) {
    const auto number = input.take<uint32_t>();
    if (keys_.empty() || number % 8 == 0) return number;
    const uint32_t key = keys_[number / 8 % keys_.size()];
    return number % 8 == 1 ? key ^ (1U << (number >> 27)) : key;
  }

  void insert(Input& input) {
    Entry entry = {input.take<uint64_t>(), input.take<uint64_t>(), input.take<uint8_t>() % 4U,
                   input.take<uint8_t>() % 16U};
    if (entry.length != 0 && entry.length - 1 > ~entry.base) entry.length = 0 - entry.base;
    const uint32_t key = table_.insert(std::bit_cast<std::byte*>(entry.base), entry.length,
                                       static_cast<Access>(entry.access), entry.domain);
    WEFT_CHECK(key != 0);
    WEFT_CHECK(shadow_.emplace(key, entry).second);
    WEFT_CHECK(table_.size() == shadow_.size());
    keys_.push_back(key);
  }

  void remove(Input& input) {
    const uint32_t key = choose_key(input);
    WEFT_CHECK(table_.remove(key) == (shadow_.erase(key) != 0));
    WEFT_CHECK(table_.size() == shadow_.size());
  }

  void check(Input& input, uint8_t operation) {
    const uint32_t key = choose_key(input);
    const auto found = shadow_.find(key);
    const uint32_t domain = input.take<uint8_t>() % 4U;
    const uint32_t need = input.take<uint8_t>() % 16U;
    uint64_t address = input.take<uint64_t>();
    uint64_t length = input.take<uint64_t>();
    if ((operation & 4) != 0 && found != shadow_.end()) {  // near the region
      address = found->second.base + address % 4096;
      length %= 4096;
    }
    length = std::max<uint64_t>(length, 1);
    std::byte* where = nullptr;
    const Verdict verdict =
        table_.check(key, domain, address, length, static_cast<Access>(need), &where);
    WEFT_CHECK(verdict == expected(found, domain, address, length, need));
    WEFT_CHECK(where == (verdict == Verdict::ok ? std::bit_cast<std::byte*>(address) : nullptr));
  }

  Verdict expected(std::map<uint32_t, Entry>::const_iterator found, uint32_t domain,
                   uint64_t address, uint64_t length, uint32_t need) const {
    if (found == shadow_.end()) return Verdict::bad_key;
    const Entry& entry = found->second;
    if (entry.domain != domain) return Verdict::wrong_domain;
    if (address < entry.base || Wide{address} + length > Wide{entry.base} + entry.length)
      return Verdict::out_of_bounds;
    return (need & ~entry.access) == 0 ? Verdict::ok : Verdict::no_permission;
  }

  weft::base::SecureRandom random_;
  KeyTable table_;
  std::map<uint32_t, Entry> shadow_;
  std::vector<uint32_t> keys_;  // all that ever were
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input{data, size};
  Program program(input.take<uint8_t>());
  while (input.left > 0) program.step(input);
  program.check_invariants();
  return 0;
}
