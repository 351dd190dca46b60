// SPDX-License-Identifier: BSD-3-Clause
// Four processes add up their numbers. They meet in a directory, reach each other over WEFT_DEVICE,
// and compute something else while the sum is in progress.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "weft/collective.hpp"

static constexpr uint32_t kRanks = 4;

static int fail(const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

static int run_rank(uint32_t rank, const std::string& directory) {
  auto store = weft::Store::open("file:" + directory, rank == 0);
  if (!store) return fail(store.error());
  auto group = weft::Communicator::create(**store, rank, kRanks);
  if (!group) return fail(group.error());

  std::vector<float> mine(100'000, static_cast<float>(rank + 1)), total(mine.size());
  weft::Operation sum =
      group->all_reduce(mine.data(), total.data(), mine.size(), weft::DataType::fp32);
  const double elsewhere = static_cast<double>(mine.size()) * (rank + 1);  // meanwhile
  if (auto done = sum.wait(); !done) return fail(done.error());

  if (rank == 0)
    std::printf("1 + 2 + 3 + 4 = %g, 100000 times, by %s\n", static_cast<double>(total.back()),
                std::string(sum.algorithm()).c_str());
  return total.front() == 10 && total.back() == 10 && elsewhere > 0 ? 0 : 1;
}

int main() {
  const char* const place = std::getenv("TMPDIR");
  std::string directory = std::string(place != nullptr ? place : "/tmp") + "/weft-hello-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return std::perror(directory.c_str()), 1;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    if (fork() == 0) return run_rank(rank, directory);
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    std::remove((directory + "/0%2F" + std::to_string(rank)).c_str());
  rmdir(directory.c_str());
  return failed != 0;
}
