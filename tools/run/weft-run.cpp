// SPDX-License-Identifier: BSD-3-Clause
// Runs a program that uses libibverbs or librdmacm on weft's devices: sets the environment in which
// it loads weft's libraries of these names, and executes it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "lib/crypto/secret.hpp"
#include "tools/run/devices.hpp"
#include "tools/run/elf.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/executable.hpp"

namespace {

using weft::Result;
using weft::run::Variable;

// Exit codes before PROGRAM runs; the last two are those of a shell.
constexpr int kWrongDevice = 2, kCannotExecute = 126, kNoProgram = 127;

struct RunOptions {
  std::string devices, pcap, faults, format, program;
  std::vector<std::string> arguments;
  bool nccl = false, libfabric = false, secret = false;
};

int fail(int code, const std::string& message) {
  std::fprintf(stderr, "weft-run: %s\n", message.c_str());
  return code;
}

// The words of the command line with "--" before PROGRAM: what follows it is for PROGRAM, whatever
// it looks like.
std::vector<std::string> marked(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (size_t at = 0; at < words.size() && words[at] != "--"; ++at) {
    if (words[at].size() < 2 || words[at][0] != '-') {
      words.insert(words.begin() + static_cast<ptrdiff_t>(at), "--");
      break;
    }
    // Of -d VALUE the next word is the value; -dVALUE and --device=VALUE hold it.
    const std::string name = words[at].substr(0, words[at][1] == '-' ? words[at].find('=') : 2);
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) break;  // an error of CLI11
    at += name == words[at] && option->get_expected_min() > 0;
  }
  return words;
}

Result<std::vector<Variable>> environment_of(const RunOptions& options) {
  const std::string list = options.devices.empty() ? weft::run::default_devices() : options.devices;
  Result<std::vector<std::string>> devices = weft::run::split_devices(list);
  if (!devices) return devices.error();
  if (!options.faults.empty())
    if (const Result<void> added = weft::run::add_faults(options.faults, *devices); !added)
      return added.error();
  if (!options.pcap.empty())
    if (const Result<void> added = weft::run::add_pcap(options.pcap, *devices); !added)
      return added.error();
  if (const Result<void> opened = weft::run::check_devices(*devices); !opened)
    return opened.error();
  Result<std::vector<Variable>> variables = weft::run::preloading(*devices);
  if (!variables) return variables;
  const auto add = [&](Result<std::vector<Variable>> more) -> Result<void> {
    if (!more) return more.error();
    variables->insert(variables->end(), more->begin(), more->end());
    return {};
  };
  if (options.nccl)
    if (const Result<void> added = add(weft::run::selecting_nccl_plugin()); !added)
      return added.error();
  if (options.libfabric)
    if (const Result<void> added = add(weft::run::offering_libfabric_providers()); !added)
      return added.error();
  // Without -d plug-in and provider select their device: SRD, where the drop-in takes RC.
  if ((options.nccl || options.libfabric) && !options.devices.empty())
    variables->push_back(weft::run::naming_devices(*devices));
  return variables;
}

int execute(const RunOptions& options, const std::vector<Variable>& variables) {
  const Result<std::string> path = weft::run::find_program(options.program);
  Result<void> usable = path ? weft::run::check_preload(*path) : path.error();
  if (!usable)
    return fail(usable.error().code == weft::Code::not_found ? kNoProgram : kCannotExecute,
                usable.error().message);
  if (options.secret)
    if (const Result<void> made = weft::crypto::hand_down_secret(); !made)
      return fail(kCannotExecute, made.error().message);
  for (const Variable& variable : variables)
    ::setenv(variable.name.c_str(), variable.value.c_str(), 1);
  std::vector<char*> words = {const_cast<char*>(options.program.c_str())};
  for (const std::string& argument : options.arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  // What the kernel cannot execute, execvp() gives to /bin/sh: right for a script without #!, while
  // the bytes of a damaged program would be commands.
  if (weft::run::read_elf(*path))
    ::execv(path->c_str(), words.data());
  else
    ::execvp(words[0], words.data());
  const int error = errno;
  return fail(error == ENOENT ? kNoProgram : kCannotExecute,
              options.program + ": " + std::strerror(error));
}

void describe(CLI::App& app, RunOptions& options) {
  app.add_option("-d,--device", options.devices,
                 "Device strings, with ; between two: weft0, weft1 ... (default: the environment's "
                 "WEFT_VERBS_DEVICES or WEFT_DEVICE, else roce+udp over the interface of the "
                 "default route, else over lo)");
  app.add_option(
      "--pcap", options.pcap,
      "Capture every frame into FILE, for Wireshark; of several devices into FILE.weft0, "
      "FILE.weft1 ...");
  app.add_option("--faults", options.faults,
                 "KEY=VALUE[,KEY=VALUE]..., the device strings' keys fault.KEY, or a file of them, "
                 "one per line, or of lines TIME KEY=VALUE..., like '1.5s port=down': what happens "
                 "at that time after the device was opened (docs/drop-in.md)");
  app.add_flag("--nccl", options.nccl,
               "NCCL and RCCL in PROGRAM use weft's network plug-in, on the devices of -d or "
               "WEFT_DEVICE");
  app.add_flag("--libfabric", options.libfabric,
               "libfabric in PROGRAM finds weft's providers, on the device of -d or WEFT_DEVICE");
  app.add_flag(
      "--job-secret", options.secret,
      "Make a secret (WEFT_SECRET) for weft::connect, listeners and stores in PROGRAM, whose "
      "processes inherit it as a descriptor");
  app.add_option("--env", options.format,
                 "Run nothing: print the environment for a shell (default: sh), an env file, a "
                 "Dockerfile, or as arguments of Open MPI's mpirun")
      ->expected(0, 1)
      ->check(CLI::IsMember({"sh", "file", "docker", "mpirun"}));
  app.add_option("PROGRAM", options.program, "Program to run, as the shell finds it");
  app.add_option("ARGS", options.arguments, "Its arguments");
}

}  // namespace

int main(int argc, char** argv) {
  RunOptions options;
  CLI::App app(
      "weft-run: runs a program that uses libibverbs or librdmacm, unmodified, on weft's devices. "
      "PROGRAM's exit code is weft-run's; 2: a wrong option or device, 126: PROGRAM cannot be run "
      "so, 127: it is not found.",
      "weft-run");
  describe(app, options);
  weft::bench::add_version(app);
  try {
    std::vector<std::string> words = marked(app, argc, argv);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return fail(kWrongDevice, error.what() + std::string("; see weft-run --help"));
  }
  const bool prints = app.count("--env") > 0;
  if (prints != options.program.empty())
    return fail(kWrongDevice, prints ? "--env runs no PROGRAM: leave " + options.program +
                                           " out, or write --env=" + options.program
                                     : "which PROGRAM? Its name is missing; see weft-run --help");
  const Result<std::vector<Variable>> variables = environment_of(options);
  if (!variables) return fail(kWrongDevice, variables.error().message);
  if (!prints) return execute(options, *variables);
  const std::string lines = weft::run::lines_for(options.format, *variables);
  std::fwrite(lines.data(), 1, lines.size(), stdout);
  return 0;
}
