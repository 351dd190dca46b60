// SPDX-License-Identifier: BSD-3-Clause
// The symbolic value of one element: the set of contributions in it. A reduction is a union of
// disjoint sets; a contribution in both operands would count twice.
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "lib/collective/plan/schedule.hpp"
#include "lib/collective/plan/verify.hpp"

namespace weft::collective {

struct Value {
  std::bitset<kMaxVerifiedRanks> ranks;  // ranks that contributed; none: never written
  uint64_t index = 0;                    // of the contributed element in the inputs of `ranks`
  bool finished = false;                 // divided and rounded
  // 0: added in the shape's order; otherwise identifies the ranks that added in any order, so that
  // equal values have equal bits.
  uint64_t order = 0;

  bool is_same(const Value& other) const {
    return ranks == other.ranks && index == other.index && finished == other.finished;
  }
};

// The memory of one rank, and the effect of each step on it. Functions return the violation, or "".
class SymbolicMemory {
 public:
  SymbolicMemory(const Shape& shape, uint32_t rank, uint64_t work);

  // Reads the values of a range, as a put sends them.
  std::string read(const Range& range, std::vector<Value>& values) const;
  // Executes a step other than a put; `incoming`: the values that a receive gets.
  std::string execute(const Step& step, const std::vector<Value>& incoming);
  // Compares the output with what the shape specifies.
  std::string check_output() const;
  // Checks that equal outputs of two ranks have equal bits.
  std::string check_bits(const SymbolicMemory& other) const;

 private:
  const Value& at(const Range& range, uint64_t i) const;
  std::string combine(const std::vector<Value>& a, const std::vector<Value>& b,
                      std::vector<Value>& sum) const;
  std::string finish(std::vector<Value>& values) const;
  const Value& output_value(uint64_t i) const;
  Value expected(uint64_t i) const;
  Value expected_from_blocks(uint64_t i) const;
  uint64_t first_equal_element(uint32_t from, uint64_t i) const;

  Shape shape_;
  uint32_t rank_;
  std::vector<Value> spaces_[3];
};

}  // namespace weft::collective
