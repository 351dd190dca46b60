// SPDX-License-Identifier: BSD-3-Clause
// Paths of files of the source tree. Not from __FILE__, which compilers and caches may shorten.
#pragma once

#include <filesystem>

namespace weft::test {

std::filesystem::path source_root();

}  // namespace weft::test
