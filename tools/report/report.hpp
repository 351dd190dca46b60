// SPDX-License-Identifier: BSD-3-Clause
// The main job of `./dev run`: every operation over a few sizes between two processes, on each
// device, data verified, with the floors of this machine in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/perftest/options.hpp"
#include "tools/report/child.hpp"
#include "weft/result.hpp"

namespace weft::bench {

struct ReportOptions {
  std::vector<std::string> devices;  // device strings
  std::vector<uint64_t> sizes;
  double seconds = 0.35;  // per figure
  std::vector<int> cores;
  bool realtime = false;
  bool floors = true;
};

// A negative figure was not measured.
struct ReportRow {
  std::string device;
  Operation operation = Operation::send;
  AtomicType atomic = AtomicType::fetch_add;
  uint64_t size = 0;
  double typical_us = -1;
  double p99_us = -1;
  double gigabytes = -1;  // 10^9 bytes per second
  double megamessages = -1;
};

// The floors: the machine's speed without weft. Missing entries were not measured.
struct Floors {
  std::map<uint64_t, double> memcpy_gigabytes;
  std::map<uint64_t, double> udp_half_us;
  double udp_gigabytes = -1;
  double udp_megamessages = -1;
  double line_half_us = -1;
  double slot_megamessages = -1;
  std::map<uint64_t, double> shm_gigabytes;
};

struct Report {
  std::vector<ReportRow> rows;
  Floors floors;
  uint64_t verified_bytes = 0;
  uint64_t wrong_bytes = 0;
  std::vector<std::string> problems;  // failed measurements, with the reason
  double took_s = 0;
};

// `progress` gets a text for each measurement.
Result<Report> measure_report(const ReportOptions& options,
                              const std::function<void(const std::string&)>& progress);

Floors measure_floors(const ReportOptions& options, const Scratch& scratch);

void print_report(const ReportOptions& options, const Report& report);
std::string report_json(const ReportOptions& options, const Report& report);

}  // namespace weft::bench
