// SPDX-License-Identifier: BSD-3-Clause
// What verify() knows of one element in memory: which contributions are in it. Reduction is a union
// of disjoint sets; a contribution that is in both sides would count twice.
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "lib/collective/plan/schedule.hpp"
#include "lib/collective/plan/verify.hpp"

namespace weft::collective {

struct Value {
  std::bitset<kMaxVerifiedRanks> ranks;  // whose contributions are in it; none: never written
  uint64_t index = 0;                    // of the contributed element in those ranks' inputs
  bool finished = false;                 // divided and rounded
  // 0: the shape's; else who added in which, so that the same are the same bits.
  uint64_t order = 0;

  bool is_same(const Value& other) const {
    return ranks == other.ranks && index == other.index && finished == other.finished;
  }
};

// The memory of one rank, and what each step does to it. Functions return what is wrong, or "".
class SymbolicMemory {
 public:
  SymbolicMemory(const Shape& shape, uint32_t rank, uint64_t work);

  // The values of a range, as a put carries them.
  std::string read(const Range& range, std::vector<Value>& values) const;
  // Executes a step that is no put; `incoming` is what a receive got.
  std::string execute(const Step& step, const std::vector<Value>& incoming);
  // Compares the output with what the shape asks for.
  std::string check_output() const;
  // Whether outputs that hold the same have the same bits.
  std::string check_bits(const SymbolicMemory& other) const;

 private:
  const Value& at(const Range& range, uint64_t i) const;
  std::string combine(const std::vector<Value>& a, const std::vector<Value>& b,
                      std::vector<Value>& sum) const;
  std::string finish(std::vector<Value>& values) const;
  const Value& output_at(uint64_t i) const;
  Value expected(uint64_t i) const;
  Value moved(uint64_t i) const;
  uint64_t equal(uint32_t from, uint64_t i) const;

  Shape shape_;
  uint32_t rank_;
  std::vector<Value> spaces_[3];
};

}  // namespace weft::collective
