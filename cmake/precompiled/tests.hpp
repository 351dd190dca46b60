// SPDX-License-Identifier: BSD-3-Clause
// What nearly every test includes and takes long to parse: Catch2 and the standard library. Nothing
// of weft, so that a change of weft rebuilds no more than it must.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tests/support/catch.hpp"
