// SPDX-License-Identifier: BSD-3-Clause
// The command lines of nccl-tests and nccom-test, in the words of weft_coll: `-d float` is a type
// there, `-g 4` a number of ranks, and `allr` an all-reduce.
#pragma once

#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::bench {

// The words after the program's name, translated; those that it knows already stay as they are.
// Error: not_supported, for an option that has no meaning here and a value other than the usual.
Result<std::vector<std::string>> in_our_words(int argc, char** argv);

}  // namespace weft::bench
