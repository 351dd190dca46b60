// SPDX-License-Identifier: BSD-3-Clause
// Executes a plan without data, and so finds an order of its moves.
#include "lib/collective/msccl/order.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "lib/collective/msccl/divide.hpp"

namespace weft::collective {
namespace {

class Ordering {
 public:
  Ordering(const MscclPlan& plan, MscclOrder& order)
      : plan_(plan), order_(order), ranks_(static_cast<uint32_t>(plan.ranks.size())) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      done_.emplace_back(order.moves[rank].size());
      scratch_.emplace_back(order.scratch[rank]);
      sorted_.emplace_back();
      blocks_.emplace_back(plan.ranks[rank].blocks.size());
      for (uint32_t i = 0; i < order.moves[rank].size(); ++i)
        blocks_[rank][order.moves[rank][i].block].moves.push_back(i);
    }
  }

  // A send runs with its receive where that can be; else it leaves its message in the link, which
  // holds one.
  Result<void> run() {
    while (true) {
      while (step_everything()) continue;
      if (!error_.empty()) return Error{Code::invalid_argument, error_};
      if (!send_one()) break;
    }
    if (Result<void> ended = check_end(); !ended) return ended;
    sort();
    return {};
  }

 private:
  struct Message {
    uint32_t channel = 0;
    MscclBuffer buffer = MscclBuffer::input;
    std::vector<uint32_t> lengths;
  };

  const MscclBlock& block_of(uint32_t rank, const MscclMove& move) const {
    return plan_.ranks[rank].blocks[move.block];
  }
  // The next move of a block, if all that it waits for is done.
  std::optional<uint32_t> ready_move(uint32_t rank, uint32_t block) const {
    const Block& of = blocks_[rank][block];
    if (of.next == of.moves.size()) return std::nullopt;
    const uint32_t move = of.moves[of.next];
    for (const uint32_t earlier : order_.moves[rank][move].after)
      if (!done_[rank][earlier]) return std::nullopt;
    return move;
  }
  std::optional<Message>& link(uint32_t from, uint32_t to) {
    return links_[size_t{from} * ranks_ + to];
  }
  static bool is_receive(const MscclMove& move) {
    return move.kind == StepKind::receive || move.kind == StepKind::receive_reduce;
  }

