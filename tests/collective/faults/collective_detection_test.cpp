// SPDX-License-Identifier: BSD-3-Clause
// Failure detection times with default options: a stopped rank is silent, a killed one has its
// connections closed. Times are printed and not checked, since they depend on the load; on an
// oversubscribed machine a live rank may get no processor for longer than the dead peer timeout:
// then the others name that rank, and the try does not count. WEFT_TEST_TRIES=N prints medians of N
// tries.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kRanks = 3, kVictim = 2;
constexpr uint64_t kCallsBefore = 20;

int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// The state of a rank, in memory shared by the processes.
struct Told {
  std::atomic<uint64_t> calls{0};
  std::atomic<int64_t> failed_ns{0};  // once it has returned from wait(); what follows is set then
  Code code = Code::ok;
  uint32_t rank = 0;
  uint64_t sequence = 0;
  Collective collective = Collective::barrier;
  char text[256] = {};
};
using Board = std::array<Told, kRanks>;

struct Unmap {
  void operator()(Board* board) const { munmap(board, sizeof(Board)); }
};

std::unique_ptr<Board, Unmap> make_board() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return std::unique_ptr<Board, Unmap>(new (memory) Board);
}

// Calls until one fails.
void be_rank(uint32_t rank, const std::string& directory, const std::string& device, Told& told) {
  const auto store = std::move(*Store::open("file:" + directory, false));
  Result<Communicator> group = Communicator::create(*store, rank, kRanks, {.device = device});
  std::vector<float> data(64 * 1024);
  Result<void> done = group ? Result<void>() : Result<void>(group.error());
  for (; done; ++told.calls)
    done = group->all_reduce(data.data(), data.data(), data.size(), DataType::fp32).wait();
  const int64_t time = now_ns();
  told.code = done.error().code;
  std::snprintf(told.text, sizeof told.text, "%s", done.error().message.c_str());
  if (const std::optional<Failure> failure = group ? group->failure() : std::nullopt) {
    told.rank = failure->rank;
    told.sequence = failure->sequence;
    told.collective = failure->collective;
  }
  told.failed_ns = time;
}

// Empty, or why a survivor's error is wrong.
std::string invalid_reason(const Told& told) {
  if (told.failed_ns == 0) return "it had no error after a minute";
  const std::string text = told.text;
  const bool right =
      told.code == Code::peer_failed && told.rank == kVictim &&
      told.collective == Collective::all_reduce && told.sequence >= kCallsBefore &&
      contains(text, "PEER_FAILED: rank " + std::to_string(kVictim) +
                         " failed during all_reduce #" + std::to_string(told.sequence));
  return right ? "" : text;
}

struct Try {
  double ms = 0;         // from the signal until the last survivor is told
  bool spoiled = false;  // a survivor starved, and another one named it
  std::string wrong;
};

Try detect(const std::string& device, int signal) {
  char directory[] = "/tmp/weft-ranks-XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  const std::unique_ptr<Board, Unmap> board = make_board();
  std::array<pid_t, kRanks> ranks{};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks[rank] = fork();
    REQUIRE(ranks[rank] >= 0);
    if (ranks[rank] != 0) continue;
    alarm(60);  // a hang fails the test
    be_rank(rank, directory, device, (*board)[rank]);
    _exit(0);
  }
  const auto is_ready = [](const Told& told) {
    return told.calls >= kCallsBefore || told.failed_ns != 0;
  };
  for (int ms = 0; ms < 60'000 && !std::all_of(board->begin(), board->end(), is_ready); ++ms)
    usleep(1000);
  const int64_t begin = now_ns();
  kill(ranks[kVictim], signal);
  Try outcome;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if (rank == kVictim) continue;
    int status = 0;
    waitpid(ranks[rank], &status, 0);
    const Told& told = (*board)[rank];
    if (std::string wrong = invalid_reason(told); !wrong.empty())
      outcome.wrong += "rank " + std::to_string(rank) + ": " + wrong + "; ";
    outcome.spoiled |=
        told.failed_ns != 0 && told.code == Code::peer_failed && told.rank != kVictim;
    outcome.ms =
        std::max(outcome.ms, static_cast<double>(told.failed_ns.load() - begin) / 1'000'000);
  }
  kill(ranks[kVictim], SIGKILL);
  waitpid(ranks[kVictim], nullptr, 0);
  std::filesystem::remove_all(directory);
  return outcome;
}

void measure(const std::string& transport, const std::function<std::string()>& device, int signal) {
  const char* const wanted = std::getenv("WEFT_TEST_TRIES");
  const int tries = wanted != nullptr ? std::atoi(wanted) : 1;
  constexpr int kSpoiled = 5;  // by the machine
  std::vector<double> times;
  std::string wrong;
  for (int i = 0; i < tries + kSpoiled && static_cast<int>(times.size()) < tries; ++i) {
    const Try outcome = detect(device(), signal);
    wrong = outcome.wrong;
    if (wrong.empty()) times.push_back(outcome.ms);
    if (!wrong.empty() && !outcome.spoiled) break;
  }
  const char* const what = signal == SIGSTOP ? "stopped" : "killed";
  INFO(transport << ", " << what);
  CHECK(static_cast<int>(times.size()) == tries);
  CHECK(wrong == "");
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  std::printf(
      "%-12s a rank is %s: the last of %u survivors knows after %.1f ms (%.1f to %.1f in "
      "%zu tries)\n",
      transport.c_str(), what, kRanks - 1, times[(times.size() - 1) / 2], times.front(),
      times.back(), times.size());
}

TEST_CASE("every survivor detects a stopped rank and a killed rank") {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    measure(
        "roce+shm", [] { return shm_device("roce"); }, signal);
    measure(
        "roce+udp:lo", [] { return std::string("roce+udp:lo"); }, signal);
    measure(
        "srd+udp:lo", [] { return std::string("srd+udp:lo"); }, signal);
  }
}

}  // namespace
}  // namespace weft::test
