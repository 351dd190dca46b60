// SPDX-License-Identifier: BSD-3-Clause
// Included in front of every mutated file (mutate.py). One build holds all mutants; the environment
// variable WEFT_MUTANT chooses one by its number at the start of the process. 0 or unset: none, and
// the numbers that were reached are written to the file WEFT_MUTANTS_REACHED.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace weft_mutation {

inline constexpr unsigned kMost = 65536;

struct Choice {
  unsigned chosen = 0;
  bool reached[kMost] = {};

  Choice() {
    if (const char* const wanted = std::getenv("WEFT_MUTANT"))
      chosen = static_cast<unsigned>(std::atoi(wanted));
  }
  ~Choice() {
    const char* const path = std::getenv("WEFT_MUTANTS_REACHED");
    std::FILE* const file = path != nullptr ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    for (unsigned i = 0; i < kMost; ++i)
      if (reached[i]) std::fprintf(file, "%u\n", i);
    std::fclose(file);
  }
};

// Constructed before its first use, also by initializers of other files.
inline Choice& choice() {
  static Choice only;
  return only;
}
inline bool reach(unsigned number) {
  Choice& now = choice();
  if (now.chosen == 0) now.reached[number] = true;
  return now.chosen == number;
}
// Whether mutant `number` is the chosen one. In constant expressions none is.
constexpr bool is(unsigned number) { return !__builtin_is_constant_evaluated() && reach(number); }

}  // namespace weft_mutation
