// SPDX-License-Identifier: BSD-3-Clause
// Edge chasing over the lane's links.
#include "lib/collective/faults/circular_wait.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr Duration kFollowInterval = Duration::from_ms(50);
constexpr size_t kMaxChain = sizeof(ControlMessage::text) / sizeof(uint32_t);

std::string text_of(const std::vector<uint32_t>& ranks) {
  std::string text = "rank " + std::to_string(ranks[0]);
  for (size_t i = 1; i < ranks.size(); ++i)
    text += (i + 1 == ranks.size() ? " and rank " : ", rank ") + std::to_string(ranks[i]);
  return text;
}

// The peer receives nothing before this rank has received what it waits for.
bool waits_for_us(const Lane& lane, const Link& link, uint64_t consumed) {
  return lane.executor.running() && lane.current_call().sequence == 0 &&
         consumed == link.sends().posted() && !lane.executor.has_sends_for(link.peer());
}

}  // namespace

std::vector<uint32_t> chain_of(const ControlMessage& message) {
  std::vector<uint32_t> ranks(std::min<size_t>(message.count, kMaxChain));
  std::memcpy(ranks.data(), message.text, ranks.size() * sizeof ranks[0]);
  return ranks;
}

std::optional<FailureReport> CircularWaitDetector::follow(const Lane& lane, const Link& link,
                                                          uint64_t consumed,
                                                          std::vector<uint32_t> chain,
                                                          Instant now) {
  const bool valid = !chain.empty() && chain.back() == link.peer() &&
                     *std::max_element(chain.begin(), chain.end()) < ranks_;
  if (!valid || !waits_for_us(lane, link, consumed)) return std::nullopt;
  if (chain[0] == rank_ && chain.size() > 1 && lane.executor.has_receives_from(chain[1]))
    return FailureReport{.code = Code::mismatch,
                         .rank = link.peer(),
                         .call = lane.current_call(),
                         .reason = text_of(chain) +
                                   " wait in exchange to receive from each other: the sends are "
                                   "missing, or come later"};
  const auto in_chain = [&](uint32_t rank) {
    return std::find(chain.begin(), chain.end(), rank) != chain.end();
  };
  Instant& followed = followed_.try_emplace(chain[0], now - kFollowInterval).first->second;
  if (in_chain(rank_) || chain.size() == kMaxChain || now - followed < kFollowInterval)
    return std::nullopt;
  followed = now;
  chain.push_back(rank_);
  WEFT_DCHECK(chain.size() <= kMaxChain && followed_.size() <= ranks_);
  ControlMessage message{.kind = ControlKind::circular_wait,
                         .count = static_cast<uint16_t>(chain.size())};
  std::memcpy(message.text, chain.data(), chain.size() * sizeof chain[0]);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    if (lane.executor.has_receives_from(rank) && (rank == chain[0] || !in_chain(rank)))
      lane.links[rank]->send_control(message);
  return std::nullopt;
}

}  // namespace weft::collective
