// SPDX-License-Identifier: BSD-3-Clause
// Shows the flight records of weft processes, of crashed ones too: the last packets, errors and
// state changes of each device, both ends of a connection beside each other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "bench/perftest/command_line.hpp"
#include "tools/postmortem/describe.hpp"
#include "tools/postmortem/export.hpp"

namespace {

using namespace weft::postmortem;
using weft::Result;
using weft::driver::RecordedEvent;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> names;
  size_t lines = 60;
  bool alone = false, json = false;
  std::string queue_pair, pcapng, perfetto;
};

// An event and whose it is.
struct Line {
  int64_t wall_ns;
  size_t record;
  const RecordedEvent* event;
};

std::string clock_text(int64_t wall_ns) {
  const time_t seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm broken{};
  localtime_r(&seconds, &broken);
  char text[48];
  const size_t length = std::strftime(text, sizeof text, "%H:%M:%S", &broken);
  std::snprintf(text + length, sizeof text - length, ".%09d",
                static_cast<int>(wall_ns % 1'000'000'000));
  return text;
}

std::string title_of(const Record& record) {
  std::string title = record.program + ", process " + std::to_string(record.process) +
                      (record.running ? " (runs)" : " (ended)") + ": " + record.device + ", " +
                      to_string(record.address);
  if (record.engine != 0) title += ", engine " + std::to_string(record.engine);
  return title;
}

int list() {
  const std::vector<Record> records = all_records();
  for (const Record& record : records) {
    std::printf("%s\n    %s, %zu events", title_of(record).c_str(), record.path.c_str(),
                record.events.size());
    if (!record.events.empty())
      std::printf(", the last at %s", clock_text(record.wall_ns(record.events.back())).c_str());
    std::printf("\n");
  }
  if (records.empty()) std::printf("no process of this user has left a flight record\n");
  return 0;
}

std::vector<Line> lines_of(const std::vector<Record>& records, const Options& options) {
  std::vector<Line> lines;
  const uint32_t wanted = options.queue_pair.empty()
                              ? 0
                              : static_cast<uint32_t>(std::stoul(options.queue_pair, nullptr, 0));
  for (size_t i = 0; i < records.size(); ++i)
    for (const RecordedEvent& event : records[i].events) {
      const bool counted = event.kind() == weft::driver::EventKind::counted;
      const bool sent = event.kind() == weft::driver::EventKind::sent;
      const uint32_t about = sent ? fields_of(records[i], event).destination
                                  : queue_pair_of(records[i], event).value_or(0);
      if (wanted == 0 || counted || about == wanted)
        lines.push_back({records[i].wall_ns(event), i, &event});
    }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.wall_ns < b.wall_ns; });
  if (options.lines != 0 && lines.size() > options.lines)
    lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(options.lines));
  return lines;
}

// One column a record.
void print_text(const std::vector<Record>& records, const std::vector<Line>& lines) {
  for (size_t i = 0; i < records.size(); ++i)
    std::printf("%zu  %s\n", i + 1, title_of(records[i]).c_str());
  std::vector<int> widths(records.size(), 3);
  for (const Line& line : lines) {
    int& width = widths[line.record];
    width = std::max(width, static_cast<int>(describe(records[line.record], *line.event).size()));
  }
  std::printf("\n%-18s  ", "time");
  for (size_t i = 0; i < records.size(); ++i) std::printf("%-*zu  ", widths[i], i + 1);
  std::printf("\n");
  for (const Line& line : lines) {
    std::printf("%s  ", clock_text(line.wall_ns).c_str());
    for (size_t i = 0; i < line.record; ++i) std::printf("%-*s  ", widths[i], "");
    std::printf("%s\n", describe(records[line.record], *line.event).c_str());
  }
  if (lines.empty()) std::printf("no events\n");
}

void print_json(const std::vector<Record>& records, const std::vector<Line>& lines) {
  Json all = {{"records", Json::array()}, {"events", Json::array()}};
  for (const Record& record : records)
    all["records"].push_back({{"file", record.path},
                              {"program", record.program},
                              {"process", record.process},
                              {"running", record.running},
                              {"device", record.device},
                              {"gid", to_string(record.address)},
                              {"engine", record.engine},
                              {"missing", record.missing}});
  for (const Line& line : lines)
    all["events"].push_back({{"time_ns", line.wall_ns},
                             {"record", line.record},
                             {"event", describe(records[line.record], *line.event)}});
  std::printf("%s\n", all.dump(2).c_str());
}

int fail(const weft::Error& error) {
  std::fprintf(stderr, "weft_postmortem: %s\n", error.message.c_str());
  return 1;
}

int show(const Options& options) {
  Result<std::vector<Record>> records = find_records(options.names);
  if (!records) return fail(records.error());
  if (!options.alone) add_peers(*records);
  if (!options.pcapng.empty())
    if (const Result<void> written = write_pcapng(*records, options.pcapng); !written)
      return fail(written.error());
  if (!options.perfetto.empty())
    if (const Result<void> written = write_perfetto(*records, options.perfetto); !written)
      return fail(written.error());
  const std::vector<Line> lines = lines_of(*records, options);
  if (options.json)
    print_json(*records, lines);
  else if (options.pcapng.empty() && options.perfetto.empty())
    print_text(*records, lines);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "weft_postmortem: shows the last packets, errors and state changes of weft processes, of "
      "crashed ones too, with those of their peers on this host beside them. Without PID: lists "
      "the records.");
  app.option_defaults()->always_capture_default();
  app.add_option("PID", options.names, "Processes, or files of records")->default_str("");
  app.add_option("-n,--lines", options.lines, "Print the last so many events; 0: all");
  app.add_option("--qp", options.queue_pair,
                 "Only packets to this queue pair, and its events (default: all)")
      ->check(CLI::Number)
      ->default_str("");
  app.add_flag("--alone", options.alone, "Leave out the records of peers that are not named");
  app.add_flag("--json", options.json, "Print JSON");
  app.add_option("--pcapng", options.pcapng,
                 "Write a capture file for Wireshark (default: print text)")
      ->default_str("");
  app.add_option("--perfetto", options.perfetto,
                 "Write a trace for ui.perfetto.dev (default: print text)")
      ->default_str("");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  return options.names.empty() ? list() : show(options);
}
