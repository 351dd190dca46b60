// SPDX-License-Identifier: BSD-3-Clause
// The calls of a rank of the swarm in one group: collectives with permutations, sends and receives
// between them, then maybe a layer of experts; and the check of their results.
#pragma once

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "lib/collective/moe/count_exchange.hpp"
#include "lib/collective/moe/moe.hpp"
#include "lib/collective/team/arguments.hpp"
#include "tests/collective/moe/collective_moe_layer.hpp"
#include "tests/collective/plan/collective_random.hpp"
#include "tests/collective/swarm/collective_swarm_config.hpp"

namespace weft::test {

class PermutedBuffers {
 public:
  PermutedBuffers(const Permuted& permuted, uint32_t ranks, uint32_t rank) : seed_(permuted.seed) {
    base::Random random(permuted.seed);
    std::vector<uint32_t> to(ranks);
    std::iota(to.begin(), to.end(), 0);
    for (uint32_t i = ranks; i > 1; --i) std::swap(to[i - 1], to[random.below(i)]);
    const bool is_pair = permuted.is_pair && ranks > 1;
    const bool gives = !is_pair || rank == to[0], gets = !is_pair || rank == to[1];
    from_ =
        is_pair ? to[0] : static_cast<uint32_t>(std::find(to.begin(), to.end(), rank) - to.begin());
    if (gives)
      for (size_t i = 0; i < permuted.bytes; ++i) given_.push_back(byte_of(rank, i));
    if (gets) got_.resize(permuted.bytes, 0xAA);
    transfers_.push_back(
        {.peer = is_pair ? to[1] : to[rank], .send = given_.data(), .send_bytes = given_.size()});
    transfers_.push_back({.peer = from_, .receive = got_.data(), .receive_bytes = got_.size()});
    if (is_pair) transfers_.erase(transfers_.begin() + (gives ? 1 : 0));
    if (!gives && !gets) transfers_.clear();
  }

  std::span<const Transfer> transfers() const { return transfers_; }
  std::string check() const {
    for (size_t i = 0; i < got_.size(); ++i)
      if (got_[i] != byte_of(from_, i))
        return "byte " + std::to_string(i) + " of " + std::to_string(got_.size()) + " from rank " +
               std::to_string(from_) + " is another";
    return "";
  }

 private:
  uint8_t byte_of(uint32_t rank, size_t i) const {
    return static_cast<uint8_t>((seed_ >> i % 32) + rank * 37 + i);
  }
  uint64_t seed_;
  uint32_t from_ = 0;
  std::vector<uint8_t> given_, got_;
  std::vector<Transfer> transfers_;
};

class SwarmWork {
 public:
  SwarmWork(const SwarmProgram& program, const std::vector<uint32_t>& classes)
      : calls_(program.calls),
        permuted_(program.permuted),
        layer_(program.layer),
        classes_(classes) {}

  // Empty, or what was refused.
  std::string issue(collective::Team& team) {
    const uint32_t rank = team.rank(), ranks = team.ranks();
    for (size_t i = 0; i < calls_.size(); ++i) {
      const RandomCall& call = calls_[i];
      Buffers& b = *buffers_.emplace_back(std::make_unique<Buffers>(call, ranks, rank));
      Result<collective::TaskPtr> task = issue_call(team, call, b);
      if (!task) return task.error().message;
      tasks_.push_back(*task);
      if (!permuted_[i]) continue;
      PermutedBuffers& p = *permutations_.emplace_back(
          std::make_unique<PermutedBuffers>(*permuted_[i], ranks, rank));
      Result<collective::TaskPtr> exchange = collective::make_exchange(
          team, p.transfers(), {.traffic_class = class_of(permuted_[i]->seed)});
      if (!exchange) return exchange.error().message;
      team.issue(*exchange);
      exchanges_.push_back(*exchange);
    }
    if (!layer_) return "";
    experts_ = std::make_unique<LayerBuffers>(*layer_, rank);
    routing_ = std::make_shared<collective::RoutingState>();
    return keep(dispatched_, issue_dispatch(team, experts_->dispatch(), routing_, options()));
  }

  // Issues the combine when the dispatch has ended.
  std::string go_on(collective::Team& team) {
    if (!layer_ || combined_ != nullptr || !dispatched_->done || dispatched_->error) return "";
    const std::string wrong = experts_->check_experts(
        routing_->dropped, [&](uint32_t e) { return size_t{routing_->filled[e]}; });
    if (!wrong.empty()) return layer_->describe() + ": " + wrong;
    return keep(combined_, issue_combine(team, experts_->combine(), routing_, options()));
  }

