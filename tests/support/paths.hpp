// SPDX-License-Identifier: BSD-3-Clause
// Where the files of the tree lie. Not from __FILE__: compilers and caches may shorten it.
#pragma once

#include <filesystem>

namespace weft::test {

std::filesystem::path source_root();

}  // namespace weft::test
