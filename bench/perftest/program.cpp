// SPDX-License-Identifier: BSD-3-Clause
// The measuring programs from beginning to end: options, session, one run per size, results.
#include "bench/perftest/program.hpp"

#include <cstdio>

#include "bench/perftest/output.hpp"

namespace weft::bench {
namespace {

int fail(const Options& o, const Error& error) {
  if (interrupted()) return 130;
  std::fprintf(stderr, "%s: %s\n", program_name(o.operation, o.measure).c_str(),
               error.message.c_str());
  return 1;
}

Result<SizeResult> run_size(Session& session, uint64_t size, Receiver* receiver) {
  const Options& o = session.options;
  if (o.measure == Measure::latency) return run_latency(session, size, receiver);
  if (o.validate) return run_validation(session, size);
  return run_bandwidth(session, size, receiver);
}

// Prints the result of the data validation; returns true if no byte was wrong.
bool report_validation(const std::vector<SizeResult>& results) {
  uint64_t verified = 0;
  uint64_t mismatches = 0;
  for (const SizeResult& r : results) {
    verified += r.verified_bytes;
    mismatches += r.mismatches;
  }
  std::printf(" data validation: %llu bytes compared, %llu wrong: %s\n",
              static_cast<unsigned long long>(verified),
              static_cast<unsigned long long>(mismatches), mismatches == 0 ? "PASSED" : "FAILED");
  return mismatches == 0;
}

int measure_all(Session& session) {
  const Options& o = session.options;
  std::optional<Receiver> receiver;
  const bool rounds = o.measure == Measure::bandwidth && o.validate;
  if (o.takes_receives() && !rounds) {
    receiver.emplace(session);
    if (const Result<void> primed = receiver->prime(); !primed) return fail(o, primed.error());
  }
  print_head(session);
  print_titles(o);
  std::vector<SizeResult> results;
  for (const uint64_t size : o.sizes) {
    const Result<SizeResult> result = run_size(session, size, receiver ? &*receiver : nullptr);
    if (!result) {
      session.control->abort();
      if (o.output.counters) print_counters(session.device);
      return fail(o, result.error());
    }
    print_result(o, *result);
    results.push_back(*result);
  }
  print_foot();
  if (o.output.paths_report) print_paths(session);
  if (o.output.counters) print_counters(session.device);
  const bool right = !o.validate || report_validation(results);
  if (o.output.json)
    if (const Result<void> written = write_json(session, results); !written)
      return fail(o, written.error());
  return right ? 0 : 1;
}

}  // namespace

int run_program(Operation operation, Measure measure, int argc, char** argv) {
  const Parsed parsed = parse_options(operation, measure, argc, argv);
  if (!parsed.options) return parsed.exit_code;
  handle_interrupts();
  (void)ticks_per_us();  // calibrates before anything is in flight
  Result<Session> session = Session::open(*parsed.options);
  if (!session) return fail(*parsed.options, session.error());
  return measure_all(*session);
}

}  // namespace weft::bench
