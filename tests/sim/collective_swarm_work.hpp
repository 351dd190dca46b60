// SPDX-License-Identifier: BSD-3-Clause
// What a rank of the swarm calls in one group: some calls, then a layer of experts, if there is
// one; and how that may end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/collective/arguments.hpp"
#include "lib/collective/moe.hpp"
#include "tests/unit/collective_moe_layer.hpp"
#include "tests/unit/collective_random.hpp"

namespace weft::test {

class SwarmWork {
 public:
  SwarmWork(const std::vector<RandomCall>& calls, const std::optional<Layer>& layer)
      : calls_(calls), layer_(layer) {}

  // Empty, or what was refused.
  std::string issue(collective::Team& team) {
    const uint32_t rank = team.mesh().rank, ranks = team.mesh().ranks;
    for (const RandomCall& call : calls_) {
      Buffers& b = *buffers_.emplace_back(std::make_unique<Buffers>(call, ranks, rank));
      Result<collective::TaskPtr> task =
          collective::make_task(team,
                                {call.collective, b.input, b.output, call.count, call.type, call.op,
                                 call.root, call.blocks},
                                {.algorithm = call.algorithm});
      if (!task) return task.error().message;
      team.issue(*task);
      tasks_.push_back(*task);
    }
    if (!layer_) return "";
    experts_ = std::make_unique<LayerBuffers>(*layer_, rank);
    routing_ = std::make_shared<collective::RoutingState>();
    return keep(dispatched_, issue_dispatch(team, experts_->dispatch(), routing_, options()));
  }

  // The combine, when the dispatch is done.
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
    if (!layer_) return true;
    return dispatched_->done && (dispatched_->error || (combined_ != nullptr && combined_->done));
  }

  const collective::Task& task(int64_t i) const { return *tasks_[static_cast<size_t>(i)]; }

  // What is wrong. `may_fail` says whether a call (-1: of the layer) may end with this error.
  template <class MayFail>
  std::string objection(MayFail may_fail) const {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const std::string what = calls_[i].describe();
      if (!tasks_[i]->done) return "left waiting in " + what;
      if (!tasks_[i]->error) {
        if (std::string wrong = buffers_[i]->check(); !wrong.empty()) return wrong;
      } else if (!may_fail(static_cast<int64_t>(i), *tasks_[i]->error)) {
        return what + ": " + tasks_[i]->error->message;
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
  bool has_combined() const { return combined_ != nullptr && !combined_->error; }

 private:
  static std::string keep(collective::TaskPtr& place, Result<collective::TaskPtr> task) {
    if (!task) return task.error().message;
    place = *task;
    return "";
  }
  CallOptions options() const { return {.algorithm = layer_->algorithm}; }

  const std::vector<RandomCall>& calls_;
  const std::optional<Layer>& layer_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
  std::vector<collective::TaskPtr> tasks_;
  std::unique_ptr<LayerBuffers> experts_;
  collective::RoutingPtr routing_;
  collective::TaskPtr dispatched_, combined_;
};

}  // namespace weft::test
