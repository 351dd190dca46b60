// SPDX-License-Identifier: BSD-3-Clause
// Checks a network plug-in of NCCL without a GPU: each version that its library exports, in 2 to 8
// processes over host memory, rule by rule; then its latency and bandwidth.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "tools/nccl_check/runner.hpp"

namespace {

using namespace weft::nccl_check;
using Json = nlohmann::json;

// Exit codes.
constexpr int kPassed = 0, kFailed = 1, kWrongOption = 2, kNoDevice = 3;

struct Options {
  Settings settings;
  std::vector<int> versions;
  std::vector<std::string> rules;
  std::string log = "none";
  bool json = false, lists = false;
};

void describe(CLI::App& app, Options& o) {
  Settings& s = o.settings;
  app.add_option("LIB", s.library, "The plug-in: a path, or a name as for dlopen()");
  app.add_option("-r,--ranks", s.ranks, "Processes")
      ->check(CLI::Range(2, kMaxRanks))
      ->capture_default_str();
  app.add_option("-d,--device", s.device, "Number of the plug-in's device")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--versions", o.versions,
                 "Versions to check, with a comma between two (default: all that LIB exports)")
      ->delimiter(',');
  app.add_option("--rules", o.rules,
                 "Rules to check, with a comma between two (default: all; see --list)")
      ->delimiter(',');
  app.add_option("--max-size", s.max_size, "Bytes of the largest message")
      ->check(CLI::Range(size_t{64}, size_t{1} << 30))
      ->capture_default_str();
  app.add_option("--seed", s.seed, "Of sizes, tags and order")->capture_default_str();
  app.add_option("--limit", s.limit_s, "Seconds without an end after which a rule has failed")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  app.add_option("--log", o.log, "What to show of the plug-in's log, on stderr")
      ->check(CLI::IsMember({"none", "warn", "info"}))
      ->capture_default_str();
  app.add_flag("--quick", s.quick, "Fewer messages and rounds");
  app.add_flag("--json", o.json, "Print JSON");
  app.add_flag("--list", o.lists, "Print the rules and what they say");
}

std::vector<const Rule*> selected(const Options& o, std::string& unknown) {
  std::vector<const Rule*> rules;
  for (const Rule& rule : all_rules())
    if (o.rules.empty() || std::count(o.rules.begin(), o.rules.end(), rule.name) != 0)
      rules.push_back(&rule);
  for (const std::string& name : o.rules)
    if (std::none_of(rules.begin(), rules.end(), [&](auto* rule) { return name == rule->name; }))
      unknown = name;
  return rules;
}

const Rule& rule_named(const std::string& name) {
  return *std::find_if(all_rules().begin(), all_rules().end(),
                       [&](const Rule& rule) { return name == rule.name; });
}

const char* word_of(State state) {
  return state == State::failed ? "FAIL" : state == State::passed ? "pass" : "n/a";
}

void print(const VersionReport& report) {
  std::printf("v%d", report.version);
  if (!report.has_device) {
    std::printf(": no device: %s\n", report.text.c_str());
    return;
  }
  std::printf(": %s\n", report.text.empty() ? report.devices.c_str() : report.text.c_str());
  for (const Verdict& each : report.verdicts) {
    std::printf("  %-4s %-13s %s\n", word_of(each.state), each.rule.c_str(), each.text.c_str());
    if (each.state != State::passed) continue;
    const Rule& rule = rule_named(each.rule);
    for (size_t i = 0; i < rule.figures.size(); ++i)
      if (each.figures[i] != 0)
        std::printf("       %-26s %.1f %s\n", rule.figures[i].first, each.figures[i],
                    rule.figures[i].second);
  }
}

Json json_of(const VersionReport& report) {
  Json rules = Json::array();
  for (const Verdict& each : report.verdicts) {
    Json figures = Json::object();
    const Rule& rule = rule_named(each.rule);
    for (size_t i = 0; i < rule.figures.size(); ++i)
      if (each.figures[i] != 0)
        figures[rule.figures[i].first] = {{"value", each.figures[i]},
                                          {"unit", rule.figures[i].second}};
    rules.push_back({{"rule", each.rule},
                     {"verdict", word_of(each.state)},
                     {"text", each.text},
                     {"figures", std::move(figures)}});
  }
  return {{"version", report.version},
          {"verdict", !report.has_device ? "no device"
                      : report.passed()  ? "pass"
                                         : "FAIL"},
          {"text", report.text},
          {"devices", report.devices},
          {"rules", std::move(rules)}};
}

// `again`: the command that repeats the run.
int finish(const Options& o, const std::vector<VersionReport>& reports, const std::string& again) {
  size_t passed = 0, without = 0;
  for (const VersionReport& each : reports) {
    passed += each.passed();
    without += !each.has_device;
  }
  const bool none = without == reports.size();
  const char* const verdict = none ? "no device" : passed == reports.size() ? "pass" : "FAIL";
  if (o.json) {
    Json versions = Json::array();
    for (const VersionReport& each : reports) versions.push_back(json_of(each));
    std::printf("%s\n", Json{{"library", o.settings.library},
                             {"ranks", o.settings.ranks},
                             {"seed", o.settings.seed},
                             {"verdict", verdict},
                             {"versions", std::move(versions)}}
                            .dump(2, ' ', false, Json::error_handler_t::replace)
                            .c_str());
  } else {
    std::printf("%s: %zu of %zu versions pass, %zu without a device\n", verdict, passed,
                reports.size(), without);
    if (passed + without != reports.size()) std::printf("the same again: %s\n", again.c_str());
  }
  return none ? kNoDevice : passed + without == reports.size() ? kPassed : kFailed;
}

int fail(const std::string& text) {
  std::fprintf(stderr, "weft_nccl_check: %s\n", text.c_str());
  return kWrongOption;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app(
      "weft_nccl_check: checks a network plug-in of NCCL without a GPU. Exit code 0: all versions "
      "pass, 1: a rule is broken, 2: wrong options, 3: the plug-in has no device.",
      "weft_nccl_check");
  describe(app, o);
  weft::bench::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : fail(error.what() + std::string("; see --help"));
  }
  if (o.lists) {
    for (const Rule& rule : all_rules()) std::printf("%-13s %s\n", rule.name, rule.text);
    return 0;
  }
  if (o.settings.library.empty()) return fail("which LIB? See weft_nccl_check --help");
  std::string why;
  const std::vector<const Rule*> rules = selected(o, why);
  if (!why.empty()) return fail("there is no rule " + why + "; see --list");
  const std::vector<int> exported = exported_versions(o.settings.library, why);
  if (exported.empty()) return fail(why);
  if (o.versions.empty()) o.versions = exported;
  for (const int version : o.versions)
    if (std::count(exported.begin(), exported.end(), version) == 0)
      return fail(o.settings.library + " does not export ncclNetPlugin_v" +
                  std::to_string(version));
  show_log(o.log == "info" ? weft::nccl::kLogInfo : o.log == "warn" ? weft::nccl::kLogWarn : 0);
  std::vector<VersionReport> reports;
  for (const int version : o.versions) {
    reports.push_back(run_version(o.settings, version, rules));
    if (!o.json) print(reports.back());
    std::fflush(stdout);
  }
  std::string again;
  for (int i = 0; i < argc; ++i) again += (i == 0 ? "" : " ") + std::string(argv[i]);
  if (app.count("--seed") == 0) again += " --seed " + std::to_string(o.settings.seed);
  return finish(o, reports, again);
}
