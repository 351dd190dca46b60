// SPDX-License-Identifier: BSD-3-Clause
// Records as complete events ("ph":"X"), which Perfetto and chrome://tracing draw as bars.
#include "lib/collective/trace.hpp"

#include <time.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

// Waiting for earlier operations, and running, in a row each.
enum Row : int { kRunning = 0, kWaiting = 1 };

// From the clock of this process, whose epoch is its own, to that of the host; in us.
double host_us(Instant time) {
  static const double offset_us = [] {
    timespec host{};
    clock_gettime(CLOCK_MONOTONIC, &host);
    const double host_now =
        static_cast<double>(host.tv_sec) * 1e6 + static_cast<double>(host.tv_nsec) / 1e3;
    return host_now - static_cast<double>(base::Clock::process().now().ps) / 1e6;
  }();
  return static_cast<double>(time.ps) / 1e6 + offset_us;
}

std::string event(const Record& record, uint32_t rank, Row row, Instant begin, Instant end) {
  char text[400];
  std::snprintf(text, sizeof text,
                "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%d,"
                "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"call\":\"%s\",\"sequence\":%" PRIu64
                ",\"failed\":%s,\"algorithm\":\"%s\",\"predicted_us\":%.3f,"
                "\"placed\":%" PRIu64 "}}",
                std::string(name(record.call.collective)).c_str(),
                row == kRunning ? "running" : "waiting", rank, row, host_us(begin),
                static_cast<double>((end - begin).ps) / 1e6, describe(record.call).c_str(),
                record.call.sequence, record.failed ? "true" : "false",
                std::string(record.algorithm).c_str(),
                static_cast<double>(record.predicted.ps) / 1e6, record.placed);
  return text;
}

std::string label(const char* what, uint32_t rank, int row, const std::string& text) {
  return std::string("{\"name\":\"") + what + "\",\"ph\":\"M\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(row) + ",\"args\":{\"name\":\"" + text + "\"}}";
}

}  // namespace

std::string Trace::to_json(uint32_t rank) const {
  std::string events = label("process_name", rank, 0, "rank " + std::to_string(rank)) + ",\n" +
                       label("thread_name", rank, kRunning, "running") + ",\n" +
                       label("thread_name", rank, kWaiting, "waiting for its turn");
  const uint64_t kept = std::min<uint64_t>(added_, ring_.size());
  for (uint64_t i = added_ - kept; i < added_; ++i) {
    const Record& record = ring_[i % ring_.size()];
    events += ",\n" + event(record, rank, kRunning, record.started, record.ended);
    if (record.issued < record.started)
      events += ",\n" + event(record, rank, kWaiting, record.issued, record.started);
  }
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace weft::collective
