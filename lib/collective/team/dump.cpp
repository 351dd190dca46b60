// SPDX-License-Identifier: BSD-3-Clause
// Teams: what a rank knows, as text: a dump, for `weft_coll merge` to lay beside those of the other
// ranks, and figures for Prometheus.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "lib/base/clock.hpp"
#include "lib/collective/team/team.hpp"

namespace weft::collective {
namespace {

// ASCII, for what is cut short or comes from another rank may not be UTF-8.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    const unsigned char byte = static_cast<unsigned char>(c);
    out += byte < ' ' ? ' ' : byte >= 0x7f ? '?' : c;
  }
  return out + "\"";
}

// Ranks on one host have one clock.
std::string host_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  char name[256] = {};
  (void)gethostname(name, sizeof name - 1);
  return name;
}

int64_t host_ns(Instant time) { return static_cast<int64_t>(host_us(time) * 1e3); }

std::string list(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (const uint32_t rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return "[" + text + "]";
}

// `ended_ns` is absent while it runs or waits.
std::string operation(const Record& record, const char* state) {
  char times[200];
  std::snprintf(times, sizeof times, ",\"issued_ns\":%" PRId64 ",\"predicted_ns\":%" PRId64,
                host_ns(record.issued), record.predicted.ns());
  std::string text = "{\"sequence\":" + std::to_string(record.call.sequence) +
                     ",\"call\":" + quoted(describe(record.call)) +
                     ",\"blocks\":" + std::to_string(record.call.blocks) +
                     ",\"bytes\":" + std::to_string(bytes_of(record.call)) + ",\"state\":\"" +
                     state + "\"" + times;
  if (record.started >= record.issued)
    text += ",\"started_ns\":" + std::to_string(host_ns(record.started));
  if (record.ended >= record.issued)
    text += ",\"ended_ns\":" + std::to_string(host_ns(record.ended));
  return text + "}";
}

std::string step(const StepRecord& record) {
  char text[160];
  std::snprintf(text, sizeof text, "[%" PRIu64 ",%d,%u,%" PRIu64 ",%u,%" PRId64 ",%u]",
                record.sequence, record.sent, record.peer, record.piece, record.bytes,
                host_ns(record.time), record.traffic_class);
  return text;
}

void append(std::string& items, const std::string& item) {
  items += (items.empty() ? "\n" : ",\n") + item;
}

}  // namespace

std::string Team::dump() const {
  std::string operations, steps, failure = "null";
  for (size_t i = 0; i < trace_.kept(); ++i)
    append(operations, operation(trace_[i], trace_[i].failed ? "failed" : "done"));
  for (const std::unique_ptr<Lane>& lane : lanes_)
    for (const TaskPtr& task : lane->tasks) {
      Record record{.call = task->call, .predicted = task->predicted, .issued = task->issued};
      record.started = task->started;
      const bool runs = task == lane->tasks.front() && task->started >= task->issued;
      append(operations, operation(record, runs ? "running" : "waiting"));
    }
  const StepLog& log = trace_.steps();
  for (size_t i = 0; i < log.kept(); ++i) append(steps, step(log[i]));
  if (failure_)
    failure = "{\"code\":" + quoted(weft::name(failure_->code)) +
              ",\"rank\":" + std::to_string(failure_->rank) +
              ",\"sequence\":" + std::to_string(failure_->sequence) +
              ",\"text\":" + quoted(failure_->text) + "}";
  return "{\"weft_collective_dump\":1,\"communicator\":" + quoted(options_.name) +
         ",\"rank\":" + std::to_string(mesh_.rank) + ",\"ranks\":" + std::to_string(mesh_.ranks) +
         ",\"members\":" + list(members_) + ",\"host\":" + quoted(host_id()) +
         ",\"pid\":" + std::to_string(getpid()) +
         ",\"time_ns\":" + std::to_string(host_ns(base::Clock::process().now())) +
         ",\n\"failure\":" + failure +
         ",\n\"awaits\":" + list(failure_ ? awaited_at_failure_ : awaited()) +
         ",\n\"operations_dropped\":" + std::to_string(trace_.dropped()) + ",\n\"operations\":[" +
         operations + "],\n\"steps_dropped\":" + std::to_string(log.dropped()) + ",\n\"steps\":[" +
         steps + "]}\n";
}

