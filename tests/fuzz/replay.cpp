// SPDX-License-Identifier: BSD-3-Clause
// Replaces libFuzzer for compilers without it: feeds a fuzz target each file of a corpus
// directory once, then the empty input; or with --random COUNT [SEED] so many random inputs. A
// target that fails aborts.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

static uint64_t current_seed = 0;

// Inputs of up to 512 bytes.
static int run_random(uint64_t count, uint64_t seed) {
  std::signal(SIGABRT, [](int) {
    std::fprintf(stderr, "replay: --random 1 %llu\n",
                 static_cast<unsigned long long>(current_seed));
  });
  std::vector<uint8_t> bytes;
  for (uint64_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed + i);
    bytes.resize(random() % 512);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    current_seed = seed + i;
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("\n%llu random inputs\n", static_cast<unsigned long long>(count));
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--random")
    return run_random(std::strtoull(argv[2], nullptr, 10),
                      argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}());
  size_t count = 0;
  if (argc > 1 && std::filesystem::is_directory(argv[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s\n", entry.path().filename().c_str());
      std::fflush(stdout);  // the last line names the input that aborts
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      ++count;
    }
  }
  LLVMFuzzerTestOneInput(nullptr, 0);
  std::printf("%zu inputs replayed\n", count);
  return 0;
}
