// SPDX-License-Identifier: BSD-3-Clause
// Latency and bandwidth from rank 0 to rank 1, and of an all-reduce of all ranks.
#include <algorithm>
#include <deque>

#include "tools/nccl_check/collectives.hpp"
#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A rank that yields often measures the scheduler.
constexpr uint32_t kYieldRarely = 1 << 14;

void complete(Rank& rank, Transfer transfer) {
  rank.wait_until(
      "a message is not done",
      [&] { return (transfer.request != nullptr || rank.post(transfer)) && rank.test(transfer); },
      kYieldRarely);
}

// Half a round trip, in microseconds: of blocks of 100, the lowest median. The receive of the reply
// is posted before the message.
double latency(Rank& rank, const Connections& c) {
  constexpr size_t kSize = 8, kBlock = 100;
  const int rounds = rank.settings().quick ? 200 : 4000;
  Buffer in(rank, c.receive, kSize), out(rank, c.send, kSize);
  const bool first = rank.number() == 0;
  std::vector<double> taken;
  double lowest = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    Transfer receive = receive_of(c.receive, in);
    rank.wait_until("irecv() gives no request", [&] { return rank.post(receive); });
    if (first) complete(rank, send_of(c.send, out, kSize));
    rank.wait_until(
        "a reply does not come", [&] { return rank.test(receive); }, kYieldRarely);
    if (!first) complete(rank, send_of(c.send, out, kSize));
    taken.push_back(seconds_since(start) / 2 * 1e6);
    if (taken.size() < kBlock) continue;
    std::nth_element(taken.begin(), taken.begin() + kBlock / 2, taken.end());
    lowest = std::min(lowest, taken[kBlock / 2]);
    taken.clear();
  }
  return lowest;
}

// In MB/s, with 8 messages in flight: the best of several rounds.
double bandwidth(Rank& rank, const Connections& c, size_t size) {
  const size_t count =
      std::max<size_t>(16, (size_t{rank.settings().quick ? 16u : 64u} << 20) / size);
  const bool sends = rank.number() == 0;
  Buffer buffer(rank, sends ? c.send : c.receive, 8 * size);
  const Transfer whole = sends ? send_of(c.send, buffer, size) : receive_of(c.receive, buffer);
  double best = 0;
  for (int round = rank.settings().quick ? 3 : 0; round < 4; ++round) {
    std::vector<Transfer> transfers;
    for (size_t i = 0; i < count; ++i) transfers.push_back(part_of(whole, i % 8 * size, size));
    rank.barrier();
    const Clock::time_point start = Clock::now();
    rank.run(transfers, 8);
    rank.barrier();
    best = std::max(best, static_cast<double>(count * size) / seconds_since(start) / 1e6);
  }
  return best;
}

}  // namespace

void measure(Rank& rank) {
  const Connections connections = rank.connect_ring();
  std::array<double, kMaxFigures>& figures = rank.record().figures;
  if (rank.ranks() == 2) {
    figures[0] = latency(rank, connections);
    size_t at = 1;
    for (const size_t size : {64 << 10, 1 << 20, 8 << 20})
      figures[at++] = bandwidth(rank, connections, static_cast<size_t>(size));
  }
  {
    const size_t words = (rank.settings().quick ? 1 << 20 : 8 << 20);
    Ring ring(rank, connections, words);
    for (int round = rank.settings().quick ? 3 : 0; round < 4; ++round) {
      rank.barrier();
      const Clock::time_point start = Clock::now();
      ring.all_reduce();
      rank.barrier();
      const double n = rank.ranks(), bytes = static_cast<double>(words * 8) * 2 * (n - 1) / n;
      figures[4] = std::max(figures[4], bytes / seconds_since(start) / 1e6);
    }
  }
  rank.close(connections);
}

}  // namespace weft::nccl_check
