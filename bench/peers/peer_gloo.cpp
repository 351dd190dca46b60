// SPDX-License-Identifier: BSD-3-Clause
// Gloo's all-reduce over TCP on the loopback as weft_coll measures its own: fp32, sum, the slowest
// rank of each call counts. bench/peers/coll_peers.py compiles it and mpirun starts it, for the
// ranks' numbers alone; no part of weft is in it.
//     peer_gloo BYTES CALLS DIRECTORY ring|bcube|halving
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

using Group = std::shared_ptr<gloo::rendezvous::Context>;

static double cpu_us() { return static_cast<double>(std::clock()) * 1e6 / CLOCKS_PER_SEC; }

static Group meet(const std::string& directory) {
  const int rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  const int ranks = std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
  gloo::transport::tcp::attr where;
  where.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(directory);
  auto group = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  group->connectFullMesh(store, device);
  return group;
}

template <class T>
static void all_reduce(const Group& group, std::vector<T>& in, std::vector<T>& out,
                       gloo::AllreduceOptions::Algorithm algorithm,
                       void (*reduce)(void*, const void*, const void*, size_t)) {
  gloo::AllreduceOptions options(group);
  options.setAlgorithm(algorithm);
  options.setInput(in.data(), in.size());
  options.setOutput(out.data(), out.size());
  options.setReduceFunction(reduce);
  gloo::allreduce(options);
}

static void barrier(const Group& group) {
  gloo::BarrierOptions options(group);
  gloo::barrier(options);
}

// One call of the algorithm; the one of the old interface works in place and keeps its buffers.
static std::function<void()> call_of(const std::string& algorithm, const Group& group,
                                     std::vector<float>& in, std::vector<float>& out) {
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  if (algorithm == "halving") {
    auto kept = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
        group, std::vector<float*>{out.data()}, static_cast<int>(out.size()));
    return [kept] { kept->run(); };
  }
  const Algorithm which = algorithm == "bcube" ? Algorithm::BCUBE : Algorithm::RING;
  return [&, group, which] { all_reduce(group, in, out, which, &gloo::sum<float>); };
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const size_t count = std::strtoull(argv[1], nullptr, 10) / sizeof(float);
  const size_t calls = std::strtoull(argv[2], nullptr, 10), warmup = calls / 10 + 5;
  const Group group = meet(argv[3]);
  std::vector<float> in(count), out(count);
  const std::function<void()> call = call_of(argv[4], group, in, out);
  std::vector<double> times(calls);
  double cpu = 0;
  for (size_t i = 0; i < warmup + calls; ++i) {
    if (i == warmup) barrier(group);
    if (i == warmup) cpu = cpu_us();
    const auto begin = std::chrono::steady_clock::now();
    call();
    if (i >= warmup)
      times[i - warmup] =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count();
  }
  std::vector<double> used{(cpu_us() - cpu) / static_cast<double>(calls)}, all_used(1);
  std::vector<double> slowest(calls);
  all_reduce(group, times, slowest, gloo::AllreduceOptions::Algorithm::RING, &gloo::max<double>);
  all_reduce(group, used, all_used, gloo::AllreduceOptions::Algorithm::RING, &gloo::sum<double>);
  std::sort(slowest.begin(), slowest.end());
  if (group->rank == 0)
    std::printf("{\"ranks\": %d, \"p50_us\": %.3f, \"p99_us\": %.3f, \"cpu_us\": %.3f}\n",
                group->size, slowest[calls / 2], slowest[(calls * 99 + 99) / 100 - 1],
                all_used[0] / group->size);
  return 0;
}
