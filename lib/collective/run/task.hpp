// SPDX-License-Identifier: BSD-3-Clause
// A task: one call of this rank from issue to its end. It waits in the queue of its lane, runs when
// it is at the front, and keeps its result for the operation handles that share it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/collective/run/recipe.hpp"
#include "lib/collective/run/registration_cache.hpp"

namespace weft::collective {

struct Task : Recipe {
  Task() = default;
  explicit Task(const Recipe& recipe) : Recipe(recipe) {}
  std::vector<RegisteredPtr> registered;
  RegisteredPtr work;
  Instant issued, started;
  Instant deadline = Instant::never();  // issued + limit; once canceled, of its draining
  Duration took;                        // once it is done
  uint64_t placed_at_start = 0;         // Executor::placed() then
  // For a plan that depends on earlier tasks: makes it when the task reaches the front. Sets
  // `error` if all ranks come to the same refusal; a returned error fails the whole team.
  std::function<Result<void>(Task&)> prepare;
  std::function<void(Task&)> complete;  // called when the plan is finished
  std::vector<std::function<void(const Result<void>&)>> callbacks;
  uint64_t preceding = 0;                    // sequence number of the collective issued before it
  std::vector<std::shared_ptr<Task>> parts;  // earlier tasks of the same call
  uint32_t canceled_by = 0;                  // with Code::canceled
  std::string cancel_reason;
  std::vector<uint32_t> advertised_ranks;  // canceled: ranks that may still write to its memory
  bool done = false;
  std::optional<Error> error;

  // While it runs nothing else is called that could end it and remove it from its lane.
  bool is_plain() const { return !prepare && !complete && parts.empty(); }
};
using TaskPtr = std::shared_ptr<Task>;

}  // namespace weft::collective
