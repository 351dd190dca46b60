// SPDX-License-Identifier: BSD-3-Clause
// Runs the swarm over a range of seeds. Says nothing about a seed that holds; a seed that does not
// prints what went wrong and the command that repeats it, also when the engine crashes or hangs.
//
//   sim_swarm [--srd] [--first S] [--seeds N] [--packets P] [--json] [--hashes] [--verbose]
//
// Stops after N seeds, or after the seed that completes P packets. --srd: SRD's swarm, not RoCE's.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/srd/swarm/srd_swarm.hpp"

namespace {

using weft::test::SrdSwarmResult;
using weft::test::SwarmResult;

struct Options {
  uint64_t first = 1;
  uint64_t seeds = 0;    // 0: until `packets`
  uint64_t packets = 0;  // 0: until `seeds`
  bool srd = false, json = false, hashes = false, verbose = false;
};

char replay[160];
constexpr unsigned kSecondsPerSeed = 300;

void note_seed(uint64_t seed, const char* which) {
  std::snprintf(
      replay, sizeof replay,
      "\nseed %llu crashed or hung; replay: sim_swarm%s --first %llu --seeds 1 --verbose\n",
      static_cast<unsigned long long>(seed), which, static_cast<unsigned long long>(seed));
  alarm(kSecondsPerSeed);
}

extern "C" void on_signal(int number) {
  const ssize_t written = write(STDERR_FILENO, replay, std::strlen(replay));
  (void)written;
  std::signal(number, SIG_DFL);
  std::raise(number);
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: sim_swarm [--srd] [--first SEED] [--seeds N] [--packets N] [--json] "
               "[--hashes] [--verbose]\n");
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    uint64_t* number = argument == "--first"     ? &o.first
                       : argument == "--seeds"   ? &o.seeds
                       : argument == "--packets" ? &o.packets
                                                 : nullptr;
    if (number != nullptr && ++i < argc) {
      char* end = nullptr;
      *number = std::strtoull(argv[i], &end, 10);
      if (end == argv[i] || *end != '\0') usage();
    } else if (argument == "--srd") {
      o.srd = true;
    } else if (argument == "--json") {
      o.json = true;
    } else if (argument == "--hashes") {
      o.hashes = true;
    } else if (argument == "--verbose") {
      o.verbose = true;
    } else {
      usage();
    }
  }
  if (o.seeds == 0 && o.packets == 0) o.seeds = 100;
  return o;
}

struct Summary {
  uint64_t seeds = 0, failed = 0, packets = 0, hash = 0;
  weft::test::Traffic traffic;
  SrdSwarmResult sums;

  void add(const SrdSwarmResult& r) {
    ++seeds;
    failed += !r.violation.empty();
    packets += r.packets;
    hash = (hash ^ r.hash) * 0x9FB21C651E98DF25;
    hash ^= hash >> 29;
    traffic.requests += r.traffic.requests;
    traffic.completions += r.traffic.completions;
    traffic.failures += r.traffic.failures;
    traffic.connections += r.traffic.connections;
    for (size_t i = 0; i < r.faults.size(); ++i) sums.faults[i] += r.faults[i];
    for (size_t i = 0; i < r.link_faults.size(); ++i) sums.link_faults[i] += r.link_faults[i];
    for (size_t i = 0; i < r.counters.size(); ++i) sums.counters[i] += r.counters[i];
    for (size_t i = 0; i < r.disturbances.size(); ++i) sums.disturbances[i] += r.disturbances[i];
  }
};

// In so many packets every kind of fault happens.
constexpr uint64_t kFaultsWithin = 10'000'000;

unsigned long long ull(uint64_t v) { return v; }

void print_json(const Summary& s, uint64_t first) {
  std::printf(
      "{\"first\": %llu, \"seeds\": %llu, \"failed\": %llu, \"packets\": %llu, "
      "\"hash\": \"%016llx\", \"requests\": %llu, \"completions\": %llu, "
      "\"failures\": %llu, \"connections\": %llu, \"faults\": {",
      ull(first), ull(s.seeds), ull(s.failed), ull(s.packets), ull(s.hash), ull(s.traffic.requests),
      ull(s.traffic.completions), ull(s.traffic.failures), ull(s.traffic.connections));
  for (size_t i = 0; i < s.sums.faults.size(); ++i)
    std::printf("%s\"%s\": %llu", i == 0 ? "" : ", ", weft::middleware::kFaultNames[i].data(),
                ull(s.sums.faults[i]));
  for (size_t i = 0; i < s.sums.link_faults.size(); ++i)
    std::printf(", \"%s\": %llu", weft::test::kLinkFaultNames[i].data(),
                ull(s.sums.link_faults[i]));
  std::printf("}, \"counters\": {");
  for (size_t i = 0; i < s.sums.counters.size(); ++i)
    std::printf("%s\"%s\": %llu", i == 0 ? "" : ", ", weft::transport::kCountNames[i].data(),
                ull(s.sums.counters[i]));
  std::printf("}}\n");
}

void print_text(const Summary& s) {
  std::printf(
      "%llu packets, %llu seeds, %llu failed, hash %016llx; %llu requests, %llu "
      "completions, %llu failures, %llu connections\n",
      ull(s.packets), ull(s.seeds), ull(s.failed), ull(s.hash), ull(s.traffic.requests),
      ull(s.traffic.completions), ull(s.traffic.failures), ull(s.traffic.connections));
  for (size_t i = 0; i < s.sums.faults.size(); ++i)
    std::printf("%s%s %llu", i == 0 ? "faults: " : ", ",
                weft::middleware::kFaultNames[i].data() + std::strlen("fault_"),
                ull(s.sums.faults[i]));
  for (size_t i = 0; i < s.sums.link_faults.size(); ++i)
    std::printf(", %s %llu", weft::test::kLinkFaultNames[i].data(), ull(s.sums.link_faults[i]));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGALRM})
    std::signal(number, &on_signal);
  Summary summary;
  const char* const which = options.srd ? " --srd" : "";
  for (uint64_t seed = options.first;; ++seed) {
    if (options.seeds != 0 && summary.seeds == options.seeds) break;
    if (options.packets != 0 && summary.packets >= options.packets) break;
    note_seed(seed, which);
    const SrdSwarmResult r = options.srd ? weft::test::run_srd_swarm(seed)
                                         : SrdSwarmResult{weft::test::run_swarm(seed), {}};
    summary.add(r);
    if (!r.violation.empty())
      std::printf(
          "seed %llu failed at %lld ns: %s\n  replay: sim_swarm%s --first %llu --seeds 1 "
          "--verbose\n",
          ull(seed), static_cast<long long>(r.end.ps / 1000), r.violation.c_str(), which,
          ull(seed));
    if (options.hashes) std::printf("seed %llu hash %016llx\n", ull(seed), ull(r.hash));
    if (options.verbose)
      std::printf("seed %llu: %llu packets, %llu requests, %llu failures, %lld us\n", ull(seed),
                  ull(r.packets), ull(r.traffic.requests), ull(r.traffic.failures),
                  static_cast<long long>(r.end.ps / 1'000'000));
  }
  alarm(0);
  if (options.json) {
    print_json(summary, options.first);
  } else {
    print_text(summary);
  }
  std::string missing;
  if (summary.packets >= kFaultsWithin)
    missing = options.srd ? weft::test::not_fired(summary.sums)
                          : weft::test::not_fired(static_cast<const SwarmResult&>(summary.sums));
  if (!missing.empty()) std::fprintf(stderr, "sim_swarm: never happened: %s\n", missing.c_str());
  return summary.failed == 0 && missing.empty() ? 0 : 1;
}
