// SPDX-License-Identifier: BSD-3-Clause
// Copies or reduces pieces of 8 KiB out of a ring of 256 KiB, like receive slots, into a large
// target. Rounds of all kernels alternate, so that other load affects all of them; the median
// counts.
#include "tools/coll/kernels.hpp"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lib/collective/arithmetic/arithmetic.hpp"

namespace weft::bench {
namespace {

using collective::Arithmetic;

constexpr size_t kRing = 256 * 1024, kPiece = 8 * 1024, kTarget = 64 << 20;
constexpr int kRounds = 15;

struct Kernel {
  std::string name;
  size_t element = 1;  // bytes of payload
  size_t stored = 1;   // bytes of target for each
  std::function<void(std::byte* target, const std::byte* payload, size_t count)> run;
  std::vector<double> rates = {};  // bytes of payload per second

  double median() {
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  }
};

Kernel add(DataType type) {
  const Arithmetic a = collective::arithmetic_of(type, ReduceOp::sum);
  return {std::string(name(type)) + " + fp32 to fp32", a.element, a.accumulator,
          [a](std::byte* target, const std::byte* payload, size_t count) {
            a.reduce[0][1](target, payload, target, count);
          }};
}

Kernel widen(DataType type) {
  const Arithmetic a = collective::arithmetic_of(type, ReduceOp::sum);
  return {std::string(name(type)) + " to fp32", a.element, a.accumulator,
          [a](std::byte* target, const std::byte* payload, size_t count) {
            a.widen(target, payload, count);
          }};
}

Kernel narrow(DataType type) {
  const Arithmetic a = collective::arithmetic_of(type, ReduceOp::sum);
  return {"fp32 to " + std::string(name(type)), a.accumulator, a.element,
          [a](std::byte* target, const std::byte* payload, size_t count) {
            a.finish(target, payload, count, 1);
          }};
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> kernels = {{"copy (memcpy)", 1, 1,
                                  [](std::byte* target, const std::byte* payload, size_t count) {
                                    std::memcpy(target, payload, count);
                                  }},
                                 add(DataType::fp32)};
  kernels[1].name = "fp32 + fp32 to fp32";
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp8_e4m3,
                              DataType::fp8_e5m2, DataType::mxfp8_e4m3, DataType::mxfp8_e5m2}) {
    kernels.push_back(add(type));
    kernels.push_back(widen(type));
    kernels.push_back(narrow(type));
  }
  return kernels;
}

// Finite numbers of every type.
std::vector<std::byte> make_payload() {
  std::vector<std::byte> ring(kRing);
  for (size_t i = 0; i < kRing; ++i) ring[i] = static_cast<std::byte>(0x30 + i * 7 % 16);
  return ring;
}

// Processor time of this thread in seconds: independent of other programs' load.
double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double run_once(const Kernel& kernel, const std::vector<std::byte>& ring,
                std::vector<std::byte>& target) {
  const size_t count = kPiece / std::max(kernel.element, kernel.stored);
  const size_t step = count * kernel.stored;
  size_t from = 0, bytes = 0;
  const double begin = processor_s();
  for (size_t at = 0; at + step <= target.size(); at += step) {
    kernel.run(&target[at], &ring[from], count);
    bytes += count * kernel.element;
    from += count * kernel.element;
    if (from + count * kernel.element > ring.size()) from = 0;
  }
  return static_cast<double>(bytes) / (processor_s() - begin);
}

}  // namespace

int measure_kernels() {
  std::vector<Kernel> kernels = all_kernels();
  const std::vector<std::byte> ring = make_payload();
  std::vector<std::byte> target(kTarget);
  for (int round = 0; round < kRounds; ++round)
    for (Kernel& kernel : kernels) {
      if (round == 0) std::memset(target.data(), 0, target.size());
      kernel.rates.push_back(run_once(kernel, ring, target));
    }
  const double copy = kernels[0].median();
  std::printf(
      "# one core, pieces of 8 KiB at most into 64 MiB; payload in 10^9 bytes per second of "
      "processor time\n");
  std::printf("%-28s %9s %9s\n", "kernel", "GB/s", "of copy");
  for (Kernel& kernel : kernels)
    std::printf("%-28s %9.2f %9.2f\n", kernel.name.c_str(), kernel.median() / 1e9,
                kernel.median() / copy);
  return 0;
}

}  // namespace weft::bench
