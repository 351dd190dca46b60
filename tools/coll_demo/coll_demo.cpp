// SPDX-License-Identifier: BSD-3-Clause
// Demonstrates how collectives handle faults, with processes of this machine: four ranks all-reduce
// bf16 over two networks; one network is cut, and no rank gets an error; one rank is killed, and
// the others report it, shrink the group and continue over the remaining network. Every sum is
// compared, element by element. `weft_coll_demo first` cuts the network over which the ranks
// bootstrapped. The networks are addresses in a network namespace of this program: needs no root
// where users may create namespaces.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "bench/perftest/command_line.hpp"
#include "weft/collective.hpp"

namespace {

constexpr uint32_t kRanks = 4, kKilled = 2;
constexpr size_t kElements = 64 * 1024;  // 128 KiB
constexpr uint32_t kRounds = 20;         // per phase
constexpr int kPhaseTimeoutS = 120;      // timeout per phase
const std::string kNetworks[] = {"10.31.0.", "10.32.0."};

// Progress of a rank, for the parent process.
struct Progress {
  std::atomic<uint32_t> rounds{0};  // verified
  std::atomic<uint32_t> fewer{0};   // of these, after the shrink
};
Progress* progress = nullptr;  // per rank, in shared memory

// ---- a rank ----

uint16_t bf16(uint32_t small) {  // up to 256, exactly
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(small)) >> 16);
}

uint32_t contribution(uint32_t rank, size_t i, uint32_t round) {
  return (rank + 1) * static_cast<uint32_t>((i + round) % 16);
}