  bool is_over() const {
    const auto done = [](const collective::TaskPtr& task) { return task->done; };
    if (!std::all_of(tasks_.begin(), tasks_.end(), done)) return false;
    if (!std::all_of(exchanges_.begin(), exchanges_.end(), done)) return false;
    if (!layer_) return true;
    return dispatched_->done && (dispatched_->error || (combined_ != nullptr && combined_->done));
  }

  const collective::Task& task(int64_t i) const { return *tasks_[static_cast<size_t>(i)]; }

  // Why a result is wrong, or empty. `may_fail`: whether a call (-1: of the layer) may have this
  // error.
  template <class MayFail>
  std::string invalid_reason(MayFail may_fail) const {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const std::string what = calls_[i].describe();
      if (!tasks_[i]->done) return "left waiting in " + what;
      if (!tasks_[i]->error) {
        if (std::string wrong = buffers_[i]->check(); !wrong.empty()) return wrong;
      } else if (!may_fail(static_cast<int64_t>(i), *tasks_[i]->error)) {
        return what + ": " + tasks_[i]->error->message;
      }
    }
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      if (!exchanges_[i]->done) return "left waiting in an exchange";
      if (!exchanges_[i]->error) {
        if (std::string wrong = permutations_[i]->check(); !wrong.empty()) return wrong;
      } else if (!may_fail(-1, *exchanges_[i]->error)) {
        return "exchange: " + exchanges_[i]->error->message;
      }
    }
    for (const collective::TaskPtr& task : {dispatched_, combined_}) {
      if (task == nullptr) continue;
      if (!task->done) return "left waiting in " + layer_->describe();
      if (task->error && !may_fail(-1, *task->error))
        return layer_->describe() + ": " + task->error->message;
    }
    if (combined_ == nullptr || combined_->error) return "";
    const std::string wrong = experts_->check_back();
    return wrong.empty() ? "" : layer_->describe() + ": " + wrong;
  }

  uint64_t ended_with(Code code) const {
    uint64_t found = 0;
    for (const collective::TaskPtr& task : tasks_)
      found += task->error && task->error->code == code;
    for (const collective::TaskPtr& task : {dispatched_, combined_})
      found += task != nullptr && task->error && task->error->code == code;
    return found;
  }
  // Exchanges that have succeeded.
  uint64_t exchanged() const {
    return static_cast<uint64_t>(
        std::count_if(exchanges_.begin(), exchanges_.end(),
                      [](const collective::TaskPtr& task) { return task->done && !task->error; }));
  }
  bool has_combined() const { return combined_ != nullptr && !combined_->error; }

 private:
  static std::string keep(collective::TaskPtr& place, Result<collective::TaskPtr> task) {
    if (!task) return task.error().message;
    place = *task;
    return "";
  }
  uint32_t class_of(uint64_t seed) const { return classes_[seed % classes_.size()]; }
  CallOptions options() const {
    return {.algorithm = layer_->algorithm, .traffic_class = classes_.front()};
  }

  Result<collective::TaskPtr> issue_call(collective::Team& team, const RandomCall& call,
                                         Buffers& b) {
    const CallOptions options{.algorithm = call.algorithm, .traffic_class = class_of(call.seed)};
    const collective::Arguments arguments{call.collective, b.input, b.output,  call.count,
                                          call.type,       call.op, call.root, call.blocks};
    if (call.discovered && call.collective == Collective::all_to_all_v)
      return collective::issue_discovered(
          team, {Collective::all_to_all_v, b.input, b.output, 0, call.type}, b.send_counts,
          b.capacity(), b.discovered_counts, options);
    Result<collective::TaskPtr> task = collective::make_task(team, arguments, options);
    if (task) team.issue(*task);
    return task;
  }

  const std::vector<RandomCall>& calls_;
  const std::vector<std::optional<Permuted>>& permuted_;
  const std::optional<Layer>& layer_;
  const std::vector<uint32_t>& classes_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
  std::vector<std::unique_ptr<PermutedBuffers>> permutations_;
  std::vector<collective::TaskPtr> tasks_, exchanges_;
  std::unique_ptr<LayerBuffers> experts_;
  collective::RoutingPtr routing_;
  collective::TaskPtr dispatched_, combined_;
};

}  // namespace weft::test
