// SPDX-License-Identifier: BSD-3-Clause
// Plays a plan of MSCCL as MSCCL's rules say, with numbers for chunks and steps of any blocks that
// may run next, in random order: independent of how weft executes plans. Each rank's contribution
// to a chunk is a random number, so that sums tell what was added.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/collective/msccl/plan.hpp"

namespace weft::collective {

class MscclPlay {
 public:
  MscclPlay(const MscclPlan& plan, uint32_t root, uint64_t seed)
      : plan_(plan), root_(root), random_(seed), ranks_(plan.ranks.size()) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      Rank of;
      for (uint32_t i = 0; i < inputs(rank); ++i) of.given.push_back(random_.next() | 1);
      of.larger.resize(plan.chunks);
      of.smaller.resize(plan.chunks);
      of.scratch.resize(plan.ranks[rank].scratch_chunks);
      of.next.resize(plan.ranks[rank].blocks.size());
      for (uint32_t i = 0; i < of.given.size(); ++i)
        *cell(of, rank, {MscclBuffer::input, i}) = of.given[i];
      state_.push_back(std::move(of));
    }
  }

  // "" if all outputs are right.
  std::string run() {
    while (true) {
      std::vector<std::pair<size_t, size_t>> ready;
      for (size_t rank = 0; rank < ranks_; ++rank)
        for (size_t block = 0; block < state_[rank].next.size(); ++block)
          if (is_ready(rank, block)) ready.emplace_back(rank, block);
      if (ready.empty()) break;
      const auto [rank, block] = ready[random_.below(ready.size())];
      step(rank, block);
    }
    for (size_t rank = 0; rank < ranks_; ++rank)
      for (size_t block = 0; block < state_[rank].next.size(); ++block)
        if (state_[rank].next[block] < plan_.ranks[rank].blocks[block].steps.size())
          return "rank " + std::to_string(rank) + " block " + std::to_string(block) + " is stuck";
    return check();
  }

 private:
  struct Rank {
    std::vector<uint64_t> given, larger, smaller, scratch;
    std::vector<size_t> next;  // step of each block
  };
  using Message = std::vector<uint64_t>;

  uint32_t per_rank() const { return plan_.chunks / static_cast<uint32_t>(ranks_); }
  bool is(Collective collective) const { return plan_.collective == collective; }
  size_t inputs(size_t rank) const {
    if (is(Collective::all_gather)) return per_rank();
    return is(Collective::broadcast) && rank != root_ ? 0 : plan_.chunks;
  }
  size_t outputs(size_t rank) const {
    if (is(Collective::reduce_scatter)) return per_rank();
    return is(Collective::reduce) && rank != root_ ? 0 : plan_.chunks;
  }

  uint64_t* cell(Rank& of, size_t rank, const MscclChunks& at) const {
    if (at.buffer == MscclBuffer::scratch) return &of.scratch[at.index];
    const bool input = at.buffer == MscclBuffer::input;
    if (!plan_.in_place) return input ? &of.smaller[at.index] : &of.larger[at.index];
    const bool small = input ? is(Collective::all_gather) : is(Collective::reduce_scatter);
    return &of.larger[at.index + (small ? rank * per_rank() : 0)];
  }

  static bool receives(MscclKind kind) {
    return kind >= MscclKind::receive && kind <= MscclKind::receive_reduce_copy_send;
  }
  std::deque<Message>& link(size_t from, size_t to, uint32_t channel) {
    return links_[{from, to, channel}];
  }

  bool is_ready(size_t rank, size_t block) {
    const MscclBlock& of = plan_.ranks[rank].blocks[block];
    const size_t next = state_[rank].next[block];
    if (next == of.steps.size()) return false;
    const MscclStep& step = of.steps[next];
    if (step.after_block >= 0 && state_[rank].next[static_cast<size_t>(step.after_block)] <=
                                     static_cast<size_t>(step.after_step))
      return false;
    return !receives(step.kind) || !link(static_cast<size_t>(of.receive), rank, of.channel).empty();
  }

  void step(size_t rank, size_t block) {
    Rank& own = state_[rank];
    const MscclBlock& of = plan_.ranks[rank].blocks[block];
    const MscclStep& step = of.steps[own.next[block]++];
    if (step.kind == MscclKind::nothing) return;
    Message message(step.count);
    if (receives(step.kind)) {
      std::deque<Message>& from = link(static_cast<size_t>(of.receive), rank, of.channel);
      message = from.front();
      from.pop_front();
      message.resize(step.count);
    }
    for (uint32_t c = 0; c < step.count; ++c) {
      const auto at = [&](MscclChunks chunks) {
        chunks.index += c;
        return cell(own, rank, chunks);
      };
      switch (step.kind) {
        case MscclKind::send:
          message[c] = *at(step.source);
          break;
        case MscclKind::receive:
        case MscclKind::receive_copy_send:
          *at(step.target) = message[c];
          break;
        case MscclKind::receive_reduce_send:
          message[c] += *at(step.source);
          break;
        case MscclKind::receive_reduce_copy:
        case MscclKind::receive_reduce_copy_send:
          *at(step.target) = message[c] = message[c] + *at(step.source);
          break;
        case MscclKind::copy:
          *at(step.target) = *at(step.source);
          break;
        default:
          *at(step.target) += *at(step.source);
      }
    }
    const bool sends = step.kind == MscclKind::send || step.kind == MscclKind::receive_copy_send ||
                       step.kind == MscclKind::receive_reduce_send ||
                       step.kind == MscclKind::receive_reduce_copy_send;
    if (sends) link(rank, static_cast<size_t>(of.send), of.channel).push_back(message);
  }

  uint64_t expected(size_t rank, uint32_t i) const {
    if (is(Collective::broadcast)) return state_[root_].given[i];
    if (is(Collective::all_gather)) return state_[i / per_rank()].given[i % per_rank()];
    if (is(Collective::all_to_all))
      return state_[i / per_rank()].given[rank * per_rank() + i % per_rank()];
    const size_t from = is(Collective::reduce_scatter) ? rank * per_rank() : 0;
    uint64_t sum = 0;
    for (const Rank& of : state_) sum += of.given[from + i];
    return sum;
  }

  std::string check() {
    for (size_t rank = 0; rank < ranks_; ++rank)
      for (uint32_t i = 0; i < outputs(rank); ++i)
        if (*cell(state_[rank], rank, {MscclBuffer::output, i}) != expected(rank, i))
          return "rank " + std::to_string(rank) + ": output chunk " + std::to_string(i) +
                 " is wrong";
    for (const auto& [where, messages] : links_)
      if (!messages.empty()) return "a message is left over";
    return "";
  }

  const MscclPlan& plan_;
  uint32_t root_;
  base::Random random_;
  size_t ranks_;
  std::vector<Rank> state_;
  std::map<std::tuple<size_t, size_t, uint32_t>, std::deque<Message>> links_;
};

}  // namespace weft::collective