// Runs and checks one all_reduce of these ranks. Returns "" or the error.
std::string sum_up(weft::Communicator& group, uint32_t self, const std::vector<uint32_t>& ranks,
                   uint32_t round) {
  std::vector<uint16_t> mine(kElements), sums(kElements);
  for (size_t i = 0; i < kElements; ++i) mine[i] = bf16(contribution(self, i, round));
  weft::Operation call =
      group.all_reduce(mine.data(), sums.data(), kElements, weft::DataType::bf16);
  if (const weft::Result<void> done = call.wait(); !done) return done.error().message;
  for (size_t i = 0; i < kElements; ++i) {
    uint32_t sum = 0;
    for (const uint32_t rank : ranks) sum += contribution(rank, i, round);
    if (sums[i] != bf16(sum)) return "element " + std::to_string(i) + " is wrong";
  }
  return "";
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

int complain(uint32_t rank, const std::string& text) {
  std::printf("  rank %u: %s\n", rank, text.c_str());
  std::fflush(stdout);
  return 1;
}

int run_rank(uint32_t rank, const std::string& folder) {
  const std::string host = std::to_string(rank + 1);
  weft::CommunicatorOptions options;
  options.device = "srd+udp:" + kNetworks[0] + host + ",rails=" + kNetworks[1] + host;
  options.patience = weft::Duration::from_s(2);  // tolerates a loaded machine
  const auto store = weft::Store::open("file:" + folder, rank == 0);
  if (!store) return complain(rank, store.error().message);
  weft::Result<weft::Communicator> group =
      weft::Communicator::create(**store, rank, kRanks, options);
  if (!group) return complain(rank, group.error().message);

  std::string failed;
  for (uint32_t round = 0; failed.empty(); ++round) {
    failed = sum_up(*group, rank, {0, 1, 2, 3}, round);
    if (failed.empty()) ++progress[rank].rounds;
  }
  (void)complain(rank, failed);
  if (!group->failure()) return 1;  // a sum was wrong

  weft::Result<weft::Communicator> fewer = group->shrink(**store);
  if (!fewer) return complain(rank, fewer.error().message);
  const std::vector<uint32_t> left(fewer->origins().begin(), fewer->origins().end());
  if (fewer->rank() == 0) say("shrink: a group of " + std::to_string(fewer->size()) + " ranks");
  for (uint32_t round = 0; round < kRounds; ++round) {
    if (const std::string wrong = sum_up(*fewer, rank, left, round); !wrong.empty())
      return complain(rank, wrong);
    ++progress[rank].fewer;
  }
  return 0;
}

// ---- the parent: starts ranks, cuts a network, kills a rank ----

bool write_file(const char* name, const std::string& text) {
  const int file = open(name, O_WRONLY);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

bool change_network(const std::string& network, const std::string& verb) {
  bool all = true;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    all &= run("ip addr " + verb + " " + network + std::to_string(rank + 1) + "/32 dev lo");
  return all;
}

// Creates a network namespace with an address for each rank in each network.
bool make_networks() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  const bool root = geteuid() == 0;
  if (unshare(CLONE_NEWNET | (root ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (!root && (!write_file("/proc/self/setgroups", "deny") ||
                !write_file("/proc/self/uid_map", "0 " + user + " 1") ||
                !write_file("/proc/self/gid_map", "0 " + group + " 1")))
    return false;
  bool made = run("ip link set lo up");
  for (const std::string& network : kNetworks) made &= change_network(network, "add");
  return made;
}

// Waits until every live rank has verified `kRounds` more rounds.
bool wait_for(uint32_t more, std::atomic<uint32_t> Progress::*counted, uint32_t without) {
  uint32_t from[kRanks];
  for (uint32_t rank = 0; rank < kRanks; ++rank) from[rank] = progress[rank].*counted;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPhaseTimeoutS);
  while (std::chrono::steady_clock::now() < end) {
    bool all = true;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      all &= rank == without || progress[rank].*counted >= from[rank] + more;
    if (all) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string done;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    done += (rank == 0 ? "" : ", ") + std::to_string(progress[rank].*counted - from[rank]);
  say("timeout: after " + std::to_string(kPhaseTimeoutS) + " s ranks have verified " + done +
      " rounds");
  return false;
}

bool show(const std::vector<pid_t>& ranks, const std::string& network) {
  const std::string rounds = std::to_string(kRounds);
  if (!wait_for(kRounds, &Progress::rounds, kRanks)) return false;
  say(rounds + " rounds verified: all_reduce of 128 KiB bf16, 4 ranks, 2 networks");
  if (!change_network(network, "del")) return false;
  say("network " + network + "0 is cut");
  if (!wait_for(kRounds, &Progress::rounds, kRanks)) return false;
  say(rounds + " more rounds verified, no rank has got an error");
  kill(ranks[kKilled], SIGKILL);
  say("rank 2 is killed");
  bool well = true;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    waitpid(ranks[rank], &status, 0);
    if (rank != kKilled) well &= status == 0 && progress[rank].fewer == kRounds;
  }
  say(well ? rounds + " rounds verified by the 3 remaining ranks"
           : "the other ranks did not continue");
  return well;
}

}  // namespace

int main(int argc, char** argv) {
  std::string network = "second";
  CLI::App app("weft_coll_demo: four ranks lose a network, then a rank, and continue.");
  app.option_defaults()->always_capture_default();
  app.add_option("network", network,
                 "Network to cut: first (over which the ranks bootstrapped) or second")
      ->check(CLI::IsMember({"first", "second"}));
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  const bool first = network == "first";
  std::string folder = std::filesystem::temp_directory_path() / "weft-demo-XXXXXX";
  if (!make_networks()) {
    say("SKIPPED: needs root or permission to create network namespaces, and the program ip");
    return 0;
  }
  void* const shared = mmap(nullptr, kRanks * sizeof(Progress), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  progress = new (shared) Progress[kRanks];
  std::vector<pid_t> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(3 * kPhaseTimeoutS);
      const int result = run_rank(rank, folder);
      std::fflush(stdout);
      _exit(result);
    }
  }
  const bool well = show(ranks, kNetworks[first ? 0 : 1]);
  std::filesystem::remove_all(folder);
  return well ? 0 : 1;
}
