// SPDX-License-Identifier: BSD-3-Clause
// Algorithms: each file in lib/collective/algorithm emits the programs of one or several and
// registers them (manifest.hpp). collective_verify_test proves each over many shapes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/collective/plan/builder.hpp"
#include "lib/collective/plan/schedule.hpp"
#include "weft/result.hpp"

namespace weft::collective {

struct Traits {
  bool power_of_two = false;  // only for such numbers of ranks
  bool rank_order = false;    // adds in the order of ranks whatever the size
  bool passes_on = false;     // a chain or tree: ranks forward data piece by piece (pipelined)
  bool by_rack = false;       // needs Blocks::first_equal_row and the ranks of each rack
  bool over_forest = false;   // sends over Shape::forest, if the network is known; not chosen by
                              // predicted time
};

// Programs that no function emits: those of a plan from a file.
class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  virtual Program program(const Shape& shape, uint32_t rank) const = 0;
  // Error not_supported: the plan is for other ranks, another root or other counts.
  virtual Result<void> fits(const Shape& shape) const = 0;
  // Ranks compare it with each call, as files may differ.
  virtual uint64_t fingerprint() const = 0;
};

struct Algorithm {
  std::string_view name;
  Collective collective = Collective::all_reduce;
  void (*emit)(Builder& builder) = nullptr;  // or `source`
  Traits traits = {};
  // Position in lists, and in choices between algorithms of equal cost; those of equal order by
  // name.
  uint32_t order = 1000;
  // Lives as long as the process. Such an algorithm is taken only where it is named.
  const ProgramSource* source = nullptr;
};

// Those of lib/collective/algorithm by collective and order, then those that were added. Ranks name
// an algorithm by its row to each other.
std::span<const Algorithm> algorithms() noexcept;
// Adds an algorithm of the program's own: before the first communicator, in the same order on every
// rank. Errors: invalid_argument (no name or function, or there is one of that name for that
// collective), no_memory (256 rows).
Result<void> add_algorithm(const Algorithm& algorithm);
// Errors: not_found (the message lists the known names), not_supported (for this number of ranks).
Result<const Algorithm*> find_algorithm(std::string_view name, Collective collective,
                                        uint32_t ranks);

// Whether the algorithm can be chosen for a call of that many ranks without being named.
bool is_candidate(const Algorithm& algorithm, Collective collective, uint32_t ranks) noexcept;

// The piece, in elements, that the models cut transfers into: 0 (whole transfers) unless the
// algorithm is pipelined.
uint64_t model_piece(const Algorithm& algorithm, uint64_t count) noexcept;

// True if the algorithm adds in the order of ranks, whatever the size: what Numerics::any may use.
bool adds_in_rank_order(const Algorithm& algorithm) noexcept;

// Whether the algorithm has programs for this shape. Error: not_supported.
Result<void> fits(const Algorithm& algorithm, const Shape& shape);
Program program_of(const Algorithm& algorithm, const Shape& shape, uint32_t rank);
std::vector<Program> programs_of(const Algorithm& algorithm, const Shape& shape);

// Block b of n of a buffer: sizes differ by at most one element.
inline Range block(Range whole, uint32_t b, uint32_t n) {
  WEFT_DCHECK(n > 0 && b < n);
  const uint64_t from = whole.count * b / n;
  return whole.part(from, whole.count * (b + 1) / n - from);
}

inline Range input(uint64_t offset, uint64_t count) { return {Space::input, offset, count}; }
inline Range output(uint64_t offset, uint64_t count) { return {Space::output, offset, count}; }
inline Range work(uint64_t offset, uint64_t count) { return {Space::work, offset, count}; }

}  // namespace weft::collective