  // The ready receive of `to` for a message on this channel.
  std::optional<uint32_t> receiver(uint32_t from, uint32_t to, uint32_t channel) const {
    const std::vector<MscclBlock>& blocks = plan_.ranks[to].blocks;
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].receive != static_cast<int32_t>(from) || blocks[b].channel != channel) continue;
      const std::optional<uint32_t> move = ready_move(to, b);
      return move && is_receive(order_.moves[to][*move]) ? move : std::nullopt;
    }
    return std::nullopt;
  }

  bool step_everything() {
    bool moved = false;
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      for (uint32_t block = 0; block < blocks_[rank].size() && error_.empty(); ++block)
        if (const std::optional<uint32_t> move = ready_move(rank, block))
          moved |= step(rank, *move);
    return moved && error_.empty();
  }

  bool step(uint32_t rank, uint32_t i) {
    const MscclMove& move = order_.moves[rank][i];
    const uint32_t channel = block_of(rank, move).channel;
    if (move.kind == StepKind::put) {
      const std::optional<uint32_t> other = receiver(rank, move.peer, channel);
      if (link(rank, move.peer) || !other) return false;
      send(rank, i);
      receive(move.peer, *other);
    } else if (is_receive(move)) {
      const std::optional<Message>& message = link(move.peer, rank);
      if (!message || message->channel != channel) return false;
      receive(rank, i);
    } else {
      local(rank, i);
    }
    return true;
  }

  bool send_one() {
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      for (uint32_t block = 0; block < blocks_[rank].size(); ++block) {
        const std::optional<uint32_t> i = ready_move(rank, block);
        if (!i || order_.moves[rank][*i].kind != StepKind::put) continue;
        if (link(rank, order_.moves[rank][*i].peer)) continue;
        send(rank, *i);
        return true;
      }
    return false;
  }

  void finish(uint32_t rank, uint32_t move) {
    done_[rank][move] = true;
    ++blocks_[rank][order_.moves[rank][move].block].next;
    sorted_[rank].push_back(move);
  }

  void send(uint32_t rank, uint32_t i) {
    MscclMove& move = order_.moves[rank][i];
    move.lengths = lengths_at(rank, move.source, move.count);
    link(rank, move.peer) = Message{block_of(rank, move).channel, move.source.buffer, move.lengths};
    finish(rank, i);
  }

  void receive(uint32_t rank, uint32_t i) {
    MscclMove& move = order_.moves[rank][i];
    const Message message = *std::exchange(link(move.peer, rank), std::nullopt);
    if (message.lengths.size() != move.count)
      error_ = place_of(plan_, rank, move.block, move.step) + "receives " +
               std::to_string(move.count) + " chunks, gpu " + std::to_string(move.peer) +
               " sends " + std::to_string(message.lengths.size());
    move.lengths = message.lengths;
    move.sent_from = message.buffer;
    if (error_.empty() && move.kind == StepKind::receive_reduce) compare(rank, move, move.source);
    if (error_.empty()) store(rank, move);
    finish(rank, i);
  }

  void local(uint32_t rank, uint32_t i) {
    MscclMove& move = order_.moves[rank][i];
    move.lengths = lengths_at(rank, move.source, move.count);
    if (move.kind == StepKind::reduce) compare(rank, move, move.target);
    store(rank, move);
    finish(rank, i);
  }

  // Chunks of the input of an all-gather are those of the rank's block of the call.
  uint32_t length_of(MscclBuffer buffer, uint32_t rank, uint32_t index) const {
    if (buffer == MscclBuffer::scratch) return scratch_[rank][index];
    return index % chunks_of_block(plan_);
  }
  std::vector<uint32_t> lengths_at(uint32_t rank, const MscclChunks& chunks, uint32_t count) const {
    std::vector<uint32_t> lengths;
    for (uint32_t c = 0; c < count; ++c)
      lengths.push_back(length_of(chunks.buffer, rank, chunks.index + c));
    return lengths;
  }
  void compare(uint32_t rank, const MscclMove& move, const MscclChunks& with) {
    if (lengths_at(rank, with, move.count) != move.lengths) order_.equal_chunks = true;
  }
  void store(uint32_t rank, const MscclMove& move) {
    if (move.target.buffer != MscclBuffer::scratch) return compare(rank, move, move.target);
    for (uint32_t c = 0; c < move.count; ++c)
      scratch_[rank][move.target.index + c] = move.lengths[c];
  }

  Result<void> check_end() {
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      for (uint32_t i = 0; i < done_[rank].size(); ++i) {
        const MscclMove& move = order_.moves[rank][i];
        if (!done_[rank][i])
          return Error{Code::invalid_argument,
                       place_of(plan_, rank, move.block, move.step) + "never gets to run"};
      }
    for (uint32_t from = 0; from < ranks_; ++from)
      for (uint32_t to = 0; to < ranks_; ++to)
        if (link(from, to))
          return Error{Code::invalid_argument, "gpu " + std::to_string(to) +
                                                   " never receives what gpu " +
                                                   std::to_string(from) + " sends"};
    return {};
  }

  // Moves in the order of their execution.
  void sort() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      std::vector<uint32_t> place(sorted_[rank].size());
      for (uint32_t i = 0; i < place.size(); ++i) place[sorted_[rank][i]] = i;
      std::vector<MscclMove> moves;
      for (const uint32_t move : sorted_[rank]) moves.push_back(order_.moves[rank][move]);
      for (MscclMove& move : moves)
        for (std::vector<uint32_t>* const all : {&move.after, &move.waits})
          for (uint32_t& earlier : *all) earlier = place[earlier];
      order_.moves[rank] = std::move(moves);
    }
  }

  struct Block {
    std::vector<uint32_t> moves;
    size_t next = 0;
  };

  const MscclPlan& plan_;
  MscclOrder& order_;
  uint32_t ranks_;
  std::vector<std::vector<Block>> blocks_;
  std::map<size_t, std::optional<Message>> links_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<uint32_t>> scratch_;  // lengths, as in MscclMove
  std::vector<std::vector<uint32_t>> sorted_;
  std::string error_;
};

// ---- what moves wait for ----

// A buffer of the memory of a rank: in place, input and output are parts of one.
struct Touched {
  int memory = 0;
  uint64_t from = 0, to = 0;
  bool overlaps(const Touched& other) const {
    return memory == other.memory && from < other.to && other.from < to;
  }
};

