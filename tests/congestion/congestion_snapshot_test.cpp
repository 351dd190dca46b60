// SPDX-License-Identifier: BSD-3-Clause
// Each controller's trajectory under one script, as text that people have read: calm, a queue that
// grows and marks, calm again, silence. The texts lie in tests/snapshot; with the environment
// variable WEFT_UPDATE_SNAPSHOTS the test writes them instead (then read the difference).
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/congestion/congestion_script.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace weft::congestion {
namespace {

std::filesystem::path snapshot_of(std::string_view name) {
  return test::source_root() / "tests" / "snapshot" / ("congestion_" + std::string(name) + ".txt");
}

void note(std::string& text, const char* phase, const ScriptedFlow& flow) {
  char line[120];
  std::snprintf(line, sizeof line, "%9lld ns %-8s rate %12.3f Mb/s",
                static_cast<long long>(flow.now_ns()), phase, flow.controller().rate() / 1e6);
  text += line;
  if (flow.controller().window() != kNoWindow)
    text += " window " + std::to_string(flow.controller().window());
  text += '\n';
}

std::string trajectory(std::string_view name) {
  const Conditions network{.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)};
  const Result<Preset> preset = make_preset(name, network);
  REQUIRE(preset);
  ScriptedFlow flow(*preset);
  std::string text = "# " + std::string(name) + ", 100 Gb/s, T = 12240 ns\n";
  for (int i = 0; i < 300; ++i) {
    flow.acknowledge({.sent_bytes = 1000});
    if (i % 50 == 49) note(text, "calm", flow);
  }
  for (uint32_t i = 0; i < 1000; ++i) {
    flow.acknowledge({.queue_bytes = 2000 * i, .marked = i % 4 == 3});
    if (i % 100 == 99) note(text, "queue", flow);
  }
  for (int i = 0; i < 1000; ++i) {
    flow.acknowledge({.sent_bytes = 500});
    if (i % 100 == 99) note(text, "calm", flow);
  }
  for (int i = 0; i < 8; ++i) {
    flow.wait(500'000);
    note(text, "silence", flow);
  }
  return text;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_CASE("every controller's trajectory is the one that was reviewed") {
  for (const Kind* kind : kinds()) {
    const std::filesystem::path path = snapshot_of(kind->name);
    INFO(path.string());
    const std::string text = trajectory(kind->name);
    if (std::getenv("WEFT_UPDATE_SNAPSHOTS") != nullptr) std::ofstream(path) << text;
    CHECK(text == read_file(path));
  }
}

}  // namespace
}  // namespace weft::congestion
