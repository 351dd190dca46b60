// SPDX-License-Identifier: BSD-3-Clause
// JSON of operations and steps, and Prometheus' text format.
#include "lib/collective/team/dump.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "lib/base/clock.hpp"
#include "lib/base/log/json_string.hpp"
#include "lib/base/log/log.hpp"
#include "lib/base/private_file.hpp"
#include "lib/collective/team/team.hpp"

namespace weft::collective {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  base::append_json_string(out, text);
  return out;
}

// Ranks of one host share a clock.
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

std::string dump(const Team& team) {
  const Trace& trace = team.runner().trace();
  const std::optional<Failure>& failure = team.failure();
  std::string operations, steps, failed = "null";
  for (size_t i = 0; i < trace.kept(); ++i)
    append(operations, operation(trace[i], trace[i].failed ? "failed" : "done"));
  for (const Lane& lane : team.runner().lanes())
    for (const TaskPtr& task : lane.tasks) {
      Record record{.call = task->call, .predicted = task->predicted, .issued = task->issued};
      record.started = task->started;
      const bool runs = task == lane.tasks.front() && task->started >= task->issued;
      append(operations, operation(record, runs ? "running" : "waiting"));
    }
  const StepLog& log = trace.steps();
  for (size_t i = 0; i < log.kept(); ++i) append(steps, step(log[i]));
  if (failure)
    failed = "{\"code\":" + quoted(weft::name(failure->code)) +
             ",\"rank\":" + std::to_string(failure->rank) +
             ",\"sequence\":" + std::to_string(failure->sequence) +
             ",\"text\":" + quoted(failure->text) + "}";
  return "{\"weft_collective_dump\":1,\"communicator\":" + quoted(team.options().name) +
         ",\"rank\":" + std::to_string(team.rank()) + ",\"ranks\":" + std::to_string(team.ranks()) +
         ",\"members\":" + list(team.lineage().members) + ",\"host\":" + quoted(host_id()) +
         ",\"pid\":" + std::to_string(getpid()) +
         ",\"time_ns\":" + std::to_string(host_ns(base::Clock::process().now())) +
         ",\n\"failure\":" + failed + ",\n\"awaits\":" + list(team.awaited_ranks()) +
         ",\n\"operations_dropped\":" + std::to_string(trace.dropped()) + ",\n\"operations\":[" +
         operations + "],\n\"steps_dropped\":" + std::to_string(log.dropped()) + ",\n\"steps\":[" +
         steps + "]}\n";
}

void write_dump(const Team& team) {
  std::string path = team.options().dump;
  const char* const wanted = std::getenv("WEFT_COLLECTIVE_DUMP");
  if (path.empty() && wanted != nullptr) path = wanted;
  if (path.empty()) return;
  std::string group = team.options().name;
  std::replace(group.begin(), group.end(), '/', '-');
  path += "." + group + "." + std::to_string(team.rank());
  const Result<base::File> file = base::create_private_file(path, "dump");
  if (!file)
    return base::log(base::Subsystem::collective, LogLevel::warning,
                     [&] { return file.error().message; });
  std::fputs(dump(team).c_str(), file->get());
}

std::string prometheus(const Team& team) {
  const Trace& trace = team.runner().trace();
  const std::string labels = "communicator=" + quoted(team.options().name) + ",rank=\"" +
                             std::to_string(team.rank()) + "\",ranks=\"" +
                             std::to_string(team.ranks()) + "\"";
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
      const Total& total = trace.total(collective);
      if (total.operations > 0)
        value(name, ",operation=\"" + std::string(weft::name(collective)) + "\"", figure(total));
    }
  };
  by_operation("operations_total", "Operations that have ended",
               [](const Total& t) { return static_cast<double>(t.operations); });
  by_operation("operations_failed_total", "Operations that have failed",
               [](const Total& t) { return static_cast<double>(t.failed); });
  by_operation("bytes_total", "Elements of these calls times their size",
               [](const Total& t) { return static_cast<double>(t.bytes); });
  by_operation("waiting_seconds_total", "Time from issue to start",
               [](const Total& t) { return static_cast<double>(t.waited.ps) / 1e12; });
  by_operation("running_seconds_total", "Time from start to end",
               [](const Total& t) { return static_cast<double>(t.took.ps) / 1e12; });
  const StepLog& steps = trace.steps();
  family("pieces_total", "counter", "Pieces sent to and received from other ranks");
  for (const bool sent : {true, false})
    value("pieces_total", sent ? ",direction=\"sent\"" : ",direction=\"received\"",
          static_cast<double>(steps.total(sent).pieces));
  family("piece_bytes_total", "counter", "Payload of the pieces");
  for (const bool sent : {true, false})
    value("piece_bytes_total", sent ? ",direction=\"sent\"" : ",direction=\"received\"",
          static_cast<double>(steps.total(sent).bytes));
  family("placed_pieces_total", "counter",
         "Pieces that arrived at their final place without a copy");
  value("placed_pieces_total", "", static_cast<double>(team.runner().lanes().placed()));
  family("registrations_total", "counter", "Memory registered for calls, and by the caller");
  value("registrations_total", "", static_cast<double>(team.memory().made()));
  size_t pending = 0;
  for (const Lane& lane : team.runner().lanes()) pending += lane.tasks.size();
  family("pending_operations", "gauge", "Operations that run or are queued");
  value("pending_operations", "", static_cast<double>(pending));
  family("failed", "gauge", "1 once the communicator has failed");
  value("failed", "", team.failure() ? 1 : 0);
  return text;
}

}  // namespace weft::collective