Touched touched(const MscclPlan& plan, uint32_t rank, const MscclChunks& chunks, uint32_t count) {
  uint64_t from = chunks.index;
  if (!plan.in_place || chunks.buffer == MscclBuffer::scratch)
    return {static_cast<int>(chunks.buffer), from, from + count};
  const bool small = chunks.buffer == MscclBuffer::input
                         ? plan.collective == Collective::all_gather
                         : plan.collective == Collective::reduce_scatter;
  if (small) from += uint64_t{rank} * chunks_of_block(plan);
  return {0, from, from + count};
}

bool conflict(const MscclPlan& plan, uint32_t rank, const MscclMove& a, const MscclMove& b) {
  const auto source = [&](const MscclMove& move) {
    return touched(plan, rank, move.source, move.kind == StepKind::receive ? 0 : move.count);
  };
  const auto target = [&](const MscclMove& move) {
    return touched(plan, rank, move.target, move.kind == StepKind::put ? 0 : move.count);
  };
  return target(a).overlaps(target(b)) || target(a).overlaps(source(b)) ||
         source(a).overlaps(target(b));
}

// From the order that the plan says, blocks one step after the other, to what memory needs: the
// steps of a block that have nothing to do with each other do not wait.
void wait_for_chunks(const MscclPlan& plan, uint32_t rank, std::vector<MscclMove>& moves) {
  std::vector<std::vector<bool>> before(moves.size());
  for (uint32_t i = 0; i < moves.size(); ++i) {
    before[i].resize(i);
    for (const uint32_t earlier : moves[i].after) {
      before[i][earlier] = true;
      for (uint32_t j = 0; j < earlier; ++j)
        if (before[earlier][j]) before[i][j] = true;
    }
  }
  for (uint32_t i = 0; i < moves.size(); ++i) {
    moves[i].after.clear();
    for (uint32_t j = 0; j < i; ++j)
      if (before[i][j] && conflict(plan, rank, moves[j], moves[i])) moves[i].after.push_back(j);
  }
}

Result<void> check_plan(const MscclPlan& plan) {
  const auto wrong = [](const std::string& text) { return Error{Code::invalid_argument, text}; };
  const uint32_t ranks = static_cast<uint32_t>(plan.ranks.size());
  if (ranks == 0 || ranks > kMaxMscclRanks)
    return wrong("a plan is for 1 to " + std::to_string(kMaxMscclRanks) + " gpus");
  if (plan.chunks == 0 || plan.chunks > kMaxMscclChunks ||
      (has_rank_blocks(plan.collective) && plan.chunks % ranks != 0))
    return wrong("nchunksperloop is " + std::to_string(plan.chunks) + ": it is a multiple of the " +
                 std::to_string(ranks) +
                 " gpus, or any number for allreduce, broadcast and "
                 "reduce, up to " +
                 std::to_string(kMaxMscclChunks));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::map<std::tuple<bool, int32_t, uint32_t>, uint32_t> users;
    for (uint32_t b = 0; b < plan.ranks[rank].blocks.size(); ++b) {
      const MscclBlock& block = plan.ranks[rank].blocks[b];
      for (const bool sending : {true, false}) {
        const int32_t peer = sending ? block.send : block.receive;
        const std::string tb = "gpu " + std::to_string(rank) + " tb " + std::to_string(b) + ": ";
        if (peer >= static_cast<int32_t>(ranks) || peer == static_cast<int32_t>(rank))
          return wrong(tb + "there is no peer " + std::to_string(peer));
        if (peer >= 0 && !users.emplace(std::tuple(sending, peer, block.channel), b).second)
          return wrong(tb + "another tb has the same " + (sending ? "send" : "recv") +
                       " and chan: " + std::to_string(peer) + ", " + std::to_string(block.channel));
      }
    }
  }
  return {};
}

}  // namespace

Result<MscclOrder> order_of(const MscclPlan& plan) {
  if (const Result<void> checked = check_plan(plan); !checked) return checked.error();
  const size_t ranks = plan.ranks.size();
  MscclOrder order{std::vector<std::vector<MscclMove>>(ranks), std::vector<uint32_t>(ranks),
                   std::vector<bool>(ranks)};
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (const Result<void> done = divide(plan, rank, order); !done) return done.error();
  if (const Result<void> done = Ordering(plan, order).run(); !done) return done.error();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (order.moves[rank].size() > kMaxMscclMoves)
      return Error{Code::not_supported, "gpu " + std::to_string(rank) + " has more than " +
                                            std::to_string(kMaxMscclMoves) + " steps"};
    wait_for_chunks(plan, rank, order.moves[rank]);
  }
  return order;
}

}  // namespace weft::collective
