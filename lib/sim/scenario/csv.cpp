// SPDX-License-Identifier: BSD-3-Clause
// One small reader: a Table hands out rows, a row hands out its fields as numbers, and the first
// field that is wrong is remembered with its place.
#include "lib/sim/scenario/csv.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>

#include "lib/sim/scheme/parameters.hpp"

namespace weft::sim::scenario {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields;
  size_t begin = 0;
  while (true) {
    const size_t end = line.find(separator, begin);
    fields.emplace_back(trimmed(std::string_view(line).substr(begin, end - begin)));
    if (end == std::string::npos) return fields;
    begin = end + 1;
  }
}

class Table {
 public:
  static Result<Table> open(const std::string& file, std::span<const std::string_view> needed) {
    Table table;
    table.file_ = file;
    table.in_.open(file);
    if (!table.in_)
      return Error{Code::not_found, file + ": cannot be read: " + std::strerror(errno)};
    if (!table.next_line())
      return Error{Code::invalid_argument, file + ": is empty; its first line names the columns"};
    table.columns_ = table.fields_;
    for (const std::string_view name : needed)
      if (table.index_of(name) == kNone)
        return Error{Code::invalid_argument, file + ":" + std::to_string(table.line_) +
                                                 ": no column '" + std::string(name) +
                                                 "'; the first line must name the columns"};
    return table;
  }

  // False at the end, and after an error.
  bool next() { return error_.message.empty() && next_line(); }
  // The field of a column; a missing one is an error, and empty.
  const std::string& text(std::string_view column) {
    static const std::string kEmpty;
    const size_t index = index_of(column);
    if (index < fields_.size()) return fields_[index];
    fail(column, "is missing in this line");
    return kEmpty;
  }
  bool has(std::string_view column) const { return index_of(column) != kNone; }
  double number(std::string_view column, double least, double most) {
    const std::string& field = text(column);
    Result<double> value = flow::parse_number(field);
    if (!value) fail(column, value.error().message);
    if (value && (*value < least || *value > most)) {
      char range[96];
      std::snprintf(range, sizeof range, "must be within %.15g and %.15g, not ", least, most);
      fail(column, range + field);
    }
    return value ? *value : 0;
  }
  uint64_t whole(std::string_view column, uint64_t least, uint64_t most) {
    const double value = number(column, static_cast<double>(least), static_cast<double>(most));
    if (value != std::floor(value)) fail(column, "must be a whole number, not " + text(column));
    return value > 0 ? static_cast<uint64_t>(value) : 0;
  }
  void fail(std::string_view column, const std::string& reason) {
    if (!error_.message.empty()) return;
    error_.message = file_ + ":" + std::to_string(line_) + ": " +
                     (column.empty() ? "" : std::string(column) + ": ") + reason;
  }
  bool failed() const { return !error_.message.empty(); }
  const Error& error() const { return error_; }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  bool next_line() {
    std::string line;
    while (std::getline(in_, line)) {
      ++line_;
      const std::string_view text = trimmed(line);
      if (text.empty() || text.front() == '#') continue;
      fields_ = split(line, ',');
      return true;
    }
    return false;
  }
  size_t index_of(std::string_view name) const {
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    return found == columns_.end() ? kNone : static_cast<size_t>(found - columns_.begin());
  }

  std::string file_;
  std::ifstream in_;
  size_t line_ = 0;
  std::vector<std::string> columns_;
  std::vector<std::string> fields_;
  Error error_{Code::invalid_argument, ""};
};

constexpr uint64_t kMostNodes = 1u << 20;
constexpr double kMostNs = 9e15;
constexpr double kMostDelayNs = 1e15;  // 11 days

uint32_t mbps_of(Table& table) {
  return static_cast<uint32_t>(std::llround(table.number("gbps", 0.001, 4000) * 1000));
}

