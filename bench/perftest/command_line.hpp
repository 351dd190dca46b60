// SPDX-License-Identifier: BSD-3-Clause
// How every program reads its command line: with --version, and with exit code 2 where it is wrong
// (docs/programs.md).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "weft/security.hpp"

namespace weft::bench {

constexpr int kWrongOptions = 2;  // the exit code

extern const char* const kCommit;  // of the tree that this was built from, or "unknown"

// Version, commit, compiler and the modules that are found, a line each.
std::string version_text();

// Adds -V,--version.
void add_version(CLI::App& app);

// Adds --secret and --insecure, for connections over TCP.
void add_security(CLI::App& app, Security& security);

// Adds --version and reads the command line. A number: the program ends with it, 0 after --help or
// --version, kWrongOptions where the line is wrong; what there is to say has been printed.
[[nodiscard]] std::optional<int> read_command_line(CLI::App& app, int argc, char** argv);

}  // namespace weft::bench
