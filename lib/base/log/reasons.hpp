// SPDX-License-Identifier: BSD-3-Clause
// The texts of reasons.cpp that are not in the public API.
#pragma once

#include <string_view>

#include "weft/device.hpp"

namespace weft::base {

// What an asynchronous event means to the program, and what to do.
std::string_view reason(EventType type) noexcept;

}  // namespace weft::base
