// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says of a machine: files of /proc and /sys below a root, which is another folder
// for tests and for a machine whose files were brought here, and the offloads of its interfaces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::doctor {

class Machine {
 public:
  // An empty root is this machine.
  explicit Machine(std::string root) : root_(std::move(root)) {}

  bool has(const std::string& path) const;
  // The file's text without the newline at its end; none: it cannot be read.
  std::optional<std::string> read(const std::string& path) const;
  std::optional<uint64_t> number(const std::string& path) const;
  // The rest of the line of `path` that begins with `key`, without blanks around it.
  std::optional<std::string> field(const std::string& path, const std::string& key) const;
  // Names in a folder, sorted.
  std::vector<std::string> list(const std::string& path) const;
  // Generic segmentation and receive offload of an interface, by the names of `ethtool -k`; below
  // another root the output of that command is read from ethtool/INTERFACE. Empty: not known.
  std::map<std::string, bool> offloads(const std::string& interface) const;

 private:
  std::string root_;
};

}  // namespace weft::doctor
