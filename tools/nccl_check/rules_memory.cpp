// SPDX-License-Identifier: BSD-3-Clause
// Rules about registered memory, and about what NCCL may ask for besides sends and receives.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {

void check_registration(Rank& rank) {
  constexpr size_t kArea = 1 << 20;
  const Connections connections = rank.connect_ring();
  std::vector<std::byte> area(kArea);
  std::vector<void*> kept;
  for (int i = 0; i < (rank.settings().quick ? 200 : 1000); ++i) {
    const size_t size = rank.random_size(1, kArea / 2);
    std::byte* const data = area.data() + rank.random()() % (kArea - size);
    void* const comm = i % 2 ? connections.send : connections.receive;
    void* const memory = rank.net().register_memory(comm, data, size);
    if (i % 8 == 0)
      kept.push_back(memory);  // overlaps others
    else
      rank.net().deregister(comm, memory);
  }
  for (void* const each : kept) rank.net().deregister(connections.receive, each);
  {
    Buffer in(rank, connections.receive, 5000), out(rank, connections.send, 5000);
    out.fill(12);
    std::vector<Transfer> transfers = {send_of(connections.send, out, 5000),
                                       receive_of(connections.receive, in)};
    rank.run(transfers);
    in.expect(12, 5000, "after registrations");
  }
  rank.barrier();
  rank.close(connections);
}

namespace {

constexpr size_t kMapped = 64 * 1024;

// New pages at `at`, or anywhere.
std::byte* map(void* at) {
  void* const memory = ::mmap(at, kMapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
  if (memory == MAP_FAILED) throw NotApplicable{"mmap() failed"};
  return static_cast<std::byte*>(memory);
}

void transfer_mapped(Rank& rank, const Connections& connections, std::byte* out, std::byte* in,
                     int round) {
  std::fill_n(out, kMapped, std::byte(round + 1));
  void* const from = rank.net().register_memory(connections.send, out, kMapped);
  void* const to = rank.net().register_memory(connections.receive, in, kMapped);
  std::vector<Transfer> transfers(2);
  transfers[0] = {.sends = true,
                  .comm = connections.send,
                  .data = {out},
                  .sizes = {kMapped},
                  .tags = {1},
                  .memories = {from}};
  transfers[1] = {
      .comm = connections.receive, .data = {in}, .sizes = {kMapped}, .tags = {1}, .memories = {to}};
  rank.run(transfers);
  rank.net().deregister(connections.send, from);
  rank.net().deregister(connections.receive, to);
  if (!std::all_of(in, in + kMapped, [&](std::byte b) { return b == std::byte(round + 1); }))
    throw Failure{"round " + std::to_string(round + 1) +
                  ": the data is not that of the memory that is mapped now"};
}

}  // namespace

void check_remapped(Rank& rank) {
  const Connections connections = rank.connect_ring();
  std::byte* const out = map(nullptr);
  std::byte* const in = map(nullptr);
  for (int round = 0; round < 4; ++round) {
    transfer_mapped(rank, connections, out, in, round);
    (void)::munmap(out, kMapped);
    (void)::munmap(in, kMapped);
    map(out);
    map(in);
  }
  rank.barrier();
  rank.close(connections);
  (void)::munmap(out, kMapped);
  (void)::munmap(in, kMapped);
}

void check_flush(Rank& rank) {
  const Connections connections = rank.connect_ring();
  {
    Buffer in(rank, connections.receive, 5000), out(rank, connections.send, 5000);
    out.fill(13);
    std::vector<Transfer> transfers = {send_of(connections.send, out, 5000),
                                       receive_of(connections.receive, in)};
    rank.run(transfers);
    if (void* const request = rank.net().iflush(connections.receive, in.data(), 5000, in.memory()))
      rank.wait_until("the request of iflush() is not done", [&] {
        int done = 0;
        const nccl::Outcome outcome = rank.net().test(request, &done, nullptr);
        if (outcome != nccl::Outcome::success)
          throw Failure{"test() of iflush() returns " + name_of(outcome)};
        return done != 0;
      });
    in.expect(13, 5000, "after iflush()");
    Transfer send = send_of(connections.send, out, 100),
             receive = receive_of(connections.receive, in);
    rank.wait_until("test() without sizes is not done", [&] {
      for (Transfer* const each : {&send, &receive}) {
        if (each->done || (each->request == nullptr && !rank.post(*each))) continue;
        int done = 0;
        if (rank.net().test(each->request, &done, nullptr) != nccl::Outcome::success)
          throw Failure{"test() without sizes returns an error"};
        each->done = done != 0;
      }
      return send.done && receive.done;
    });
  }
  rank.barrier();
  rank.close(connections);
}

// NCCL itself polls on the payload of such a receive, and calls test() on its request all the same.
void check_optional(Rank& rank) {
  if (rank.net().version < 9) throw NotApplicable{"since v9"};
  constexpr size_t kMessages = 40, kSize = 3000;
  const Connections connections = rank.connect_ring();
  {
    std::deque<Buffer> in, out;
    std::vector<Transfer> transfers;
    for (size_t i = 0; i < kMessages; ++i) {
      in.emplace_back(rank, connections.receive, kSize);
      out.emplace_back(rank, connections.send, kSize).fill(2000 + i);
      transfers.push_back(receive_of(connections.receive, in.back()));
      transfers.back().optional = i % 3 != 0;
      transfers.push_back(send_of(connections.send, out.back(), kSize));
    }
    rank.run(transfers, 8);
    for (size_t i = 0; i < kMessages; ++i) {
      rank.wait_until("the data of a receive with optional completion does not arrive", [&] {
        Buffer& each = in[i];
        std::vector<std::byte> got(each.data(), each.data() + kSize);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return std::memcmp(got.data(), out[i].data(), kSize) == 0;
      });
      in[i].expect(2000 + i, kSize, "a receive with optional completion");
    }
  }
  rank.barrier();
  rank.close(connections);
}

}  // namespace weft::nccl_check
