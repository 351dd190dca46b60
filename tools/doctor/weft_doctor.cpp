// SPDX-License-Identifier: BSD-3-Clause
// Looks at the machine, and says what of it slows weft down or keeps a port from working, what to
// change and what that gains. Changes nothing.
// link: perftest
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/perftest/command_line.hpp"
#include "tools/doctor/checks.hpp"

namespace {

using Json = nlohmann::ordered_json;
using weft::doctor::Finding;

Json to_json(const Finding& f) {
  Json j;
  j["what"] = f.what;
  j["concerns"] = f.concerns;
  j["found"] = f.found;
  if (!f.change.empty()) j["change"] = f.change;
  if (!f.gain.empty()) j["gain"] = f.gain;
  return j;
}

void print(const Finding& f) {
  std::printf("%-8s %s: %s (%s)\n", f.change.empty() ? "good" : "change", f.what.c_str(),
              f.found.c_str(), f.concerns.c_str());
  if (f.change.empty()) return;
  std::printf("         do:   %s\n         gain: %s\n", f.change.c_str(), f.gain.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string root;
  bool json = false;
  CLI::App app(
      "weft_doctor: looks at the machine and says what to change for weft, and what the change "
      "gains. It changes nothing.");
  app.add_flag("--json", json, "Print JSON");
  app.add_option("--root", root,
                 "Folder that has /proc and /sys of another machine, and what `ethtool -k` printed "
                 "in ethtool/INTERFACE (default: this machine)");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;

  const weft::doctor::Machine machine(root);
  if (!machine.has("/proc/self/status")) {
    std::fprintf(stderr,
                 "weft_doctor: there is no %s/proc/self/status: mount /proc, or give --root "
                 "a folder that has it\n",
                 root.c_str());
    return 1;
  }
  Json all = Json::array();
  size_t changes = 0;
  for (const auto& check : {weft::doctor::check_processors, weft::doctor::check_memory,
                            weft::doctor::check_network, weft::doctor::check_rights})
    for (const Finding& finding : check(machine)) {
      changes += !finding.change.empty();
      if (json)
        all.push_back(to_json(finding));
      else
        print(finding);
    }
  if (json)
    std::printf("%s\n", all.dump(2).c_str());
  else
    std::printf("\n%zu to change\n", changes);
  return 0;
}
