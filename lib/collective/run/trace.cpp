// SPDX-License-Identifier: BSD-3-Clause
// Records as complete events ("ph":"X"), which Perfetto and chrome://tracing draw as bars, and a
// flow event from the sending of each piece to its receiving.
#include "lib/collective/run/trace.hpp"

#include <time.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

// Running operations, queued operations and steps have a row each.
enum Row : int { kRunning = 0, kWaiting = 1, kSteps = 2 };

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

// A step's bar begins at the end of the step before it, or at the start of its operation.
std::string event(const StepRecord& step, uint32_t rank, Instant begin) {
  char text[600];
  const uint32_t from = step.sent ? rank : step.peer, to = step.sent ? step.peer : rank;
  const double begin_us = host_us(begin), end_us = host_us(step.time);
  std::snprintf(text, sizeof text,
                "{\"name\":\"%s %u\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":%u,\"tid\":%d,"
                "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"sequence\":%" PRIu64 ",\"piece\":%" PRIu64
                ",\"bytes\":%u,\"class\":%u}},\n"
                "{\"name\":\"piece\",\"cat\":\"piece\",\"ph\":\"%s\",\"bp\":\"e\","
                "\"id\":\"%u-%u-%u-%" PRIu64 "\",\"pid\":%u,\"tid\":%d,\"ts\":%.3f}",
                step.sent ? "put to" : "receive from", step.peer, rank, kSteps, begin_us,
                end_us - begin_us, step.sequence, step.piece, step.bytes, step.traffic_class,
                step.sent ? "s" : "f", from, to, step.traffic_class, step.piece, rank, kSteps,
                end_us);
  return text;
}

std::string label(const char* what, uint32_t rank, int row, const std::string& text) {
  return std::string("{\"name\":\"") + what + "\",\"ph\":\"M\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(row) + ",\"args\":{\"name\":\"" + text + "\"}}";
}

// The start of the last operation that had started by then.
Instant began_before(const Trace& trace, Instant time) {
  Instant began;
  for (size_t i = 0; i < trace.kept() && trace[i].started <= time; ++i) began = trace[i].started;
  return began;
}

}  // namespace

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

uint64_t bytes_of(const Call& call) noexcept { return call.count * size_of(call.type); }

void Trace::add(const Record& record) {
  WEFT_DCHECK(record.issued <= record.started && record.started <= record.ended);
  ring_[added_++ % ring_.size()] = record;
  Total& total = totals_[static_cast<size_t>(record.call.collective)];
  ++total.operations;
  total.failed += record.failed;
  total.bytes += bytes_of(record.call);
  total.waited = total.waited + (record.started - record.issued);
  total.took = total.took + (record.ended - record.started);
}

std::string Trace::to_json(uint32_t rank) const {
  std::string events = label("process_name", rank, 0, "rank " + std::to_string(rank)) + ",\n" +
                       label("thread_name", rank, kRunning, "running") + ",\n" +
                       label("thread_name", rank, kWaiting, "queued") + ",\n" +
                       label("thread_name", rank, kSteps, "steps");
  Instant before;
  for (size_t i = 0; i < steps_.kept(); ++i) {
    const StepRecord& step = steps_[i];
    const Instant begin = std::min(step.time, std::max(before, began_before(*this, step.time)));
    events += ",\n" + event(step, rank, begin == Instant() ? step.time : begin);
    before = step.time;
  }
  for (size_t i = 0; i < kept(); ++i) {
    const Record& record = (*this)[i];
    events += ",\n" + event(record, rank, kRunning, record.started, record.ended);
    if (record.issued < record.started)
      events += ",\n" + event(record, rank, kWaiting, record.issued, record.started);
  }
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace weft::collective
