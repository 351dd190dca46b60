// SPDX-License-Identifier: BSD-3-Clause
// The JSON trace event format. Packets are slices of 100 ns, to which arrows can be bound.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lib/base/private_file.hpp"
#include "tools/postmortem/describe.hpp"
#include "tools/postmortem/export.hpp"

namespace weft::postmortem {
namespace {

using driver::EventKind;
using driver::RecordedEvent;
using Json = nlohmann::ordered_json;

// What one packet has in common where it was sent and where it was received.
using PacketKey = std::tuple<uint16_t, uint64_t, uint64_t>;

// A time as the format has it: microseconds, from `first` on, so that they fit a double.
double microseconds(const Record& record, const RecordedEvent& event, int64_t first) {
  return static_cast<double>(record.wall_ns(event) - first) / 1000;
}

int64_t first_time(const std::vector<Record>& records) {
  int64_t first = INT64_MAX;
  for (const Record& record : records)
    if (!record.events.empty()) first = std::min(first, record.wall_ns(record.events.front()));
  return first;
}

// A retransmission has the key of the packet before it: the arrow begins at the last one sent.
class Arrows {
 public:
  // The arrow that begins or ends at the event; 0: none.
  uint64_t begin(const Record& record, const RecordedEvent& event) {
    return open_[key(record, event)] = ++last_;
  }
  uint64_t end(const Record& record, const RecordedEvent& event) {
    const auto at = open_.find(key(record, event));
    return at == open_.end() ? 0 : at->second;
  }

 private:
  static PacketKey key(const Record& record, const RecordedEvent& event) {
    return {record.udp_port, event.head, event.place};
  }
  std::map<PacketKey, uint64_t> open_;
  uint64_t last_ = 0;
};

}  // namespace

Result<void> write_perfetto(const std::vector<Record>& records, const std::string& path) {
  Result<base::File> file = base::create_private_file(path, "trace");
  if (!file) return file.error();
  const int64_t first = first_time(records);
  Json events = Json::array();
  std::vector<std::tuple<int64_t, size_t, const RecordedEvent*>> order;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", i},
                      {"args",
                       {{"name", record.program + " " + std::to_string(record.process) + " " +
                                     record.device}}}});
    for (const RecordedEvent& event : record.events)
      order.emplace_back(record.wall_ns(event), i, &event);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
  Arrows arrows;
  for (const auto& [time, i, event] : order) {
    const Record& record = records[i];
    const double at = microseconds(record, *event, first);
    const bool sent = event->kind() == EventKind::sent;
    const bool packet = sent || event->kind() == EventKind::received;
    const int lane = packet ? (sent ? 1 : 2) : 0;
    const std::string text = describe(record, *event);
    events.push_back({{"name", text},
                      {"pid", i},
                      {"tid", lane},
                      {"ts", at},
                      {"ph", "X"},
                      {"dur", packet ? 0.1 : 1.0}});
    const uint64_t arrow = !packet ? 0
                           : sent  ? arrows.begin(record, *event)
                                   : arrows.end(record, *event);
    if (arrow == 0) continue;
    Json bound = {{"name", "packet"}, {"cat", "packet"}, {"id", arrow},           {"pid", i},
                  {"tid", lane},      {"ts", at},        {"ph", sent ? "s" : "f"}};
    if (!sent) bound["bp"] = "e";
    events.push_back(std::move(bound));
  }
  const std::string text = Json{{"traceEvents", std::move(events)}}.dump() + "\n";
  if (std::fwrite(text.data(), text.size(), 1, file->get()) == 1 && std::fflush(file->get()) == 0)
    return {};
  return Error{Code::io_error, "cannot write " + path + ": is the disk full?"};
}

}  // namespace weft::postmortem