// Where the options, or the environment, say. A file that cannot be written is no failure.
void Team::write_dump() const {
  std::string path = options_.dump;
  const char* const wanted = std::getenv("WEFT_COLLECTIVE_DUMP");
  if (path.empty() && wanted != nullptr) path = wanted;
  if (path.empty()) return;
  std::string group = options_.name;
  std::replace(group.begin(), group.end(), '/', '-');
  std::ofstream(path + "." + group + "." + std::to_string(mesh_.rank)) << dump();
}

std::string Team::prometheus() const {
  const std::string labels = "communicator=" + quoted(options_.name) + ",rank=\"" +
                             std::to_string(mesh_.rank) + "\",ranks=\"" +
                             std::to_string(mesh_.ranks) + "\"";
  std::string text;
  const auto family = [&text](const char* name, const char* type, const char* help) {
    text += "# HELP weft_collective_" + std::string(name) + " " + help +
            "\n# TYPE weft_collective_" + name + " " + type + "\n";
  };
  const auto value = [&](const char* name, const std::string& more, double number) {
    char figure[64];
    std::snprintf(figure, sizeof figure, "%.15g", number);
    text += "weft_collective_" + std::string(name) + "{" + labels + more + "} " + figure + "\n";
  };
  using Total = Trace::Total;
  const auto by_operation = [&](const char* name, const char* help,
                                double (*figure)(const Total&)) {
    family(name, "counter", help);
    for (int i = 0; i <= static_cast<int>(Collective::barrier); ++i) {
      const Collective collective = static_cast<Collective>(i);
      const Total& total = trace_.total(collective);
      if (total.operations > 0)
        value(name, ",operation=\"" + std::string(weft::name(collective)) + "\"", figure(total));
    }
  };
  by_operation("operations_total", "Operations that have ended",
               [](const Total& t) { return static_cast<double>(t.operations); });
  by_operation("operations_failed_total", "Of those, failed",
               [](const Total& t) { return static_cast<double>(t.failed); });
  by_operation("bytes_total", "Elements of these calls times their size",
               [](const Total& t) { return static_cast<double>(t.bytes); });
  by_operation("waiting_seconds_total", "Time in which they waited for earlier ones",
               [](const Total& t) { return static_cast<double>(t.waited.ps) / 1e12; });
  by_operation("running_seconds_total", "Time from their turn to their end",
               [](const Total& t) { return static_cast<double>(t.took.ps) / 1e12; });
  const StepLog& steps = trace_.steps();
  family("pieces_total", "counter", "Pieces that went to other ranks, and came from them");
  for (const bool sent : {true, false})
    value("pieces_total", sent ? ",direction=\"sent\"" : ",direction=\"received\"",
          static_cast<double>(steps.total(sent).pieces));
  family("piece_bytes_total", "counter", "Their payload");
  for (const bool sent : {true, false})
    value("piece_bytes_total", sent ? ",direction=\"sent\"" : ",direction=\"received\"",
          static_cast<double>(steps.total(sent).bytes));
  family("placed_pieces_total", "counter", "Pieces that came to their final place without a copy");
  value("placed_pieces_total", "", static_cast<double>(placed()));
  family("registrations_total", "counter", "Memory registered for calls, and by the caller");
  value("registrations_total", "", static_cast<double>(memory_.made()));
  size_t pending = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) pending += lane->tasks.size();
  family("pending_operations", "gauge", "Operations under way, or waiting for their turn");
  value("pending_operations", "", static_cast<double>(pending));
  family("failed", "gauge", "1 once the communicator has failed");
  value("failed", "", failure_ ? 1 : 0);
  return text;
}

}  // namespace weft::collective
