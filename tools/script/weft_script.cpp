// SPDX-License-Identifier: BSD-3-Clause
// Packet scripts for RoCEv2: `weft_script run FILE...` plays them on weft's engine in virtual time,
// `weft_script --against HOST` on a device of that host, where `weft_script respond` runs, and
// `weft_script words` lists the words of the language.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/perftest/command_line.hpp"
#include "lib/transport/counters.hpp"
#include "tools/script/live_stage.hpp"
#include "tools/script/parse.hpp"
#include "tools/script/play.hpp"
#include "tools/script/report.hpp"
#include "tools/script/responder.hpp"

namespace weft::script {
namespace {

struct RunOptions {
  std::vector<std::string> files;
  std::string psns = "1000,0xfffffa,0xffffff";
  std::string junit;
  bool trace = false, json = false;
  LiveOptions live;
  std::unique_ptr<Live> stages;  // null: the engine in virtual time
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

void play_all(const std::string& file, const Script& script, const RunOptions& options,
              Report& report) {
  Verdict worst = Verdict::passed;
  std::stringstream psns(options.psns);
  for (std::string psn; std::getline(psns, psn, ',');) {
    PlayOptions how;
    how.peer_first = Psn{static_cast<uint32_t>(number(psn, -1)) & Psn::kMask};
    how.end_first = how.peer_first;
    if (options.stages) how.patience = Duration::from_s(2);
    const std::unique_ptr<Stage> stage = options.stages ? options.stages->stage() : engine_stage();
    const auto begin = std::chrono::steady_clock::now();
    Attempt row{file, script.title, psn, play(script, *stage, how)};
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!options.json) print_attempt(row, options.trace);
    if (row.played.verdict != Verdict::passed && worst != Verdict::failed)
      worst = row.played.verdict;
    report.attempts.push_back(std::move(row));
  }
  ++(worst == Verdict::passed   ? report.passed
     : worst == Verdict::failed ? report.failed
                                : report.skipped);
}

// The conformance scripts: those installed beside this program, or those of the tree it was built
// in.
Result<std::string> conformance_scripts() {
  std::error_code error;
  const std::filesystem::path bin =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* where : {"../share/weft/scripts", "../../../tests/script"})
    if (std::filesystem::is_directory(bin / where, error))
      return std::filesystem::weakly_canonical(bin / where).string();
  return Error{Code::not_found, "no conformance scripts in " +
                                    (bin / "../share/weft/scripts").string() +
                                    ": name script files, or folders of them"};
}

Result<void> prepare(RunOptions& options) {
  if (options.files.empty()) {
    Result<std::string> folder = conformance_scripts();
    if (!folder) return folder.error();
    options.files.push_back(*folder);
  }
  if (options.live.responder.empty()) return {};
  Result<std::unique_ptr<Live>> live = Live::open(options.live);
  if (!live) return live.error();
  options.stages = std::move(*live);
  if (!options.json)
    std::printf("against %s (%s), from %s\n", options.live.responder.c_str(),
                options.stages->end().c_str(), options.stages->wire().c_str());
  return {};
}

int run(RunOptions& options) {
  if (const Result<void> prepared = prepare(options); !prepared) {
    std::fprintf(stderr, "%s\n", prepared.error().message.c_str());
    return 2;
  }
  Report report;
  for (const std::string& file : scripts_in(options.files)) {
    Result<Script> script = load(file);
    if (!script) {
      std::fprintf(stderr, "%s\n", script.error().message.c_str());
      ++report.failed;
      continue;
    }
    play_all(file, *script, options, report);
  }
  if (options.json)
    print_json(report, options.stages ? options.stages->wire() : "",
               options.stages ? options.stages->end() : "");
  else
    std::printf("%zu passed, %zu failed, %zu skipped\n", report.passed, report.failed,
                report.skipped);
  if (!options.junit.empty())
    if (const Result<void> written = write_junit(report, options.junit); !written) {
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      return 1;
    }
  return report.failed == 0 && report.passed + report.skipped > 0 ? 0 : 1;
}

int respond(const responder::ServeOptions& options) {
  const auto endpoint = responder::weft_endpoint();
  std::printf("responder on %s: TCP port %u of %s; all who reach it may use the device\n",
              options.device.c_str(), unsigned{options.port}, options.listen.c_str());
  std::fflush(stdout);
  return responder::serve(options, *endpoint);
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
  weft::responder::ServeOptions serving{.port = weft::responder::kPort, .device = "roce+udp:lo"};
  CLI::App app(
      "weft_script: plays RoCEv2 packet scripts against an endpoint under test.\n"
      "docs/packet-scripts.md describes the language. `weft_script --against HOST` is short for\n"
      "`weft_script run --against HOST`.");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  CLI::App* const run = app.add_subcommand("run", "Play scripts");
  run->add_option("files", options.files,
                  "Scripts, or folders of them (default: the conformance scripts)");
  run->add_option("--psn", options.psns, "First PSNs; each script is played once per value")
      ->capture_default_str();
  run->add_option("--against,--end", options.live.responder,
                  "HOST or HOST:PORT where `weft_script respond` runs on the device under test "
                  "(default: weft's engine in this process, in virtual time)");
  run->add_option("--end-device", options.live.device,
                  "Device that weft_puppet or verbs_puppet shall open at --against: roce+udp:lo, "
                  "rxe0 (default: the responder's)");
  run->add_option("--wire", options.live.wire,
                  "Device whose port carries the peer's packets (default: roce+udp on the address "
                  "from which packets go to the device under test)");
  run->add_flag("--trace", options.trace, "Print every packet and completion with its time");
  run->add_flag("--json", options.json, "Print JSON");
  run->add_option("--junit", options.junit, "Write JUnit XML into this file (default: none)");
  CLI::App* const respond =
      app.add_subcommand("respond", "Lend a device of this host to `weft_script --against`");
  respond->add_option("-d,--device", serving.device, "The device: ibverbs:mlx5_0, roce+udp:eth0")
      ->capture_default_str();
  respond->add_option("-p,--port", serving.port, "TCP port to listen on")->capture_default_str();
  respond->add_option("--listen", serving.listen, "IP address of this host to listen on")
      ->capture_default_str();
  const CLI::App* const words = app.add_subcommand("words", "List opcodes, fields and counters");
  std::vector<char*> arguments(argv, argv + argc);
  static char kRun[] = "run";
  if (argc > 1 && std::string_view(argv[1]).starts_with("--against"))
    arguments.insert(arguments.begin() + 1, kRun);
  arguments.push_back(nullptr);
  if (const auto ended = weft::bench::read_command_line(app, static_cast<int>(arguments.size()) - 1,
                                                        arguments.data()))
    return *ended;
  try {
    if (respond->parsed()) return weft::script::respond(serving);
    return words->parsed() ? weft::script::words() : weft::script::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft_script: %s\n", error.what());
    return 2;
  }
}
