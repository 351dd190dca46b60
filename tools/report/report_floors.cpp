// SPDX-License-Identifier: BSD-3-Clause
// The floors of the report: memcpy in this process, and the programs raw_udp and raw_shm if they
// are installed.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/report/report.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::json;
constexpr uint64_t kLargestDatagram = 65507;

// Processor time of this thread, independent of other load.
uint64_t thread_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// One thread copying one buffer of `size`, GB/s, best of three.
double measure_memcpy(uint64_t size) {
  // Half a page apart modulo 4096: otherwise loads wait for stores with equal low address bits (4K
  // aliasing).
  const uint64_t distance = (size + 4095) / 4096 * 4096 + 2048;
  std::vector<char> memory(distance + size, 1);
  const char* const from = memory.data();
  char* const to = memory.data() + distance;
  const uint64_t copies =
      std::max<uint64_t>(8, (uint64_t{16} << 20) / std::max<uint64_t>(size, 64));
  double best = 0;
  for (int run = 0; run < 3; ++run) {
    const uint64_t start = thread_ns();
    for (uint64_t i = 0; i < copies; ++i) {
      std::memcpy(to, from, size);
      asm volatile("" : : "r"(to), "r"(from) : "memory");
    }
    const uint64_t took = std::max<uint64_t>(thread_ns() - start, 1);
    best = std::max(best, static_cast<double>(copies * size) / static_cast<double>(took));
  }
  return best;
}

// Runs a raw_* program, which pins itself; returns its JSON, or null.
Json run_raw(const Scratch& scratch, bool realtime, std::vector<std::string> arguments) {
  arguments[0] = program_folder() + "/" + arguments[0];
  const std::string log = scratch.file("raw.json");
  Result<Child> child = Child::start(arguments, log, {-1, realtime});
  if (!child || child->wait(30) != 0) return {};
  return Json::parse(read_file(log), nullptr, false);
}

}  // namespace

Floors measure_floors(const ReportOptions& options, const Scratch& scratch) {
  Floors f;
  const auto udp = [&](const char* mode, uint64_t size) {
    const std::string cores =
        std::to_string(options.cores.front()) + "," + std::to_string(options.cores.back());
    const Json j = run_raw(scratch, options.realtime,
                           {"raw_udp", "--mode", mode, "--size", std::to_string(size), "--cores",
                            cores, "--seconds", "0.4", "--json"});
    return j.is_object() ? j.value("value", -1.0) : -1.0;
  };
  for (const uint64_t size : options.sizes) {
    f.memcpy_gigabytes[size] = measure_memcpy(size);
    if (size <= kLargestDatagram) f.udp_half_us[size] = udp("lat", size);
  }
  // Segments as large as a full packet of 4096 bytes payload, and as an 8-byte WRITE.
  f.udp_gigabytes = udp("bw", 4096 + 16);
  f.udp_megamessages = udp("rate", 8 + 32);
  const Json shm = run_raw(scratch, options.realtime, {"raw_shm", "--json"});
  if (!shm.is_object()) return f;
  const auto value = [&](const char* key) {
    return shm.contains(key) && shm[key].is_object() ? shm[key].value("value", -1.0) : -1.0;
  };
  f.line_half_us = value("line_half_round_trip") / 1000;
  f.slot_megamessages = value("slot_64_rate");
  f.shm_gigabytes = {{4096, value("copy_in_out_4k")},
                     {65536, value("pull_64k_readv")},
                     {1 << 20, value("pull_1m_readv")}};
  return f;
}

}  // namespace weft::bench
