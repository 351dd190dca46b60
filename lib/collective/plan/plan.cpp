// SPDX-License-Identifier: BSD-3-Clause
// Makes plans from programs.
#include "lib/collective/plan/plan.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

void append(std::vector<PeerSteps>& all, uint32_t peer, uint32_t step) {
  for (PeerSteps& of_peer : all)
    if (of_peer.peer == peer) {
      WEFT_DCHECK(of_peer.steps.back() < step);  // program order
      return of_peer.steps.push_back(step);
    }
  all.push_back({peer, {step}});
}

void find_followers(Plan& plan) {
  const size_t steps = plan.program.steps.size();
  plan.first_follower.assign(steps + 1, 0);
  for (const uint32_t earlier : plan.program.dependencies) ++plan.first_follower[earlier + 1];
  for (size_t i = 0; i < steps; ++i) plan.first_follower[i + 1] += plan.first_follower[i];
  plan.followers.resize(plan.program.dependencies.size());
  std::vector<uint32_t> next(plan.first_follower.begin(), plan.first_follower.end() - 1);
  for (uint32_t step = 0; step < steps; ++step)
    for (const uint32_t earlier : plan.program.dependencies_of(step)) {
      WEFT_DCHECK(earlier < step && next[earlier] < plan.first_follower[earlier + 1]);
      plan.followers[next[earlier]++] = step;
    }
}

}  // namespace

bool is_receive(StepKind kind) noexcept {
  return kind == StepKind::receive || kind == StepKind::receive_reduce;
}

bool is_local(StepKind kind) noexcept { return kind != StepKind::put && !is_receive(kind); }

std::shared_ptr<const Plan> make_plan(const Shape& shape, Program program) {
  const std::shared_ptr<Plan> plan = std::make_shared<Plan>();
  plan->shape = shape;
  plan->program = std::move(program);
  WEFT_DCHECK(plan->program.first_dependency.size() == plan->program.steps.size() + 1);
  WEFT_DCHECK(plan->program.first_dependency.back() == plan->program.dependencies.size());
  for (uint32_t step = 0; step < plan->program.steps.size(); ++step) {
    const Step& s = plan->program.steps[step];
    plan->initial.push_back(static_cast<uint32_t>(plan->program.dependencies_of(step).size()));
    if (s.kind == StepKind::put) append(plan->puts, s.peer, step);
    WEFT_DCHECK(is_local(s.kind) || s.peer < shape.ranks);
    if (is_receive(s.kind)) append(plan->receives, s.peer, step);
    if (is_local(s.kind) && plan->initial.back() == 0) plan->local.push_back(step);
  }
  plan->initial.resize(plan->initial.size() + plan->puts.size() + 2 * plan->receives.size());
  find_followers(*plan);
  WEFT_DCHECK(plan->first_follower.back() == plan->followers.size());
  return plan;
}

std::shared_ptr<const Plan> PlanCache::find(const Algorithm& algorithm, const Shape& shape,
                                            uint32_t rank) {
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].algorithm == &algorithm && entries_[i].plan->shape == shape) {
      std::rotate(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(i),
                  entries_.begin() + static_cast<ptrdiff_t>(i) + 1);
      return entries_.front().plan;
    }
  WEFT_DCHECK(rank < shape.ranks && entries_.size() <= kEntries);
  if (entries_.size() == kEntries) entries_.pop_back();
  entries_.insert(entries_.begin(),
                  {&algorithm, make_plan(shape, program_of(algorithm, shape, rank))});
  return entries_.front().plan;
}

}  // namespace weft::collective
