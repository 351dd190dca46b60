// SPDX-License-Identifier: BSD-3-Clause
// A collective algorithm of your own (star.hpp): proven for small numbers of ranks, then run by
// four processes. lib/collective is used from the source tree: the installed libweft has no
// algorithms to add. link: collective
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/collective/plan/verify.hpp"
#include "star.hpp"
#include "weft/collective.hpp"

static constexpr uint32_t kRanks = 4;

static int fail(const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

// Every element of the result is the sum of all contributions, no step reads what is not written
// yet, and no schedule waits in a circle.
static weft::Result<void> prove() {
  for (uint32_t ranks = 1; ranks <= 9; ++ranks)
    for (const bool exact : {true, false}) {
      const weft::collective::Shape shape = {.ranks = ranks, .count = 100, .exact = exact};
      auto proven =
          weft::collective::verify(shape, weft::collective::programs_of(star::kAlgorithm, shape));
      if (!proven) return proven;
    }
  return {};
}

static int run_rank(uint32_t rank, const std::string& directory) {
  auto store = weft::Store::open("file:" + directory, rank == 0);
  if (!store) return fail(store.error());
  auto group = weft::Communicator::create(**store, rank, kRanks);
  if (!group) return fail(group.error());
  std::vector<float> mine(100'000, static_cast<float>(rank + 1)), total(mine.size());
  auto sum = group->all_reduce(mine.data(), total.data(), mine.size(), weft::DataType::fp32,
                               weft::ReduceOp::sum, {.algorithm = "star"});
  if (auto done = sum.wait(); !done) return fail(done.error());
  if (rank == 0)
    std::printf("1 + 2 + 3 + 4 = %g, 100000 times, by %s\n", static_cast<double>(total.back()),
                std::string(sum.algorithm()).c_str());
  return total.front() == 10 && total.back() == 10 && sum.algorithm() == "star" ? 0 : 1;
}

int main() {
  if (auto proven = prove(); !proven) return fail(proven.error());
  // Before the first communicator, in every process.
  if (auto added = weft::collective::add_algorithm(star::kAlgorithm); !added)
    return fail(added.error());
  const char* const place = std::getenv("TMPDIR");
  std::string directory = std::string(place != nullptr ? place : "/tmp") + "/weft-star-XXXXXX";
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