// `what` they are, in messages: "node".
Result<std::vector<uint32_t>> parse_numbers(const std::string& text, const std::string& what) {
  std::vector<uint32_t> nodes;
  if (text.empty()) return nodes;
  for (const std::string& field : split(text, '-')) {
    uint32_t node = 0;
    const char* const end = field.data() + field.size();
    const auto [at, error] = std::from_chars(field.data(), end, node);
    if (error != std::errc() || at != end)
      return Error{Code::invalid_argument,
                   "'" + field + "' is no " + what + "; write numbers joined by -"};
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

Result<fabric::Topology> read_topology(const std::string& file) {
  constexpr std::string_view kNeeded[] = {"node_a", "node_b", "gbps", "delay_ns"};
  Result<Table> table = Table::open(file, kNeeded);
  if (!table) return table.error();
  std::vector<fabric::Cable> cables;
  while (table->next()) {
    fabric::Cable cable;
    cable.a = static_cast<uint32_t>(table->whole("node_a", 0, kMostNodes));
    cable.b = static_cast<uint32_t>(table->whole("node_b", 0, kMostNodes));
    cable.mbps = mbps_of(*table);
    cable.delay_ns = static_cast<int64_t>(table->whole("delay_ns", 0, 1'000'000'000));
    if (cable.a == cable.b) table->fail("node_b", "is node_a: a link joins two nodes");
    cables.push_back(cable);
  }
  if (table->failed()) return table->error();
  Result<fabric::Topology> topology = fabric::Topology::make(std::move(cables));
  if (!topology) return Error{topology.error().code, file + ": " + topology.error().message};
  return topology;
}

Result<void> read_degraded(const std::string& file, fabric::Topology& topology) {
  constexpr std::string_view kNeeded[] = {"from", "to", "gbps"};
  Result<Table> table = Table::open(file, kNeeded);
  if (!table) return table.error();
  while (table->next()) {
    const auto from = static_cast<uint32_t>(table->whole("from", 0, kMostNodes));
    const auto to = static_cast<uint32_t>(table->whole("to", 0, kMostNodes));
    const uint32_t mbps = mbps_of(*table);
    if (table->failed()) break;
    Result<void> done = topology.degrade(from, to, mbps);
    if (!done) table->fail("to", done.error().message);
  }
  if (table->failed()) return table->error();
  return {};
}

namespace {

fabric::LinkChange read_change(Table& table) {
  const auto given = [&](const char* column) {
    return table.has(column) && !table.text(column).empty();
  };
  fabric::LinkChange change;
  change.at_ns = std::llround(table.number("at_ns", 0, kMostNs));
  change.from = static_cast<uint32_t>(table.whole("from", 0, kMostNodes));
  change.to = static_cast<uint32_t>(table.whole("to", 0, kMostNodes));
  if (given("both")) change.both = table.whole("both", 0, 1) == 1;
  if (given("state")) change.up = table.text("state") == "up";
  if (given("state") && !*change.up && table.text("state") != "down")
    table.fail("state", "must be up or down, not " + table.text("state"));
  if (given("gbps")) change.mbps = mbps_of(table);
  if (given("loss")) change.loss = table.number("loss", 0, 1);
  if (!change.up && !change.loss && change.mbps == 0)
    table.fail("", "nothing happens: give state, gbps or loss");
  return change;
}

}  // namespace

Result<std::vector<fabric::LinkChange>> read_link_changes(const std::string& file) {
  constexpr std::string_view kNeeded[] = {"at_ns", "from", "to"};
  Result<Table> table = Table::open(file, kNeeded);
  if (!table) return table.error();
  std::vector<fabric::LinkChange> changes;
  while (table->next()) changes.push_back(read_change(*table));
  if (table->failed()) return table->error();
  return changes;
}

namespace {

// The flow of this row as a message. What it waits for may be in a later row.
void add_task(Table& table, const flow::FlowSpec& spec, flow::TaskGraph& tasks) {
  const bool thinks = table.has("think_ns") && !table.text("think_ns").empty();
  const uint32_t number =
      tasks.add({.flow = static_cast<uint32_t>(tasks.tasks.size()),
                 .bytes = spec.bytes,
                 .delay_ns = thinks ? std::llround(table.number("think_ns", 0, kMostDelayNs)) : 0,
                 .start_ns = spec.start_ns});
  if (!table.has("after")) return;
  const Result<std::vector<uint32_t>> rows = parse_numbers(table.text("after"), "row");
  if (!rows) return table.fail("after", rows.error().message);
  for (const uint32_t row : *rows) tasks.wait(number, row);
}

}  // namespace

void FlowRows::add(FlowRows&& more) {
  const auto first_flow = static_cast<uint32_t>(flows.size());
  const auto first_task = static_cast<uint32_t>(tasks.tasks.size());
  for (flow::Task task : more.tasks.tasks) {
    if (task.flow != flow::kNoFlow) task.flow += first_flow;
    tasks.add(task);
  }
  for (const flow::Wait& wait : more.tasks.waits)
    tasks.wait(wait.task + first_task, wait.before + first_task, wait.acknowledged);
  flows.insert(flows.end(), std::make_move_iterator(more.flows.begin()),
               std::make_move_iterator(more.flows.end()));
}

Result<FlowRows> read_flows(const std::string& file) {
  constexpr std::string_view kNeeded[] = {"start_ns", "src", "dst", "bytes"};
  Result<Table> table = Table::open(file, kNeeded);
  if (!table) return table.error();
  FlowRows rows;
  const bool waits = table->has("after") || table->has("think_ns");
  const bool has_port = table->has("sport");
  const bool has_target = table->has("dport");
  const bool has_class = table->has("class");
  const bool has_path = table->has("path");
  while (table->next()) {
    flow::FlowSpec spec;
    spec.start_ns = std::llround(table->number("start_ns", 0, kMostNs));
    spec.src = static_cast<uint32_t>(table->whole("src", 0, kMostNodes));
    spec.dst = static_cast<uint32_t>(table->whole("dst", 0, kMostNodes));
    spec.bytes = table->whole("bytes", 1, 1'000'000'000'000);
    if (spec.src == spec.dst) table->fail("dst", "is src: a flow joins two hosts");
    if (has_port && !table->text("sport").empty())
      spec.src_port = static_cast<int32_t>(table->whole("sport", 0, 65535));
    if (has_target && !table->text("dport").empty())
      spec.dst_port = static_cast<uint16_t>(table->whole("dport", 0, 65535));
    if (has_class && !table->text("class").empty())
      spec.data_class = static_cast<uint8_t>(table->whole("class", 1, 7));
    if (has_path) {
      Result<std::vector<uint32_t>> path = parse_numbers(table->text("path"), "node");
      if (!path)
        table->fail("path", path.error().message);
      else
        spec.path = *path;
    }
    if (waits) add_task(*table, spec, rows.tasks);
    rows.flows.push_back(std::move(spec));
  }
  if (table->failed()) return table->error();
  if (rows.flows.empty()) return Error{Code::invalid_argument, file + ": has no flows"};
  for (const flow::Wait& wait : rows.tasks.waits)
    if (wait.before >= rows.flows.size())
      return Error{Code::invalid_argument, file + ": after: flow " + std::to_string(wait.task) +
                                               " waits for flow " + std::to_string(wait.before) +
                                               ", there are " + std::to_string(rows.flows.size()) +
                                               ", counted from 0"};
  return rows;
}

Result<std::vector<SizePoint>> read_sizes(const std::string& file) {
  constexpr std::string_view kNeeded[] = {"size_bytes", "cdf_percent"};
  Result<Table> table = Table::open(file, kNeeded);
  if (!table) return table.error();
  std::vector<SizePoint> points;
  while (table->next()) {
    const SizePoint point{table->number("size_bytes", 0, 1e12),
                          table->number("cdf_percent", 0, 100)};
    if (!points.empty() &&
        (point.bytes < points.back().bytes || point.percent < points.back().percent))
      table->fail("cdf_percent", "both columns must never decrease");
    points.push_back(point);
  }
  if (table->failed()) return table->error();
  if (points.size() < 2 || points.back().percent != 100)
    return Error{Code::invalid_argument, file + ": needs two points or more, the last at 100 %"};
  return points;
}

}  // namespace weft::sim::scenario
