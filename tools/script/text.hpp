// SPDX-License-Identifier: BSD-3-Clause
// Tokens of the language: words of a line, numbers, times, bytes. Throws ScriptError, whose text
// names the expected syntax.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tools/script/packet.hpp"
#include "weft/units.hpp"

namespace weft::script {

struct ScriptError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Words between blanks, up to '#'; a quoted text is part of its word.
std::vector<std::string> words_of(std::string_view line);

// Sums and products of numbers (decimal, 0x, K and M for 1024 and its square) and of `i`, the
// iteration of the innermost repeat: "3", "2*i+1", "-1", "0x7fffff", "4K".
int64_t number(std::string_view text, int64_t i);

// "10us", "1.5ms", "2s".
Duration duration(std::string_view text);

// "text", hex:00ff, zero:100, pN[FROM..TO] (bytes FROM to TO of pattern N), joined with ','.
Bytes bytes_of(std::string_view text, int64_t i);
bool is_bytes(std::string_view word);

// Byte `place` of pattern `seed`.
std::byte pattern(uint64_t seed, uint64_t place);

}  // namespace weft::script
