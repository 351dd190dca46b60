// SPDX-License-Identifier: BSD-3-Clause
// An all-to-all sends and receives displaced blocks directly; an all-gather, whose algorithms
// forward contiguous blocks together, receives them packed and then copies.
#include "lib/collective/team/displaced.hpp"

#include <algorithm>
#include <cstring>

namespace weft::collective {
namespace {

// "" or why they are invalid. Blocks that are written may not overlap.
std::string invalid_reason(std::span<const size_t> counts, std::span<const size_t> displacements,
                           DataType type, bool written) {
  if (counts.size() != displacements.size()) return "displacements have one entry for each rank";
  std::vector<std::pair<size_t, size_t>> blocks;
  const size_t most = kMostBytes / size_of(type);
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] > most || displacements[r] > most) return "the count is too large";
    if (counts[r] > 0) blocks.push_back({displacements[r], counts[r]});
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 1; written && i < blocks.size(); ++i)
    if (blocks[i - 1].first + blocks[i - 1].second > blocks[i].first)
      return "blocks that are received overlap";
  return "";
}

}  // namespace

std::string displace(Blocks& blocks, uint32_t rank, uint32_t ranks, const BlockList& send,
                     const BlockList& receive, DataType type) {
  std::string invalid_text = invalid_reason(send.counts, send.displacements, type, false);
  if (invalid_text.empty())
    invalid_text = invalid_reason(receive.counts, receive.displacements, type, true);
  blocks.send_displacements.resize(ranks);
  blocks.receive_displacements.resize(ranks);
  blocks.send_displacements[rank].assign(send.displacements.begin(), send.displacements.end());
  blocks.receive_displacements[rank].assign(receive.displacements.begin(),
                                            receive.displacements.end());
  return invalid_text;
}

Result<TaskPtr> make_displaced_gather(Team& team, const Arguments& call, const BlockList& receive,
                                      const CallOptions& options) {
  const uint32_t rank = team.rank();
  const std::string invalid_text =
      invalid_reason(receive.counts, receive.displacements, call.type, true);
  if (!invalid_text.empty()) return invalid(call.collective, invalid_text);
  Arguments packed = call;
  packed.blocks.counts.assign(receive.counts.begin(), receive.counts.end());
  uint64_t elements = 0;
  for (const uint64_t count : packed.blocks.counts) elements += count;
  if (call.input == nullptr && packed.blocks.counts[rank] > 0)
    return invalid(call.collective, "the input is null");
  if (call.output == nullptr && elements > 0) return invalid(call.collective, "the output is null");
  Result<TaskPtr> task = new_task(team, packed, options, team.next_sequence());
  if (!task) return task;
  const size_t width = size_of(call.type);
  (*task)->prepare = [=, &team](Task& own) -> Result<void> {
    Result<RegisteredPtr> space = packed_space(team, own.call, elements * width);
    if (!space) return space.error();
    Arguments with_output = packed;
    with_output.output = nullptr;
    if (*space) {
      own.registered.push_back(*space);
      with_output.output = (*space)->memory;
    }
    return plan_task(team, own, with_output);
  };
  const std::vector<size_t> displacements(receive.displacements.begin(),
                                          receive.displacements.end());
  (*task)->complete = [=](Task& own) {
    const std::byte* from = own.output;
    for (size_t r = 0; r < displacements.size(); ++r) {
      const size_t bytes = packed.blocks.counts[r] * width;
      if (bytes > 0)
        std::memmove(static_cast<std::byte*>(call.output) + displacements[r] * width, from, bytes);
      from += bytes;
    }
  };
  return task;
}

}  // namespace weft::collective
