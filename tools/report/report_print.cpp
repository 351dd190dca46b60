// SPDX-License-Identifier: BSD-3-Clause
// Prints the report as a table or as JSON.
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/report/report.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::json;

std::string size_text(uint64_t size) {
  if (size >= 1 << 20 && size % (1 << 20) == 0) return std::to_string(size >> 20) + " MiB";
  if (size >= 1 << 10 && size % (1 << 10) == 0) return std::to_string(size >> 10) + " KiB";
  return std::to_string(size) + " B";
}

std::string operation_text(const ReportRow& row) {
  switch (row.operation) {
    case Operation::send:
      return "SEND";
    case Operation::write:
      return "WRITE";
    case Operation::read:
      return "READ";
    case Operation::atomic:
      return row.atomic == AtomicType::fetch_add ? "FETCH_ADD" : "CMP_SWAP";
  }
  return "";
}

bool round_trip(const ReportRow& row) {
  return row.operation == Operation::read || row.operation == Operation::atomic;
}

// A figure in six columns, or a dash.
std::string cell(double value, int digits) {
  if (value < 0) return "     -";
  char text[32];
  std::snprintf(text, sizeof text, "%6.*f", digits, value);
  return text;
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

double find(const std::map<uint64_t, double>& values, uint64_t size) {
  const auto it = values.find(size);
  return it == values.end() ? -1 : it->second;
}

struct RawCells {
  double us = -1;
  double gigabytes = -1;
  double megamessages = -1;
};

// The floor of the device's port for a message of this size.
RawCells raw_of(const Floors& f, const ReportRow& row) {
  RawCells raw;
  const bool shm = row.device.find("+shm") != std::string::npos;
  const int trips = round_trip(row) ? 2 : 1;
  const bool small = row.size <= 64;
  if (shm) {
    if (small) raw.us = f.line_half_us * trips;
    raw.gigabytes = find(f.shm_gigabytes, row.size);
    if (small) raw.megamessages = f.slot_megamessages;
  } else {
    const double half = find(f.udp_half_us, row.size);
    raw.us = half < 0 ? -1 : half * trips;
    if (row.size >= 4096) raw.gigabytes = f.udp_gigabytes;
    if (small) raw.megamessages = f.udp_megamessages;
  }
  return raw;
}

void print_device(const std::string& device, const Report& report) {
  // Without the generated name of the shm job.
  std::printf("\n%s\n", device.substr(0, device.find(":report")).c_str());
  std::printf(
      "                      latency, us           bandwidth, GB/s         messages, M/s\n");
  std::printf(" %-9s %8s   typical   99 %%    raw    weft    raw memcpy      weft    raw\n",
              "operation", "size");
  for (const ReportRow& row : report.rows) {
    if (row.device != device) continue;
    const RawCells raw = raw_of(report.floors, row);
    std::printf(" %-9s %8s %s%s %s %s  %s %s %s    %s %s\n", operation_text(row).c_str(),
                size_text(row.size).c_str(), round_trip(row) ? "*" : " ",
                cell(row.typical_us, 2).c_str(), cell(row.p99_us, 2).c_str(),
                cell(raw.us, 2).c_str(), cell(row.gigabytes, 2).c_str(),
                cell(raw.gigabytes, 2).c_str(),
                cell(find(report.floors.memcpy_gigabytes, row.size), 1).c_str(),
                cell(row.megamessages, 3).c_str(), cell(raw.megamessages, 3).c_str());
  }
}

}  // namespace

void print_report(const ReportOptions& options, const Report& report) {
  std::printf("RDMA between two processes of this machine (%s, cores %d and %d, %s)\n",
              processor().c_str(), options.cores.front(), options.cores.back(), date().c_str());
  for (const std::string& device : options.devices) print_device(device, report);
  std::printf(
      "\n latency: half a round trip; * the whole one, since READ and atomics return data\n"
      " raw: the same bytes without RDMA. UDP sockets that poll; for bandwidth in trains of 4 KiB\n"
      "      segments (GSO, GRO). Shared memory: a cache line, a ring, one pull of large blocks\n"
      " memcpy: one thread, data in its cache\n\n");
  for (const std::string& problem : report.problems) std::printf(" PROBLEM %s\n", problem.c_str());
  const bool right = report.wrong_bytes == 0 && report.verified_bytes > 0;
  std::printf("%llu bytes compared, %llu wrong: data %s. %.0f s\n",
              static_cast<unsigned long long>(report.verified_bytes),
              static_cast<unsigned long long>(report.wrong_bytes),
              right ? "verified" : "NOT verified", report.took_s);
}

std::string report_json(const ReportOptions& options, const Report& report) {
  Json j;
  j["processor"] = processor();
  j["date"] = date();
  j["cores"] = options.cores;
  j["realtime"] = options.realtime;
  j["seconds_per_figure"] = options.seconds;
  j["verified_bytes"] = report.verified_bytes;
  j["wrong_bytes"] = report.wrong_bytes;
  j["problems"] = report.problems;
  j["results"] = Json::array();
  for (const ReportRow& row : report.rows) {
    const RawCells raw = raw_of(report.floors, row);
    Json r;
    const auto put = [&](const char* key, double value) {
      if (value >= 0) r[key] = value;
    };
    r["device"] = row.device;
    r["operation"] = operation_text(row);
    r["size"] = row.size;
    r["latency_is"] = round_trip(row) ? "round trip" : "half round trip";
    put("typical_us", row.typical_us);
    put("p99_us", row.p99_us);
    put("gigabytes_per_s", row.gigabytes);
    put("megamessages_per_s", row.megamessages);
    put("raw_us", raw.us);
    put("raw_gigabytes_per_s", raw.gigabytes);
    put("raw_megamessages_per_s", raw.megamessages);
    put("memcpy_gigabytes_per_s", find(report.floors.memcpy_gigabytes, row.size));
    j["results"].push_back(std::move(r));
  }
  return j.dump(2);
}

}  // namespace weft::bench
