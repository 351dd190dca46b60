// SPDX-License-Identifier: BSD-3-Clause
// See command_line.hpp. WEFT_VERSION and WEFT_COMPILER: set by CMake.
#include "bench/perftest/command_line.hpp"

#include <cmath>
#include <cstdlib>

#include "lib/base/module/module.hpp"

namespace weft::bench {

std::string version_text() {
  std::string modules;
  for (const char* const kind : {"port", "provider", "crypto"})
    for (const std::string& name : base::module_names(kind))
      modules += std::string(" ") + kind + "_" + name;
  return std::string("weft " WEFT_VERSION "\ncommit ") + kCommit +
         "\ncompiler " WEFT_COMPILER "\nmodules" +
         (modules.empty() ? " none: weft_info says why" : modules);
}

void add_version(CLI::App& app) {
  app.set_version_flag("-V,--version", version_text,
                       "Print version, commit, compiler and modules, and exit");
}

void add_security(CLI::App& app, Security& security) {
  app.add_option("--secret", security.secret,
                 "File of mode 0600 with the secret that the processes share, for TLS (default: "
                 "WEFT_SECRET; without one: a key of the user's own, on this host only)");
  app.add_flag("--insecure", security.insecure,
               "Connections are set up in clear text, without authentication");
}

namespace {

// CLI::Range takes "nan", which is neither below nor above anything.
void refuse_nan(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options())
    for (const std::string& word : option->results())
      if (option->get_type_name().starts_with("FLOAT") &&
          std::isnan(std::strtod(word.c_str(), nullptr)))
        throw CLI::ValidationError(option->get_name(), word + " is no number");
  for (const CLI::App* const command : app.get_subcommands({})) refuse_nan(*command);
}

}  // namespace

std::optional<int> read_command_line(CLI::App& app, int argc, char** argv) {
  add_version(app);
  try {
    app.parse(argc, argv);
    refuse_nan(app);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongOptions;
  }
  return std::nullopt;
}

}  // namespace weft::bench
