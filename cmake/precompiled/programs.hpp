// SPDX-License-Identifier: BSD-3-Clause
// What programs include and takes long to parse: CLI11, nlohmann-json and the standard library.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
