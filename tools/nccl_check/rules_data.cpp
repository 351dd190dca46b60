// SPDX-License-Identifier: BSD-3-Clause
// Rules about the bytes of messages: sizes, alignment, zero.
#include <algorithm>
#include <deque>

#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {
namespace {

struct Message {
  size_t size = 0;
  size_t room = 0;          // of the receive
  size_t from = 0, to = 0;  // offsets from a page
};

// Sends the messages round the ring, all at once, and checks what arrives.
void transfer_all(Rank& rank, const Connections& connections, const std::vector<Message>& messages,
                  uint64_t seed) {
  std::deque<Buffer> in, out;
  std::vector<Transfer> transfers;
  for (const Message& each : messages) {
    in.emplace_back(rank, connections.receive, each.room, each.to);
    out.emplace_back(rank, connections.send, each.size, each.from).fill(seed + in.size());
    transfers.push_back(receive_of(connections.receive, in.back()));
    transfers.push_back(send_of(connections.send, out.back(), each.size));
  }
  rank.run(transfers);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string what = "a message of " + std::to_string(messages[i].size) + " B";
    in[i].expect(seed + i + 1, messages[i].size, what);
    for (size_t at : {2 * i, 2 * i + 1})
      if (transfers[at].got[0] != static_cast<int>(messages[i].size))
        throw Failure{what + ": test() of the " + (at % 2 ? "send" : "receive") + " says " +
                      std::to_string(transfers[at].got[0])};
  }
}

}  // namespace

void check_sizes(Rank& rank) {
  const Connections connections = rank.connect_ring();
  const size_t largest = rank.settings().max_size;
  std::vector<size_t> sizes;
  for (size_t power = 1; power <= std::min<size_t>(largest, 1 << 20); power *= 2)
    for (const size_t size : {power - 1, power, power + 1})
      if (size != 0 && size <= largest) sizes.push_back(size);
  for (int i = 0; i < (rank.settings().quick ? 8 : 24); ++i)
    sizes.push_back(rank.random_size(1, largest));
  if (!rank.settings().quick) sizes.push_back(largest);
  std::shuffle(sizes.begin(), sizes.end(), rank.random());
  std::vector<Message> batch;
  size_t bytes = 0, sent = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t spare = i % 2 ? rank.random_size(0, 5000) : 0;
    batch.push_back({.size = sizes[i], .room = sizes[i] + spare});
    bytes += sizes[i];
    if (bytes < (4 << 20) && batch.size() < 16 && i + 1 < sizes.size()) continue;
    transfer_all(rank, connections, batch, ++sent * 1000);
    batch.clear();
    bytes = 0;
  }
  rank.barrier();
  rank.close(connections);
}

void check_alignment(Rank& rank) {
  const Connections connections = rank.connect_ring();
  std::vector<Message> messages;
  for (const size_t from : {0, 1, 3, 4, 7, 9, 31, 63})
    for (const size_t size : {1, 13, 64, 4099}) {
      const size_t to = (from * 5 + size) % 61;
      messages.push_back({.size = size, .room = size, .from = from, .to = to});
    }
  messages.push_back({.size = 70'001, .room = 70'001, .from = 17, .to = 29});
  transfer_all(rank, connections, messages, 50);
  rank.barrier();
  rank.close(connections);
}

void check_zero(Rank& rank) {
  const Connections connections = rank.connect_ring();
  transfer_all(rank, connections, {{.size = 0, .room = 0}}, 60);
  transfer_all(rank, connections, {{.size = 0, .room = 100}}, 70);
  transfer_all(rank, connections,
               {{.size = 100, .room = 100},
                {.size = 0, .room = 100},
                {.size = 0, .room = 0},
                {.size = 1, .room = 100},
                {.size = 0, .room = 1},
                {.size = 5000, .room = 5000}},
               80);
  rank.barrier();
  rank.close(connections);
}

}  // namespace weft::nccl_check
