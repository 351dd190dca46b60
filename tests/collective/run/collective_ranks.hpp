// SPDX-License-Identifier: BSD-3-Clause
// Ranks as threads of the test, each with its own device and communicator, and elements of any type
// with small values, so that results can be computed with plain arithmetic.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/collective/arithmetic/float16.hpp"
#include "lib/collective/arithmetic/float8.hpp"
#include "tests/support/catch.hpp"
#include "weft/collective.hpp"

namespace weft::test {

// WEFT_TEST_PROVIDER=srd runs all of these tests over the other transport.
inline std::string default_provider() {
  const char* const provider = std::getenv("WEFT_TEST_PROVIDER");
  return provider != nullptr ? provider : "roce";
}

// A unique device string for each test.
inline std::string shm_device(const std::string& provider = default_provider()) {
  static std::atomic<int> number{0};
  return provider + "+shm:coll-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

// On an oversubscribed machine a rank may get no processor for longer than the default dead peer
// timeout.
inline CommunicatorOptions patient(CommunicatorOptions options) {
  if (options.patience == CommunicatorOptions().patience) options.patience = Duration::from_s(2);
  return options;
}

// Runs `body` on `count` ranks. It returns "" or why the test fails.
inline std::vector<std::string> run_ranks(uint32_t count, const CommunicatorOptions& options,
                                          const std::function<std::string(Communicator&)>& body) {
  char directory[] = "/tmp/weft-ranks-XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  std::vector<std::string> complaints(count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      const auto store = std::move(*Store::open(std::string("file:") + directory, false));
      Result<Communicator> communicator =
          Communicator::create(*store, rank, count, patient(options));
      complaints[rank] = communicator ? body(*communicator) : communicator.error().message;
    });
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(directory);
  return complaints;
}

inline void check_ranks(uint32_t count, const CommunicatorOptions& options,
                        const std::function<std::string(Communicator&)>& body) {
  const std::vector<std::string> complaints = run_ranks(count, options, body);
  for (uint32_t rank = 0; rank < count; ++rank)
    if (!complaints[rank].empty()) FAIL_CHECK("rank " << rank << ": " << complaints[rank]);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Runs `body` on ranks that are processes; it returns "" or why the test fails. Entry r of the
// result is "killed" or what rank r returned.
inline std::vector<std::string> run_processes(
    uint32_t count, const CommunicatorOptions& options,
    const std::function<std::string(Communicator&, Store&)>& body) {
  char directory[] = "/tmp/weft-ranks-XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    children.push_back(child);
    if (child != 0) continue;
    alarm(60);  // a hang fails the test
    const auto store = std::move(*Store::open(std::string("file:") + directory, false));
    std::string complaint;
    {
      Result<Communicator> group = Communicator::create(*store, rank, count, patient(options));
      complaint = group ? body(*group, *store) : group.error().message;
    }
    (void)store->set("complaint" + std::to_string(rank), complaint);
    _exit(0);
  }
  const auto store = std::move(*Store::open(std::string("file:") + directory, false));
  std::vector<std::string> complaints;
  for (uint32_t rank = 0; rank < count; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    complaints.push_back(WIFSIGNALED(status) ? "killed by " + std::to_string(WTERMSIG(status))
                                             : *store->get("complaint" + std::to_string(rank),
                                                           Duration::from_ms(1)));
  }
  std::filesystem::remove_all(directory);
  return complaints;
}

template <class T>
void store_as(std::byte* at, double value) {
  const T typed = static_cast<T>(value);
  std::memcpy(at, &typed, sizeof typed);
}
template <class T>
double load_as(const std::byte* at) {
  T typed;
  std::memcpy(&typed, at, sizeof typed);
  return static_cast<double>(typed);
}

template <class F>
void store_code(std::byte* at, double value) {
  const F code = collective::narrow8<F>(static_cast<float>(value));
  std::memcpy(at, &code, sizeof code);
}
// A block that holds one value 32 times.
template <class F>
void store_block(std::byte* at, double value) {
  float values[collective::MxBlock<F>::kValues];
  for (float& each : values) each = static_cast<float>(value);
  collective::MxBlock<F> block;
  collective::narrow_block(values, block);
  std::memcpy(at, &block, sizeof block);
}
template <class F>
double load_code(const std::byte* at) {
  F code;
  std::memcpy(&code, at, sizeof code);
  return collective::widen8(code);
}
template <class F>
double load_block(const std::byte* at) {
  collective::MxBlock<F> block;
  float values[collective::MxBlock<F>::kValues];
  std::memcpy(&block, at, sizeof block);
  collective::widen_block(block, values);
  return values[0];
}

inline constexpr size_t kWidest = 33;  // bytes of an element

inline void encode(DataType type, std::byte* at, double value) {
  switch (type) {
    case DataType::uint8:
      return store_as<uint8_t>(at, value);
    case DataType::int8:
      return store_as<int8_t>(at, value);
    case DataType::uint16:
      return store_as<uint16_t>(at, value);
    case DataType::int16:
      return store_as<int16_t>(at, value);
    case DataType::uint32:
      return store_as<uint32_t>(at, value);
    case DataType::int32:
      return store_as<int32_t>(at, value);
    case DataType::uint64:
      return store_as<uint64_t>(at, value);
    case DataType::int64:
      return store_as<int64_t>(at, value);
    case DataType::fp16: {
      const collective::Fp16 half = collective::narrow_to_fp16(static_cast<float>(value));
      std::memcpy(at, &half, sizeof half);
      return;
    }
    case DataType::bf16: {
      const collective::Bf16 brain = collective::narrow_to_bf16(static_cast<float>(value));
      std::memcpy(at, &brain, sizeof brain);
      return;
    }
    case DataType::fp32:
      return store_as<float>(at, value);
    case DataType::fp64:
      return store_as<double>(at, value);
    case DataType::fp8_e4m3:
      return store_code<collective::E4m3>(at, value);
    case DataType::fp8_e5m2:
      return store_code<collective::E5m2>(at, value);
    case DataType::mxfp8_e4m3:
      return store_block<collective::E4m3>(at, value);
    case DataType::mxfp8_e5m2:
      return store_block<collective::E5m2>(at, value);
  }
}

inline double decode(DataType type, const std::byte* at) {
  collective::Fp16 half;
  collective::Bf16 brain;
  switch (type) {
    case DataType::uint8:
      return load_as<uint8_t>(at);
    case DataType::int8:
      return load_as<int8_t>(at);
    case DataType::uint16:
      return load_as<uint16_t>(at);
    case DataType::int16:
      return load_as<int16_t>(at);
    case DataType::uint32:
      return load_as<uint32_t>(at);
    case DataType::int32:
      return load_as<int32_t>(at);
    case DataType::uint64:
      return load_as<uint64_t>(at);
    case DataType::int64:
      return load_as<int64_t>(at);
    case DataType::fp16:
      std::memcpy(&half, at, sizeof half);
      return collective::widen(half);
    case DataType::bf16:
      std::memcpy(&brain, at, sizeof brain);
      return collective::widen(brain);
    case DataType::fp32:
      return load_as<float>(at);
    case DataType::fp8_e4m3:
      return load_code<collective::E4m3>(at);
    case DataType::fp8_e5m2:
      return load_code<collective::E5m2>(at);
    case DataType::mxfp8_e4m3:
      return load_block<collective::E4m3>(at);
    case DataType::mxfp8_e5m2:
      return load_block<collective::E5m2>(at);
    default:
      return load_as<double>(at);
  }
}

}  // namespace weft::test
