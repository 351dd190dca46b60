// SPDX-License-Identifier: BSD-3-Clause
// What the ELF headers of a file say about how it is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::run {

struct ElfHeaders {
  uint8_t bits = 0;         // ELFCLASS32, ELFCLASS64
  uint8_t order = 0;        // ELFDATA2LSB, ELFDATA2MSB
  uint16_t machine = 0;     // EM_X86_64 ...; 0 for a file in the other byte order
  std::string interpreter;  // PT_INTERP, the dynamic loader; empty: statically linked
  uint32_t needed = 0;      // entries DT_NEEDED: shared libraries that it asks for
  bool go = false;          // has the note of the Go linker
};

// The headers of `path`, as far as the file has them; none if it is no ELF file, or cannot be read.
std::optional<ElfHeaders> read_elf(const std::string& path);

// "x86-64", "aarch64" ...: for messages.
std::string architecture(const ElfHeaders& headers);

}  // namespace weft::run
