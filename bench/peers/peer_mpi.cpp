// SPDX-License-Identifier: BSD-3-Clause
// MPI_Allreduce as weft_coll measures its own: fp32, sum, the slowest rank of each call counts.
// bench/peers/coll_peers.py compiles and runs it; no part of weft is in it.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

static double cpu_us() { return static_cast<double>(std::clock()) * 1e6 / CLOCKS_PER_SEC; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) return 2;
  const int count = static_cast<int>(std::strtoull(argv[1], nullptr, 10) / sizeof(float));
  const int calls = std::atoi(argv[2]), warmup = std::atoi(argv[3]);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<float> in(static_cast<size_t>(count)), out(in.size());
  std::vector<double> times(static_cast<size_t>(calls));
  double cpu = 0;
  for (int i = 0; i < warmup + calls; ++i) {
    if (i == warmup) MPI_Barrier(MPI_COMM_WORLD);
    if (i == warmup) cpu = cpu_us();
    const double begin = MPI_Wtime();
    MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (i >= warmup) times[static_cast<size_t>(i - warmup)] = (MPI_Wtime() - begin) * 1e6;
  }
  cpu = (cpu_us() - cpu) / calls;
  MPI_Allreduce(MPI_IN_PLACE, &cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, times.data(), calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  std::sort(times.begin(), times.end());
  if (rank == 0)
    std::printf("{\"ranks\": %d, \"p50_us\": %.3f, \"p99_us\": %.3f, \"cpu_us\": %.3f}\n", ranks,
                times[times.size() / 2], times[(times.size() * 99 + 99) / 100 - 1], cpu / ranks);
  MPI_Finalize();
  return 0;
}
