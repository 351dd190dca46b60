// SPDX-License-Identifier: BSD-3-Clause
// See paths.hpp.
#include "tests/support/paths.hpp"

namespace weft::test {

std::filesystem::path source_root() { return WEFT_SOURCE_ROOT; }  // tests/CMakeLists.txt

}  // namespace weft::test
