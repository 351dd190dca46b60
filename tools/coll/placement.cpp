// SPDX-License-Identifier: BSD-3-Clause
// Ranks from the environment, or as child processes.
#include "tools/coll/placement.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/perftest/command_line.hpp"
#include "lib/crypto/secret.hpp"

namespace weft::bench {
namespace {

struct Launcher {
  const char* rank;
  const char* ranks;
  const char* local;  // ranks on this host; Slurm: hosts of the job
  const char* job;    // job identifier; nullptr: none
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_JOB_ID"},
};

constexpr uint32_t kMostLocalRanks = 256;

std::string variable(const char* name) {
  const char* const value = name != nullptr ? std::getenv(name) : nullptr;
  return value != nullptr ? value : "";
}

bool is_slurm(const Launcher& launcher) { return launcher.rank[0] == 'S'; }

bool is_on_one_host(const Launcher& launcher) {
  return variable(launcher.local) == (is_slurm(launcher) ? "1" : variable(launcher.ranks));
}

// torchrun uses MASTER_PORT itself, so the store gets the next port.
std::string store_next_to_master() {
  std::string host = variable("MASTER_ADDR");
  const std::string port = variable("MASTER_PORT");
  if (host.empty() || port.empty()) return "";
  if (host.find(':') != std::string::npos && host.front() != '[') host = "[" + host + "]";
  return "tcp:" + host + ":" + std::to_string(std::atoi(port.c_str()) + 1);
}

// A directory for the job's store; empty if the ranks may be on several hosts or the job has no
// name.
std::string job_directory(const Launcher& launcher) {
  std::string job = variable(launcher.job);
  if (job.empty() || !is_on_one_host(launcher)) return "";
  if (is_slurm(launcher)) job += "-" + variable("SLURM_STEP_ID");
  for (char& c : job)
    if (c == '/') c = '-';
  return std::filesystem::temp_directory_path().string() + "/weft-" + job;
}

Placement place(const CollOptions& options, const Launcher& launcher) {
  Placement placement{static_cast<uint32_t>(std::atoi(variable(launcher.rank).c_str())),
                      static_cast<uint32_t>(std::atoi(variable(launcher.ranks).c_str())),
                      options.store,
                      {}};
  if (placement.store.empty()) placement.store = variable("WEFT_STORE");
  if (placement.store.empty()) placement.store = store_next_to_master();
  if (!placement.store.empty()) return placement;
  placement.directory = job_directory(launcher);
  if (!placement.directory.empty()) placement.store = "file:" + placement.directory;
  return placement;
}

}  // namespace

Result<std::optional<Placement>> placement_from_environment(const CollOptions& options) {
  if (options.ranks) return std::optional<Placement>();
  for (const Launcher& launcher : kLaunchers) {
    const std::string rank = variable(launcher.rank), ranks = variable(launcher.ranks);
    if (rank.empty() || ranks.empty()) continue;
    const Placement placement = place(options, launcher);
    if (placement.store.empty() && placement.ranks > 1)
      return Error{
          Code::invalid_argument,
          std::string(launcher.rank) + " is set, but no store where the ranks meet" +
              (is_on_one_host(launcher) ? "" : ", and the ranks may be on several hosts") +
              ": give all ranks the same --store tcp:HOST:PORT (HOST: rank 0's, which serves "
              "it), or --store file:DIRECTORY on a shared file system"};
    return std::optional(placement);
  }
  return std::optional<Placement>();
}

int run_rank(const Placement& placement, const std::function<int(const Placement&)>& body) {
  const int code = body(placement);
  std::error_code not_there;
  if (!placement.directory.empty()) std::filesystem::remove_all(placement.directory, not_there);
  return code;
}

int run_local_ranks(const CollOptions& options, const std::function<int(const Placement&)>& body) {
  const uint32_t ranks = options.ranks.value_or(2);
  if (ranks < 1 || ranks > kMostLocalRanks) {
    std::fprintf(stderr,
                 "weft_coll: --ranks %u: it starts 1 to %u processes on this host; start more by "
                 "mpirun, srun or torchrun, and leave --ranks out\n",
                 ranks, kMostLocalRanks);
    return kWrongOptions;
  }
  for (const std::optional<uint32_t> rank : {options.faults.kill, options.faults.late})
    if (rank && *rank >= ranks) {
      std::fprintf(stderr, "weft_coll: --kill, --late: there is no rank %u of %u\n", *rank, ranks);
      return kWrongOptions;
    }
  std::string directory = std::filesystem::temp_directory_path().string() + "/weft-coll-XXXXXX";
  if (options.store.empty() && mkdtemp(directory.data()) == nullptr) {
    std::perror("weft_coll: cannot create a directory for the store");
    return 1;
  }
  const std::string store = options.store.empty() ? "file:" + directory : options.store;
  const Security& security = options.communicator.security;
  if (security.secret.empty() && !security.insecure)
    if (const Result<void> made = crypto::hand_down_secret(); !made) {
      std::fprintf(stderr, "weft_coll: %s\n", made.error().message.c_str());
      return 1;
    }
  std::fflush(stdout);
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = body({rank, ranks, store, {}});
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
