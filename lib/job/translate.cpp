// SPDX-License-Identifier: BSD-3-Clause
// A put becomes a message (of a rank of several NICs: one from each), every other step work of its
// rank. The k-th put from a rank to another is what the k-th receive there waits for; receives of
// one peer are done in order. What follows a put waits for its acknowledgement, since it overwrites
// the source.
#include "lib/job/translate.hpp"

#include <map>
#include <tuple>

#include "lib/base/check.hpp"
#include "lib/collective/plan/plan.hpp"

namespace weft::job {
namespace {

using collective::Program;
using collective::Step;
using collective::StepKind;
using sim::flow::Task;
using sim::flow::TaskGraph;

class Translation {
 public:
  Translation(Job& job, const std::vector<Program>& programs,
              std::vector<sim::flow::FlowSpec>& flows, TaskGraph& tasks)
      : job_(job), programs_(programs), flows_(flows), tasks_(tasks) {
    for (uint32_t rank = 0; rank < job.ranks(); ++rank)
      plans_.push_back(collective::make_plan(job.shape, programs[rank]));
  }

  void run() {
    const uint32_t ranks = job_.ranks();
    job_.first_flow = static_cast<uint32_t>(flows_.size());
    job_.first_task = static_cast<uint32_t>(tasks_.tasks.size());
    std::vector<uint32_t> before(ranks);  // by rank: the end of the step before
    for (uint32_t& task : before) task = tasks_.add({.start_ns = job_.spec.start_ns});
    for (uint32_t step = 0; step < job_.spec.steps; ++step) {
      before = add_step(step, before);
      job_.step_ends.push_back(before);
    }
    job_.flows = static_cast<uint32_t>(flows_.size()) - job_.first_flow;
    job_.tasks = static_cast<uint32_t>(tasks_.tasks.size()) - job_.first_task;
  }

 private:
  std::vector<uint32_t> add_step(uint32_t step, const std::vector<uint32_t>& before) {
    const int64_t part_ns = job_.spec.compute_ns / job_.spec.buckets;
    std::vector<uint32_t> computed = before, sent = before, ends;
    for (uint32_t bucket = 0; bucket < job_.spec.buckets; ++bucket) {
      for (uint32_t& task : computed)
        if (part_ns > 0) task = work_after({task}, part_ns);
      const auto first = static_cast<uint32_t>(tasks_.tasks.size());
      sent = add_operation(computed, sent);
      job_.operations.push_back({step, first, static_cast<uint32_t>(tasks_.tasks.size())});
    }
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank)
      ends.push_back(work_after({computed[rank], sent[rank]}, 0));
    return ends;
  }

  uint32_t work_after(std::initializer_list<uint32_t> before, int64_t duration_ns) {
    const uint32_t task = tasks_.add({.delay_ns = duration_ns});
    for (const uint32_t earlier : before) tasks_.wait(task, earlier);
    return task;
  }

  // One operation: a rank begins after two tasks. Returns the task that ends it on each rank.
  std::vector<uint32_t> add_operation(const std::vector<uint32_t>& computed,
                                      const std::vector<uint32_t>& sent) {
    first_.assign(job_.ranks(), {});
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank) add_tasks(rank);
    std::vector<uint32_t> ends;
    for (uint32_t rank = 0; rank < job_.ranks(); ++rank) {
      add_waits(rank, {computed[rank], sent[rank]});
      match_receives(rank);
      ends.push_back(tasks_.add({}));
      tasks_.wait(ends.back(), sent[rank]);
      tasks_.wait(ends.back(), computed[rank]);
      for (uint32_t step = 0; step < programs_[rank].steps.size(); ++step)
        if (plans_[rank]->first_follower[step] == plans_[rank]->first_follower[step + 1])
          wait_for_step(ends.back(), rank, step);
    }
    return ends;
  }

