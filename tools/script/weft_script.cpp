// SPDX-License-Identifier: BSD-3-Clause
// Packet scripts for RoCEv2: `weft_script run FILE...` plays them on weft's engine in virtual time,
// `weft_script words` lists the words of the language.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/perftest/command_line.hpp"
#include "lib/transport/counters.hpp"
#include "tools/script/live_stage.hpp"
#include "tools/script/parse.hpp"
#include "tools/script/play.hpp"

namespace weft::script {
namespace {

struct RunOptions {
  std::vector<std::string> files;
  std::string psns = "1000,0xfffffa,0xffffff";
  bool trace = false, json = false;
  LiveOptions live;
  std::unique_ptr<Live> stages;  // null: the engine in virtual time
};

struct Tally {
  size_t passed = 0, failed = 0, skipped = 0;
  nlohmann::json rows = nlohmann::json::array();
};

std::vector<std::string> scripts_in(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().extension() == ".script") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<Script> load(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream)
    return Error{Code::not_found, file + ": cannot be read; name script files, or folders of them"};
  return parse(file, text.str());
}

void report(const Script& script, const std::string& psn, const Played& played,
            const RunOptions& options, Tally& tally) {
  constexpr const char* kVerdicts[] = {"ok", "FAILED", "skipped"};
  const char* verdict = kVerdicts[static_cast<int>(played.verdict)];
  if (options.json) {
    tally.rows.push_back({{"script", script.name},
                          {"psn", psn},
                          {"verdict", verdict},
                          {"line", played.line},
                          {"why", played.why},
                          {"trace", played.trace}});
    return;
  }
  if (options.trace || played.verdict == Verdict::failed)
    for (const std::string& line : played.trace) std::printf("    %s\n", line.c_str());
  if (played.verdict == Verdict::passed && !options.trace) return;
  std::printf("%s %s, first PSN %s%s%s\n", verdict, script.name.c_str(), psn.c_str(),
              played.why.empty() ? "" : ": ", played.why.c_str());
}

void play_all(const Script& script, const RunOptions& options, Tally& tally) {
  Verdict worst = Verdict::passed;
  std::stringstream psns(options.psns);
  for (std::string psn; std::getline(psns, psn, ',');) {
    PlayOptions how;
    how.peer_first = Psn{static_cast<uint32_t>(number(psn, -1)) & Psn::kMask};
    how.end_first = how.peer_first;
    if (options.stages) how.patience = Duration::from_s(2);
    const std::unique_ptr<Stage> stage = options.stages ? options.stages->stage() : engine_stage();
    const Played played = play(script, *stage, how);
    report(script, psn, played, options, tally);
    if (played.verdict != Verdict::passed && worst != Verdict::failed) worst = played.verdict;
  }
  ++(worst == Verdict::passed   ? tally.passed
     : worst == Verdict::failed ? tally.failed
                                : tally.skipped);
}

int run(RunOptions& options) {
  Tally tally;
  if (!options.live.puppet.empty()) {
    Result<std::unique_ptr<Live>> live = Live::open(options.live);
    if (!live) {
      std::fprintf(stderr, "%s\n", live.error().message.c_str());
      return 2;
    }
    options.stages = std::move(*live);
  }
  for (const std::string& file : scripts_in(options.files)) {
    Result<Script> script = load(file);
    if (!script) {
      std::fprintf(stderr, "%s\n", script.error().message.c_str());
      ++tally.failed;
      continue;
    }
    play_all(*script, options, tally);
  }
  if (options.json)
    std::cout << nlohmann::json{{"passed", tally.passed},
                                {"failed", tally.failed},
                                {"skipped", tally.skipped},
                                {"scripts", tally.rows}}
              << "\n";
  else
    std::printf("%zu passed, %zu failed, %zu skipped\n", tally.passed, tally.failed, tally.skipped);
  return tally.failed == 0 && tally.passed + tally.skipped > 0 ? 0 : 1;
}

int words() {
  std::printf("A line begins with: %s\n\nOpcodes:", std::string(line_list()).c_str());
  for (unsigned opcode = 0; opcode < 256; ++opcode)
    if (wire::opcode_info(static_cast<uint8_t>(opcode)).known())
      std::printf(" %s", opcode_word(static_cast<uint8_t>(opcode)).c_str());
  std::printf(" NAK RNR, or 0xNN\n\nFields of packets:\n%s\nCounters of weft:",
              field_list().c_str());
  for (const std::string_view name : transport::kCountNames)
    std::printf(" %s", std::string(name).c_str());
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace weft::script

int main(int argc, char** argv) {
  weft::script::RunOptions options;
  CLI::App app(
      "weft_script: plays RoCEv2 packet scripts against an endpoint under test.\n"
      "docs/packet-scripts.md describes the language.");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  CLI::App* const run = app.add_subcommand("run", "Play scripts");
  run->add_option("files", options.files, "Scripts, or folders of them")->required();
  run->add_option("--psn", options.psns, "First PSNs; each script is played once per value")
      ->capture_default_str();
  run->add_option("--end", options.live.puppet,
                  "HOST:PORT of a live end (a puppet) instead of the engine (default: the engine)");
  run->add_option("--end-device", options.live.device,
                  "Device of the live end: roce+udp:lo, rxe0 ...");
  run->add_option("--wire", options.live.wire, "Device whose port carries the peer's packets")
      ->capture_default_str();
  run->add_flag("--trace", options.trace, "Print every packet and completion with its time");
  run->add_flag("--json", options.json, "Print JSON");
  const CLI::App* const words = app.add_subcommand("words", "List opcodes, fields and counters");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  try {
    return words->parsed() ? weft::script::words() : weft::script::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft_script: %s\n", error.what());
    return 2;
  }
}
