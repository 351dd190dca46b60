// SPDX-License-Identifier: BSD-3-Clause
// Collectives in host memory, as NCCL runs them over a plug-in: all-reduce in a ring, in steps of a
// few slices each, and all-to-all over connections between all ranks.
#include "tools/nccl_check/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {
namespace {

constexpr size_t kSlice = 512 * 1024;  // bytes, as NCCL's protocol Simple has them
constexpr size_t kStaging = 8;         // slices received and not added up yet

uint64_t value_of(int rank, size_t index) {
  return (static_cast<uint64_t>(rank) + 1) * 0x100000001B3u * (index + 1);
}

}  // namespace

Ring::Ring(Rank& rank, const Connections& connections, size_t words)
    : rank_(rank),
      connections_(connections),
      words_(words),
      data_(rank, connections.send, words * 8),
      data_in_(rank.net().register_memory(connections.receive, data_.data(), words * 8)),
      staging_(rank, connections.receive, kStaging * kSlice) {}

Ring::~Ring() {
  try {
    rank_.net().deregister(connections_.receive, data_in_);
  } catch (const Failure&) {  // has been shown by the rule about registration
  }
}

uint64_t* Ring::words() { return reinterpret_cast<uint64_t*>(data_.data()); }

// Sends a chunk to the next rank, and receives one from the previous: added to ours, or in its
// place.
void Ring::step(size_t sent, size_t received, bool adds) {
  const auto begin_of = [&](size_t chunk) {
    return chunk * words_ / static_cast<size_t>(rank_.ranks()) * 8;
  };
  const size_t from = begin_of(sent), from_end = begin_of(sent + 1);
  const size_t to = begin_of(received), to_end = begin_of(received + 1);
  std::deque<Transfer> sends, receives;
  size_t next_send = from, next_receive = to, added = to;
  rank_.wait_until("a step of the all-reduce is not done", [&] {
    if (next_send < from_end && sends.size() < kStaging) {
      const size_t size = std::min(kSlice, from_end - next_send);
      Transfer slice = part_of(send_of(connections_.send, data_, 0), next_send, size);
      if (rank_.post(slice)) sends.push_back(std::move(slice)), next_send += size;
    }
    if (next_receive < to_end && receives.size() < kStaging) {
      const size_t size = std::min(kSlice, to_end - next_receive);
      const size_t slot = (next_receive - to) / kSlice % kStaging;
      Transfer slice = part_of(receive_of(connections_.receive, staging_), slot * kSlice, size);
      if (!adds) {
        slice.data[0] = data_.data() + next_receive;
        slice.memories[0] = data_in_;
      }
      if (rank_.post(slice)) receives.push_back(std::move(slice)), next_receive += size;
    }
    while (!sends.empty() && rank_.test(sends.front())) sends.pop_front();
    while (!receives.empty() && rank_.test(receives.front())) {
      const Transfer& slice = receives.front();
      if (adds) {
        uint64_t* const sum = reinterpret_cast<uint64_t*>(data_.data() + added);
        const auto* const more = static_cast<const uint64_t*>(slice.data[0]);
        for (size_t i = 0; i < slice.sizes[0] / 8; ++i) sum[i] += more[i];
      }
      added += slice.sizes[0];
      receives.pop_front();
    }
    return added == to_end && next_send == from_end && sends.empty();
  });
}

void Ring::all_reduce() {
  const auto n = static_cast<size_t>(rank_.ranks()), own = static_cast<size_t>(rank_.number());
  for (size_t k = 0; k + 1 < n; ++k) step((own + n - k) % n, (own + 2 * n - k - 1) % n, true);
  for (size_t k = 0; k + 1 < n; ++k) step((own + 1 + n - k) % n, (own + n - k) % n, false);
}

void check_all_reduce(Rank& rank) {
  const Connections connections = rank.connect_ring();
  {
    const size_t words = (rank.settings().quick ? 300'001 : 2'000'003);
    Ring ring(rank, connections, words);
    for (size_t i = 0; i < words; ++i) ring.words()[i] = value_of(rank.number(), i);
    ring.all_reduce();
    for (size_t i = 0; i < words; ++i) {
      uint64_t sum = 0;
      for (int each = 0; each < rank.ranks(); ++each) sum += value_of(each, i);
      if (ring.words()[i] != sum)
        throw Failure{"element " + std::to_string(i) + " of " + std::to_string(words) +
                      " has the wrong sum"};
    }
  }
  rank.barrier();
  rank.close(connections);
}

void check_all_to_all(Rank& rank) {
  const int n = rank.ranks(), own = rank.number();
  const auto size_of = [&](int from, int to) {
    return (static_cast<size_t>(from * 31 + to * 17) % 97) * 1001;
  };
  const auto seed_of = [&](int from, int to) { return static_cast<uint64_t>(from * 100 + to); };
  std::vector<Connections> made;
  for (int k = 1; k < n; ++k) made.push_back(rank.connect((own + k) % n, (own + n - k) % n));
  {
    std::deque<Buffer> in, out;
    std::vector<Transfer> transfers;
    for (int k = 1; k < n; ++k) {
      const Connections& c = made[static_cast<size_t>(k) - 1];
      const int to = (own + k) % n, from = (own + n - k) % n;
      in.emplace_back(rank, c.receive, size_of(from, own));
      out.emplace_back(rank, c.send, size_of(own, to)).fill(seed_of(own, to));
      transfers.push_back(receive_of(c.receive, in.back()));
      transfers.push_back(send_of(c.send, out.back(), out.back().size()));
    }
    rank.run(transfers);
    for (int k = 1; k < n; ++k) {
      const int from = (own + n - k) % n;
      in[static_cast<size_t>(k) - 1].expect(seed_of(from, own), size_of(from, own),
                                            "data of rank " + std::to_string(from));
    }
  }
  rank.barrier();
  for (const Connections& each : made) rank.close(each);
}

}  // namespace weft::nccl_check
