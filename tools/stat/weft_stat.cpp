// SPDX-License-Identifier: BSD-3-Clause
// What a running weft process does: its devices, queue pairs, peers and paths, counters with their
// rates, drop reasons, last events. The process is neither stopped nor slowed down.
// link: base
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tools/stat/hw_counters.hpp"
#include "tools/stat/print.hpp"

namespace {

using weft::Result;
using weft::stat::Json;

struct Wish {
  pid_t process = 0;
  double interval_s = 1;
  int count = 1;
  bool json = false, prometheus = false;
};

int fail(const weft::Error& error) {
  std::fprintf(stderr, "weft_stat: %s\n", error.message.c_str());
  return 1;
}

constexpr const char* kStrange = "answers something else than weft_stat understands";

int list() {
  const std::vector<pid_t> processes = weft::stat::find_processes();
  for (const pid_t process : processes) {
    const Result<Json> look = weft::stat::ask(process);
    std::printf("%8d  ", process);
    if (!look) {
      std::printf("%s\n", look.error().message.c_str());
      continue;
    }
    try {
      std::string line = look->at("program").get<std::string>();
      for (const Json& device : look->at("devices"))
        line += "  " + device.at("device").get<std::string>();
      std::printf("%s\n", line.c_str());
    } catch (const Json::exception&) {
      std::printf("%s\n", kStrange);
    }
  }
  if (processes.empty()) std::printf("no process has a weft device open\n");
  return 0;
}

void print(const Wish& wish, Json look) {
  weft::stat::add_hw_counters(look);
  if (wish.prometheus)
    weft::stat::print_prometheus(look);
  else if (wish.json)
    std::printf("%s\n", look.dump(wish.count == 1 ? 2 : -1).c_str());
  else
    weft::stat::print_text(look);
  std::fflush(stdout);
}

int watch(const Wish& wish) {
  Result<Json> before = weft::stat::ask(wish.process);
  if (!before) return fail(before.error());
  if (wish.prometheus || wish.interval_s <= 0) return print(wish, *std::move(before)), 0;
  for (int i = 0; wish.count == 0 || i < wish.count; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(wish.interval_s));
    Result<Json> now = weft::stat::ask(wish.process);
    if (!now) return fail(now.error());
    Json shown = *now;
    weft::stat::add_rates(shown, *before);
    print(wish, std::move(shown));
    before = std::move(now);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  CLI::App app("weft_stat: what a running weft process does. Without PID: which there are.");
  app.option_defaults()->always_capture_default();
  app.add_option("PID", wish.process, "The process")->default_str("");
  app.add_option("-i,--interval", wish.interval_s,
                 "Seconds that rates are measured over; 0: one look, no rates")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("-c,--count", wish.count, "How many times; 0: until it ends");
  CLI::Option* const json = app.add_flag("--json", wish.json, "As JSON; a line each with -c");
  app.add_flag("--prometheus", wish.prometheus, "One look, as Prometheus reads it")->excludes(json);
  CLI11_PARSE(app, argc, argv);
  try {
    return app.count("PID") == 0 ? list() : watch(wish);
  } catch (const Json::exception&) {
    std::fprintf(stderr, "weft_stat: process %d %s\n", wish.process, kStrange);
    return 1;
  }
}
