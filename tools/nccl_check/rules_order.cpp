// SPDX-License-Identifier: BSD-3-Clause
// Rules about which send meets which receive, and about requests that are refused for now.
#include <algorithm>
#include <deque>
#include <numeric>

#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {

void check_order(Rank& rank) {
  constexpr size_t kMessages = 200, kRoom = 6000;
  const Connections connections = rank.connect_ring();
  {
    std::deque<Buffer> in, out;
    std::vector<Transfer> transfers;
    std::vector<size_t> sizes;
    for (size_t i = 0; i < kMessages; ++i) {
      sizes.push_back(8 + rank.random_size(0, kRoom - 8));
      in.emplace_back(rank, connections.receive, kRoom);
      out.emplace_back(rank, connections.send, sizes[i]).fill(1000 + i);
      transfers.push_back(receive_of(connections.receive, in.back()));
      transfers.push_back(send_of(connections.send, out.back(), sizes[i]));
    }
    rank.run(transfers, 32);
    for (size_t i = 0; i < kMessages; ++i)
      in[i].expect(1000 + i, sizes[i],
                   "message " + std::to_string(i) + " of " + std::to_string(kMessages));
  }
  rank.barrier();
  rank.close(connections);
}

namespace {

// A group of receives, and the sends for it, whose order is another.
struct Group {
  std::deque<Buffer> in, out;
  std::vector<size_t> sizes;
  Transfer receive;
  std::vector<Transfer> sends;
};

void make_group(Rank& rank, const Connections& connections, size_t count, uint64_t seed,
                Group& group) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rank.random());
  std::vector<int> tags(count);
  std::iota(tags.begin(), tags.end(), static_cast<int>(seed));
  std::shuffle(tags.begin(), tags.end(), rank.random());
  group.receive.comm = connections.receive;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = rank.random()() % 5 == 0 ? 0 : rank.random_size(1, 40'000);
    group.sizes.push_back(size);
    Buffer& in = group.in.emplace_back(rank, connections.receive, size + i % 2 * 100);
    group.receive.data.push_back(in.data());
    group.receive.sizes.push_back(in.size());
    group.receive.tags.push_back(tags[i]);
    group.receive.memories.push_back(in.memory());
    group.out.emplace_back(rank, connections.send, size).fill(seed * 100 + i);
  }
  for (const size_t i : order)
    group.sends.push_back(send_of(connections.send, group.out[i], group.sizes[i], tags[i]));
}

void check_group(Group& group, const Transfer& receive, uint64_t seed) {
  for (size_t i = 0; i < group.sizes.size(); ++i) {
    const std::string what =
        "receive " + std::to_string(i) + " of a group of " + std::to_string(group.sizes.size());
    group.in[i].expect(seed * 100 + i, group.sizes[i], what);
    if (receive.got[i] != static_cast<int>(group.sizes[i]))
      throw Failure{what + ": test() says " + std::to_string(receive.got[i]) + " B, not " +
                    std::to_string(group.sizes[i])};
  }
}

}  // namespace

void check_groups(Rank& rank) {
  const auto most = static_cast<size_t>(rank.net().facts(rank.device()).max_receives);
  if (rank.net().version < 5 || most < 2) throw NotApplicable{"maxRecvs is 1"};
  const Connections connections = rank.connect_ring();
  {
    constexpr size_t kGroups = 24;
    std::deque<Group> groups(kGroups);
    std::vector<Transfer> transfers;
    for (size_t g = 0; g < kGroups; ++g) {
      make_group(rank, connections, 2 + g % (std::min<size_t>(most, 8) - 1), 1000 + g * 16,
                 groups[g]);
      transfers.push_back(groups[g].receive);
    }
    for (Group& group : groups)
      transfers.insert(transfers.end(), group.sends.begin(), group.sends.end());
    rank.run(transfers, size_t{nccl::kMaxRequests} * 8);  // as NCCL has sends for 32 receives of 8
    for (size_t g = 0; g < kGroups; ++g) check_group(groups[g], transfers[g], 1000 + g * 16);
  }
  rank.barrier();
  rank.close(connections);
}

void check_early_send(Rank& rank) {
  constexpr size_t kSize = 2000;
  const Connections connections = rank.connect_ring();
  {
    Buffer in(rank, connections.receive, kSize), out(rank, connections.send, kSize);
    out.fill(9);
    std::vector<Transfer> transfers = {send_of(connections.send, out, kSize)};
    for (int i = 0; i < 1000 && transfers[0].request == nullptr; ++i) (void)rank.post(transfers[0]);
    rank.barrier();
    transfers.push_back(receive_of(connections.receive, in));
    rank.run(transfers);
    in.expect(9, kSize, "a message that was sent early");
  }
  rank.barrier();
  rank.close(connections);
}

void check_full(Rank& rank) {
  constexpr size_t kMost = 1024, kSize = 64;
  const size_t least = rank.net().version < 7 ? 8 : static_cast<size_t>(nccl::kMaxRequests);
  const Connections connections = rank.connect_ring();
  {
    Buffer in(rank, connections.receive, kMost * kSize), out(rank, connections.send, kMost * kSize);
    out.fill(11);
    const Transfer receive = receive_of(connections.receive, in),
                   send = send_of(connections.send, out, 0);
    std::vector<Transfer> transfers;
    rank.at("irecv() until there is no room");
    for (size_t i = 0; i < kMost; ++i) {
      transfers.push_back(part_of(receive, i * kSize, kSize));
      if (rank.post(transfers.back())) continue;
      transfers.pop_back();
      break;
    }
    if (transfers.size() < least)
      throw Failure{"irecv() refuses more than " + std::to_string(transfers.size()) +
                    " requests, NCCL has " + std::to_string(least) + " in flight"};
    const size_t posted = transfers.size();
    RankRecord& own = rank.record();
    own.figures[7] = static_cast<double>(posted);
    rank.barrier();
    // As many sends as the next rank has receives.
    const auto sends =
        static_cast<size_t>(rank.board().ranks[static_cast<size_t>(rank.next())].figures[7]);
    for (size_t i = 0; i < sends; ++i) transfers.push_back(part_of(send, i * kSize, kSize));
    rank.at("isend() until there is no room");
    rank.run(transfers, kMost);
    in.expect(11, posted * kSize, "messages of 64 B");
  }
  rank.barrier();
  rank.close(connections);
}

}  // namespace weft::nccl_check
