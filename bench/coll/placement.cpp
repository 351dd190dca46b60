// SPDX-License-Identifier: BSD-3-Clause
// Ranks from the environment, or as children.
#include "bench/coll/placement.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace weft::bench {
namespace {

struct Launcher {
  const char* rank;
  const char* ranks;
  const char* job;  // names the job on one host
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "PMI_ID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"},
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// MASTER_PORT itself is torchrun's: the next one is ours.
std::string meeting_place(const CollOptions& options, const Launcher& launcher) {
  if (!options.store.empty()) return options.store;
  if (const std::string store = variable("WEFT_STORE"); !store.empty()) return store;
  const std::string host = variable("MASTER_ADDR"), port = variable("MASTER_PORT");
  if (!host.empty() && !port.empty())
    return "tcp:" + host + ":" + std::to_string(std::atoi(port.c_str()) + 1);
  std::string job = variable(launcher.job);
  if (job.empty() || std::string(launcher.job) == "PMI_ID") return "";
  if (std::string(launcher.job) == "SLURM_JOB_ID") {
    if (variable("SLURM_NNODES") != "1") return "";
    job += "-" + variable("SLURM_STEP_ID");
  }
  for (char& c : job)
    if (c == '/') c = '-';
  return "file:" + std::filesystem::temp_directory_path().string() + "/weft-" + job;
}

}  // namespace

Result<std::optional<Placement>> placement_from_environment(const CollOptions& options) {
  if (options.ranks) return std::optional<Placement>();
  for (const Launcher& launcher : kLaunchers) {
    const std::string rank = variable(launcher.rank), ranks = variable(launcher.ranks);
    if (rank.empty() || ranks.empty()) continue;
    Placement placement{static_cast<uint32_t>(std::atoi(rank.c_str())),
                        static_cast<uint32_t>(std::atoi(ranks.c_str())),
                        meeting_place(options, launcher)};
    if (placement.store.empty() && placement.ranks > 1)
      return Error{Code::invalid_argument,
                   std::string(launcher.rank) +
                       " is set, but not where the ranks meet: give all of them the same "
                       "--store tcp:HOST:PORT (rank 0 serves it), or a shared file:DIRECTORY"};
    return std::optional(placement);
  }
  return std::optional<Placement>();
}

int run_local_ranks(const CollOptions& options, const std::function<int(const Placement&)>& body) {
  const uint32_t ranks = options.ranks.value_or(2);
  std::string directory = std::filesystem::temp_directory_path().string() + "/weft-coll-XXXXXX";
  if (options.store.empty() && mkdtemp(directory.data()) == nullptr) {
    std::perror("weft_coll: cannot make a directory for the ranks to meet in");
    return 1;
  }
  const std::string store = options.store.empty() ? "file:" + directory : options.store;
  std::fflush(stdout);
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = body({rank, ranks, store});
      std::fflush(stdout);
      _exit(code);
    }
    if (child > 0) children.push_back(child);
  }
  int failed = children.size() == ranks ? 0 : 1;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed = 1;
  }
  if (options.store.empty()) std::filesystem::remove_all(directory);
  return failed;
}

}  // namespace weft::bench
