// SPDX-License-Identifier: BSD-3-Clause
// One table of all operations between two processes, data verified, with the floors of this
// machine;
// `./dev run` starts it. --gates compares with other transports instead.
// link: perftest
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/perftest/command_line.hpp"
#include "bench/perftest/control.hpp"
#include "tools/report/report.hpp"

namespace {

using namespace weft::bench;

// The comparison with other transports is a script, because it starts their programs. It is in
// bench/ of the source tree of this program.
int run_gates(const std::vector<std::string>& rest) {
  const std::string folder = program_folder();
  std::vector<std::string> words = {"python3", folder + "/../../../bench/peers.py", "--bin",
                                    folder};
  words.insert(words.end(), rest.begin(), rest.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::perror("weft_report: cannot start python3");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  ReportOptions options;
  bool all = false;
  bool json = false;
  bool gates = false;
  std::string file;
  CLI::App app("weft_report: measures every operation between two processes of this machine.");
  app.option_defaults()->always_capture_default();
  app.add_option("-d,--device", options.devices, "Device strings (default: roce+udp:lo, roce+shm)")
      ->default_str("");
  app.add_option("--sizes", options.sizes, "Message sizes, separated by commas (default: a few)")
      ->delimiter(',')
      ->default_str("")
      ->check(CLI::Range(1u, 1u << 31));
  app.add_flag("-a,--all", all, "Sizes from 2 to 2^23");
  app.add_option("--seconds", options.seconds, "Seconds per figure")->check(CLI::Range(0.02, 60.));
  app.add_flag("--realtime", options.realtime, "SCHED_RR for the measured processes, if allowed");
  app.add_flag("!--no-floors", options.floors, "Do not measure the floors");
  app.add_flag("--json", json, "Print JSON instead of the table");
  app.add_option("--out_json_file", file, "Also write JSON to this file (default: none)");
  app.add_flag("--gates", gates,
               "Compare with other transports: runs bench/peers/peers.py with the other arguments");
  app.allow_extras();
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  if (gates) return run_gates(app.remaining());
  if (app.remaining_size() != 0) {
    std::fprintf(stderr, "weft_report: unknown argument %s\n", app.remaining().front().c_str());
    return 2;
  }
  if (options.devices.empty())
    options.devices = {"roce+udp:lo", "roce+shm:report" + std::to_string(getpid())};
  if (options.sizes.empty()) options.sizes = {8, 4096, 65536, 1 << 20};
  if (all) {
    options.sizes.clear();
    for (int bit = 1; bit <= 23; ++bit) options.sizes.push_back(uint64_t{1} << bit);
  }
  options.cores = usable_cores();
  options.cores.resize(std::min<size_t>(options.cores.size(), 2));
  handle_interrupts();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto report = measure_report(options, [&](const std::string& now) {
    std::fprintf(stderr, terminal ? "\r%-70s" : "%s\n", (now + " ...").c_str());
    std::fflush(stderr);
  });
  if (terminal) std::fprintf(stderr, "\r%70s\r", "");
  if (!report) {
    std::fprintf(stderr, "weft_report: %s\n", report.error().message.c_str());
    return interrupted() ? 130 : 1;
  }
  if (json)
    std::printf("%s\n", report_json(options, *report).c_str());
  else
    print_report(options, *report);
  if (!file.empty()) {
    std::FILE* out = std::fopen(file.c_str(), "w");
    if (out == nullptr) return std::perror(file.c_str()), 1;
    std::fprintf(out, "%s\n", report_json(options, *report).c_str());
    std::fclose(out);
  }
  return report->problems.empty() && report->wrong_bytes == 0 && report->verified_bytes > 0 ? 0 : 1;
}