  void add_tasks(uint32_t rank) {
    std::vector<uint32_t>& first = first_[rank];
    for (const Step& step : programs_[rank].steps) {
      first.push_back(static_cast<uint32_t>(tasks_.tasks.size()));
      if (step.kind == StepKind::put)
        add_messages(rank, step);
      else
        tasks_.add({});
    }
    first.push_back(static_cast<uint32_t>(tasks_.tasks.size()));
  }

  void add_messages(uint32_t rank, const Step& step) {
    const bool wide = collective::is_wide(job_.shape, step.source);
    const auto bytes = static_cast<uint64_t>(static_cast<double>(step.source.count) *
                                             (wide ? job_.accumulator : job_.element));
    WEFT_DCHECK(bytes > 0);
    const uint32_t nics = job_.spec.nics;
    for (uint32_t nic = 0; nic < nics; ++nic) {
      const uint64_t part = bytes * (nic + 1) / nics - bytes * nic / nics;
      if (part == 0) continue;
      const uint32_t flow = flow_of(rank, step.peer, nic);
      flows_[flow].bytes += part;
      tasks_.add({.flow = flow, .bytes = part});
    }
  }

  // The connection from a rank to another, between NICs of the same number.
  uint32_t flow_of(uint32_t from, uint32_t to, uint32_t nic) {
    const auto [entry, added] =
        connections_.try_emplace({from, to, nic}, static_cast<uint32_t>(flows_.size()));
    if (added)
      flows_.push_back({.start_ns = job_.spec.start_ns,
                        .src = job_.spec.hosts[from * job_.spec.nics + nic],
                        .dst = job_.spec.hosts[to * job_.spec.nics + nic],
                        .data_class = job_.spec.data_class});
    return entry->second;
  }

  void wait_for_step(uint32_t task, uint32_t rank, uint32_t step) {
    const bool put = programs_[rank].steps[step].kind == StepKind::put;
    for (uint32_t part = first_[rank][step]; part < first_[rank][step + 1]; ++part)
      tasks_.wait(task, part, put);
  }

  void add_waits(uint32_t rank, std::initializer_list<uint32_t> before) {
    const Program& program = programs_[rank];
    for (uint32_t step = 0; step < program.steps.size(); ++step)
      for (uint32_t task = first_[rank][step]; task < first_[rank][step + 1]; ++task) {
        for (const uint32_t earlier : program.dependencies_of(step))
          wait_for_step(task, rank, earlier);
        if (program.dependencies_of(step).empty())
          for (const uint32_t earlier : before) tasks_.wait(task, earlier);
      }
  }

  void match_receives(uint32_t rank) {
    for (const collective::PeerSteps& receives : plans_[rank]->receives) {
      const std::vector<uint32_t>& puts = puts_to(receives.peer, rank);
      WEFT_CHECK(puts.size() == receives.steps.size());
      for (size_t k = 0; k < puts.size(); ++k) {
        const uint32_t task = first_[rank][receives.steps[k]];
        for (uint32_t part = first_[receives.peer][puts[k]];
             part < first_[receives.peer][puts[k] + 1]; ++part)
          tasks_.wait(task, part);
        if (k > 0) tasks_.wait(task, first_[rank][receives.steps[k - 1]]);
      }
    }
  }

  const std::vector<uint32_t>& puts_to(uint32_t from, uint32_t to) const {
    static const std::vector<uint32_t> kNone;
    for (const collective::PeerSteps& puts : plans_[from]->puts)
      if (puts.peer == to) return puts.steps;
    return kNone;
  }

  Job& job_;
  const std::vector<Program>& programs_;
  std::vector<sim::flow::FlowSpec>& flows_;
  TaskGraph& tasks_;
  std::vector<std::shared_ptr<const collective::Plan>> plans_;  // by rank
  // Of the operation being added: by rank and step its first task; one entry more at the end.
  std::vector<std::vector<uint32_t>> first_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> connections_;
};

}  // namespace

void translate(Job& job, const std::vector<Program>& programs,
               std::vector<sim::flow::FlowSpec>& flows, TaskGraph& tasks) {
  Translation(job, programs, flows, tasks).run();
}

}  // namespace weft::job
