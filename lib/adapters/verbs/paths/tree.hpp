// SPDX-License-Identifier: BSD-3-Clause
// The tree that is shown: one table of paths, in which @ stands for a device's number, # for an
// index below `count` and $ for the name of the device's network interface: of a device without one
// there are no such paths. Directories are what the rows have in common.
//
// Nothing is kept: each look-up matches the path with the rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/adapters/verbs/paths/text.hpp"

namespace weft::paths {

// Which device, and which entry of its table, a file is about.
struct Place {
  unsigned device = 0;  // N of weftN
  unsigned index = 0;
};

// Appends the text of a file. Returns 0, or the errno that reading it has.
using Write = int (*)(const Place& place, Text& text) noexcept;

struct Row {
  const char* path;
  unsigned count;              // entries of #
  Write write;                 // null: a character device
  uint32_t device_number = 0;  // of a character device: makedev(), to which the device's is added
};

enum class Kind : uint8_t { absent, directory, file, device };

constexpr size_t kLongestPath = 256;

struct Node {
  Kind kind = Kind::absent;
  const Row* row = nullptr;  // of files and devices
  Place place;
  char path[kLongestPath];  // without doubled slashes, . and ..

  explicit operator bool() const noexcept { return kind != Kind::absent; }
};

// What the view has at `path`. A path elsewhere costs one comparison of its beginning.
Node find(const char* path) noexcept;

// The `n`th name in the directory; false if there are no more.
struct Name {
  char text[64];
  Kind kind;
};
bool name_in(const Node& directory, size_t n, Name& name) noexcept;

}  // namespace weft::paths
