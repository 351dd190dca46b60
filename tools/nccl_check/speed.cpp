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

void complete(Rank& rank, Transfer transfer) {
  rank.wait_until("a message is not done", [&] {
    return (transfer.request != nullptr || rank.post(transfer)) && rank.test(transfer);
  });
}

// Half a round trip, in microseconds. The receive of the reply is posted before the message.
double latency(Rank& rank, const Connections& c) {
  constexpr size_t kSize = 8;
  const int rounds = rank.settings().quick ? 200 : 2000;
  Buffer in(rank, c.receive, kSize), out(rank, c.send, kSize);
  const bool first = rank.number() == 0;
  Clock::time_point start;
  for (int i = -rounds / 10; i < rounds; ++i) {
    if (i == 0) start = Clock::now();
    Transfer receive = receive_of(c.receive, in);
    rank.wait_until("irecv() gives no request", [&] { return rank.post(receive); });
    if (first) complete(rank, send_of(c.send, out, kSize));
    rank.wait_until("a reply does not come", [&] { return rank.test(receive); });
    if (!first) complete(rank, send_of(c.send, out, kSize));
  }
  return seconds_since(start) / rounds / 2 * 1e6;
}

// In MB/s, with 8 messages in flight.
double bandwidth(Rank& rank, const Connections& c, size_t size) {
  const size_t bytes = rank.settings().quick ? 16 << 20 : 256 << 20;
  const size_t count = std::max<size_t>(16, bytes / size);
  const bool sends = rank.number() == 0;
  Buffer buffer(rank, sends ? c.send : c.receive, 8 * size);
  const Transfer whole = sends ? send_of(c.send, buffer, size) : receive_of(c.receive, buffer);
  std::vector<Transfer> transfers;
  for (size_t i = 0; i < count; ++i) transfers.push_back(part_of(whole, i % 8 * size, size));
  rank.barrier();
  const Clock::time_point start = Clock::now();
  rank.run(transfers, 8);
  rank.barrier();
  return static_cast<double>(count * size) / seconds_since(start) / 1e6;
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
    ring.all_reduce();
    rank.barrier();
    const Clock::time_point start = Clock::now();
    ring.all_reduce();
    rank.barrier();
    const double n = rank.ranks();
    figures[4] = static_cast<double>(words * 8) * 2 * (n - 1) / n / seconds_since(start) / 1e6;
  }
  rank.close(connections);
}

}  // namespace weft::nccl_check
