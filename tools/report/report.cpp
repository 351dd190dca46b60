// SPDX-License-Identifier: BSD-3-Clause
// Runs the measuring programs in pairs, as a user would, and collects their JSON (report.hpp).
#include "tools/report/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/perftest/clock.hpp"
#include "bench/perftest/control.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::json;

constexpr double kMiB = 1048576;
constexpr double kPairLimit = 60;  // seconds

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string list_of(const std::vector<uint64_t>& sizes) {
  std::string text;
  for (const uint64_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

std::string last_line(const std::string& text) {
  std::string line;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) line = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return line;
}

// Runs `program` as server and client; returns the client's JSON.
Result<Json> run_pair(const ReportOptions& options, const Scratch& scratch,
                      const std::string& program, std::vector<std::string> arguments) {
  const std::string path = program_folder() + "/" + program;
  arguments.insert(arguments.begin(), path);
  for (const std::string& more : {std::string("-p"), std::to_string(free_port())})
    arguments.push_back(more);
  std::vector<std::string> client = arguments;
  const std::string json_file = scratch.file("client.json");
  for (const std::string& more : {std::string("--out_json"), "--out_json_file=" + json_file,
                                  std::string("--connect_wait=10"), std::string("127.0.0.1")})
    client.push_back(more);
  const int last = static_cast<int>(options.cores.size()) - 1;
  const Placement places[2] = {
      {options.cores[static_cast<size_t>(std::min(1, last))], options.realtime},
      {options.cores[0], options.realtime}};
  Result<Child> server = Child::start(arguments, scratch.file("server.log"), places[0]);
  if (!server) return server.error();
  Result<Child> started = Child::start(client, scratch.file("client.log"), places[1]);
  if (!started) return started.error();
  const int client_code = started->wait(kPairLimit);
  if (client_code != 0) {
    const std::string why = last_line(read_file(scratch.file("client.log")));
    const std::string server_why = last_line(read_file(scratch.file("server.log")));
    return Error{
        Code::io_error,
        client_code < 0
            ? program + " did not end within " + std::to_string(static_cast<int>(kPairLimit)) + " s"
            : why + (server_why.find("weft_") == 0 ? "; server: " + server_why : "")};
  }
  if (const int code = server->wait(5); code != 0)
    return Error{Code::io_error, "server: " + last_line(read_file(scratch.file("server.log")))};
  Json json = Json::parse(read_file(json_file), nullptr, false);
  if (!json.is_object() || !json.contains("results"))
    return Error{Code::io_error, program + " wrote no JSON"};
  return json;
}

class Measurement {
 public:
  Measurement(const ReportOptions& options, const Scratch& scratch,
              const std::function<void(const std::string&)>& progress)
      : options_(options), scratch_(scratch), progress_(progress) {}

  void run_device(const std::string& device, Report& report);

 private:
  void run_operation(const std::string& device, Operation operation, AtomicType atomic,
                     Report& report);
  ReportRow& row(Report& report, const std::string& device, Operation operation, AtomicType atomic,
                 uint64_t size);
  std::vector<std::string> arguments(const std::string& device, Operation operation,
                                     AtomicType atomic) const;

  const ReportOptions& options_;
  const Scratch& scratch_;
  const std::function<void(const std::string&)>& progress_;
};

ReportRow& Measurement::row(Report& report, const std::string& device, Operation operation,
                            AtomicType atomic, uint64_t size) {
  for (ReportRow& r : report.rows)
    if (r.device == device && r.operation == operation && r.atomic == atomic && r.size == size)
      return r;
  ReportRow fresh;
  fresh.device = device;
  fresh.operation = operation;
  fresh.atomic = atomic;
  fresh.size = size;
  report.rows.push_back(fresh);
  return report.rows.back();
}

std::vector<std::string> Measurement::arguments(const std::string& device, Operation operation,
                                                AtomicType atomic) const {
  std::vector<std::string> list = {"-d", device};
  if (operation == Operation::atomic) {
    list.push_back("-A");
    list.push_back(atomic == AtomicType::fetch_add ? "FETCH_AND_ADD" : "CMP_AND_SWAP");
  } else {
    list.push_back("--sizes");
    list.push_back(list_of(options_.sizes));
  }
  return list;
}

void Measurement::run_operation(const std::string& device, Operation operation, AtomicType atomic,
                                Report& report) {
  const std::string what = device + ": " + std::string(name(operation));
  const auto run = [&](Measure measure, const char* doing, std::vector<std::string> more) {
    if (interrupted()) return Json();
    progress_(what + ": " + doing);
    std::vector<std::string> list = arguments(device, operation, atomic);
    list.insert(list.end(), more.begin(), more.end());
    const std::string program = program_name(operation, measure);
    Result<Json> json = run_pair(options_, scratch_, program, std::move(list));
    if (json) return std::move(*json)["results"];
    report.problems.push_back(what + ": " + doing + ": " + json.error().message);
    return Json();
  };
  for (const Json& r : run(Measure::bandwidth, "data", {"--data_validation", "-n", "200"})) {
    report.verified_bytes += r.value("verified_bytes", uint64_t{0});
    report.wrong_bytes += r.value("mismatched_bytes", uint64_t{0});
  }
  const std::string seconds = number(options_.seconds);
  for (const Json& r : run(Measure::latency, "latency", {"-D", seconds})) {
    ReportRow& at = row(report, device, operation, atomic, r.value("MsgSize", uint64_t{0}));
    at.typical_us = r.value("t_typical", -1.0);
    at.p99_us = r.value("percentile_99", -1.0);
  }
  const std::vector<std::string> flow = {"-D", seconds, "-t", "256", "-l", "16", "-Q", "64", "-N"};
  for (const Json& r : run(Measure::bandwidth, "bandwidth", flow)) {
    ReportRow& at = row(report, device, operation, atomic, r.value("MsgSize", uint64_t{0}));
    at.gigabytes = r.value("BW_average", 0.0) * kMiB / 1e9;
    at.megamessages = r.value("MsgRate", 0.0);
  }
}

void Measurement::run_device(const std::string& device, Report& report) {
  const auto both = AtomicType::fetch_add;
  run_operation(device, Operation::send, both, report);
  run_operation(device, Operation::write, both, report);
  run_operation(device, Operation::read, both, report);
  run_operation(device, Operation::atomic, AtomicType::fetch_add, report);
  run_operation(device, Operation::atomic, AtomicType::compare_swap, report);
}

}  // namespace

Result<Report> measure_report(const ReportOptions& options,
                              const std::function<void(const std::string&)>& progress) {
  const Result<Scratch> scratch = Scratch::make();
  if (!scratch) return scratch.error();
  Report report;
  const uint64_t start = monotonic_ns();
  if (options.floors) {
    progress("the floors of this machine");
    report.floors = measure_floors(options, *scratch);
  }
  Measurement measurement(options, *scratch, progress);
  for (const std::string& device : options.devices) measurement.run_device(device, report);
  if (interrupted()) return Error{Code::bad_state, "interrupted"};
  report.took_s = static_cast<double>(monotonic_ns() - start) / 1e9;
  return report;
}

}  // namespace weft::bench
