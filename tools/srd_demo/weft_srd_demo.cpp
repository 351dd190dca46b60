// SPDX-License-Identifier: BSD-3-Clause
// SRD over several paths, one of which is cut while messages flow: a live table of what each path
// carries, then what the application has seen of it. Without a terminal a line is printed per half
// second.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/perftest/command_line.hpp"
#include "tools/srd_demo/cut.hpp"

namespace {

using namespace weft;
using namespace weft::bench;
using ull = unsigned long long;

void show_table(const Moment& moment, const CutOptions& o, bool first) {
  if (!first) std::printf("\033[%zuA", moment.paths.size() + 2);
  std::printf("%6.1f s  %7.1f Mb/s of messages  %s\033[K\n", moment.at_s, moment.mbps,
              moment.cut ? "one path is cut" : "");
  std::printf(" path  packets/s  state       rtt us\033[K\n");
  for (size_t i = 0; i < moment.paths.size(); ++i) {
    const PathMoment& path = moment.paths[i];
    const double full = o.mbps * 1e6 / 8 / 4300;  // packets/s
    const auto bar = static_cast<size_t>(std::min(40.0, path.packets_per_s / full * 30));
    std::printf(" %4zu  %9.0f  %-8s  %8.0f  %s\033[K\n", i, path.packets_per_s,
                name(path.health).data(), path.rtt_us, std::string(bar, '#').c_str());
  }
  std::fflush(stdout);
}

void show_line(const Moment& moment) {
  std::printf("%5.1f s %7.1f Mb/s %s|", moment.at_s, moment.mbps, moment.cut ? "cut " : "    ");
  for (const PathMoment& path : moment.paths)
    std::printf(" %5.0f%s", path.packets_per_s,
                path.health == PathHealth::good   ? ""
                : path.health == PathHealth::slow ? "s"
                                                  : "x");
  std::printf("\n");
  std::fflush(stdout);
}

nlohmann::json as_json(const CutOptions& o, const Seen& s) {
  nlohmann::json paths = nlohmann::json::array();
  for (const PathMoment& path : s.paths)
    paths.push_back({{"state", name(path.health)}, {"rtt_us", path.rtt_us}});
  return {{"paths", o.paths},
          {"cut", o.cut},
          {"mbps_per_path", o.mbps},
          {"before_mbps", s.before_mbps},
          {"after_mbps", s.after_mbps},
          {"messages", s.messages},
          {"bytes", s.bytes},
          {"wrong_bytes", s.wrong_bytes},
          {"errors", s.errors},
          {"reroute_us", s.reroute_us},
          {"longest_gap_before_us", s.longest_gap_us},
          {"longest_gap_after_us", s.longest_gap_cut_us},
          {"longest_away_us", s.longest_away_us},
          {"lost_in_cut", s.lost_in_cut},
          {"path_states", paths}};
}

void print(const CutOptions& o, const Seen& s) {
  std::printf("path %u of %u was cut; %llu packets were lost in it\n", o.cut, o.paths,
              static_cast<ull>(s.lost_in_cut));
  std::printf("messages:   %llu of %u bytes, %llu failed; %llu bytes wrong\n",
              static_cast<ull>(s.messages), o.message, static_cast<ull>(s.errors),
              static_cast<ull>(s.wrong_bytes));
  std::printf("throughput: %.1f Mb/s before, %.1f Mb/s after: %.0f %% on %u of %u paths\n",
              s.before_mbps, s.after_mbps, s.after_mbps / s.before_mbps * 100, o.paths - 1,
              o.paths);
  std::printf("reroute:    last data into the cut path %.1f ms after the cut\n",
              s.reroute_us / 1e3);
  std::printf("longest gap between two messages: %.1f ms before, %.1f ms after the cut\n",
              s.longest_gap_us / 1e3, s.longest_gap_cut_us / 1e3);
  std::printf("(round trip without queues %.1f ms; this process was away for up to %.1f ms)\n",
              round_trip_us(o) / 1e3, s.longest_away_us / 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  CutOptions o;
  bool json = false;
  CLI::App app("weft_srd_demo: SRD over several paths, one of which is cut while messages flow.");
  app.option_defaults()->always_capture_default();
  app.add_option("--hosts", o.hosts, "Loopback addresses: sender, receiver")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--paths", o.paths, "How many, each through a switch of its own")
      ->check(CLI::Range(2, 16));
  app.add_option("--cut", o.cut, "The one that is cut");
  app.add_option("--mbps", o.mbps, "Rate of each path")->check(CLI::Range(1, 10'000));
  app.add_option("--delay-us", o.delay_us, "Of each cable, one way; a path has two")
      ->check(CLI::Range(1.0, 1e5));
  app.add_option("-s,--size", o.message, "Bytes of a message, a multiple of 8")
      ->check(CLI::Range(8, 1 << 20));
  app.add_option("--warm-up", o.warm_up_s, "Seconds")->check(CLI::Range(0.0, 1e3));
  app.add_option("--before", o.before_s, "Seconds measured before the cut")
      ->check(CLI::Range(0.05, 1e3));
  app.add_option("--after", o.after_s, "Seconds measured after it")->check(CLI::Range(0.05, 1e3));
  app.add_option("--set", o.keys, "More keys of both devices, like cc=swift");
  app.add_flag("--json", json, "Only the result, as JSON");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  if (o.cut >= o.paths || o.message % 8 != 0) {
    std::fprintf(
        stderr, "weft_srd_demo: %s\n",
        o.cut >= o.paths ? "--cut must be below --paths" : "--size must be a multiple of 8");
    return 2;
  }
  Result<std::unique_ptr<Cut>> demo = Cut::open(o);
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  uint32_t shown = 0;
  Result<Seen> seen = demo ? (*demo)->run([&](const Moment& moment) {
    if (json || moment.paths.empty()) return;
    if (terminal)
      show_table(moment, o, shown++ == 0);
    else if (shown++ % 5 == 0)
      show_line(moment);
  })
                           : Result<Seen>(demo.error());
  if (!seen) {
    std::fprintf(stderr, "weft_srd_demo: %s\n", seen.error().message.c_str());
    return 1;
  }
  if (json)
    std::printf("%s\n", as_json(o, *seen).dump(2).c_str());
  else
    print(o, *seen);
  return seen->errors == 0 && seen->wrong_bytes == 0 ? 0 : 1;
}
