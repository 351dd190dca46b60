// SPDX-License-Identifier: BSD-3-Clause
// Shows the state of a running weft process: devices, queue pairs, peers and paths, counters with
// rates, drop reasons, last events. The process is neither stopped nor slowed down.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "bench/perftest/command_line.hpp"
#include "tools/stat/hw_counters.hpp"
#include "tools/stat/print.hpp"
#include "tools/stat/serve.hpp"

namespace {

using weft::Result;
using weft::stat::Json;

struct StatOptions {
  pid_t process = 0;
  double interval_s = 1;
  int count = 1;
  bool json = false, prometheus = false;
  std::string serve;
};

int fail(const weft::Error& error) {
  std::fprintf(stderr, "weft_stat: %s\n", error.message.c_str());
  return 1;
}

constexpr const char* kCannotParse =
    "sent an answer that this weft_stat cannot parse: it runs another version of weft";

int list() {
  const std::vector<pid_t> processes = weft::stat::find_processes();
  for (const pid_t process : processes) {
    const Result<Json> snapshot = weft::stat::query(process);
    std::printf("%8d  ", process);
    if (!snapshot) {
      std::printf("%s\n", snapshot.error().message.c_str());
      continue;
    }
    try {
      std::string line = snapshot->at("program").get<std::string>();
      for (const Json& device : snapshot->at("devices"))
        line += "  " + device.at("device").get<std::string>();
      std::printf("%s\n", line.c_str());
    } catch (const Json::exception&) {
      std::printf("%s\n", kCannotParse);
    }
  }
  if (processes.empty()) std::printf("no process has a weft device open\n");
  return 0;
}

void print(const StatOptions& options, Json snapshot) {
  weft::stat::add_hw_counters(snapshot);
  if (options.prometheus)
    std::fputs(weft::stat::prometheus({std::move(snapshot)}).c_str(), stdout);
  else if (options.json)
    std::printf("%s\n", snapshot.dump(options.count == 1 ? 2 : -1).c_str());
  else
    weft::stat::print_text(snapshot);
  std::fflush(stdout);
}

int watch(const StatOptions& options) {
  Result<Json> before = weft::stat::query(options.process);
  if (!before) return fail(before.error());
  if (options.prometheus || options.interval_s <= 0) return print(options, *std::move(before)), 0;
  for (int i = 0; options.count == 0 || i < options.count; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
    Result<Json> now = weft::stat::query(options.process);
    if (!now) return fail(now.error());
    Json with_rates = *now;
    weft::stat::add_rates(with_rates, *before);
    print(options, std::move(with_rates));
    before = std::move(now);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  StatOptions options;
  CLI::App app(
      "weft_stat: shows the state of a running weft process. Without PID: lists the processes.");
  app.option_defaults()->always_capture_default();
  app.add_option("PID", options.process, "Process to show")->default_str("");
  app.add_option("-i,--interval", options.interval_s,
                 "Seconds over which rates are measured; 0: one snapshot without rates")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("-c,--count", options.count, "Number of snapshots; 0: until the process ends")
      ->check(CLI::Range(0, 1 << 30));
  CLI::Option* const json =
      app.add_flag("--json", options.json, "Print JSON; with -c one line per snapshot");
  app.add_flag("--prometheus", options.prometheus, "Print one snapshot as Prometheus metrics")
      ->excludes(json);
  app.add_option("--serve", options.serve,
                 "ADDRESS:PORT at which HTTP GET /metrics answers with the Prometheus metrics of "
                 "PID, or of every process that this user may look at (default: none)")
      ->default_str("")
      ->excludes(json);
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  if (!options.serve.empty()) {
    const Result<void> served = weft::stat::serve(options.serve, options.process);
    return served ? 0 : fail(served.error());
  }
  try {
    return app.count("PID") == 0 ? list() : watch(options);
  } catch (const Json::exception&) {
    std::fprintf(stderr, "weft_stat: process %d %s\n", options.process, kCannotParse);
    return 1;
  }
}
