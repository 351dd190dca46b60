// SPDX-License-Identifier: BSD-3-Clause
// Recipes: calls whose arguments are checked and whose plan is made. The same call repeated, with
// the same buffers and options, is the same recipe with the next sequence number, so the latest
// ones are cached, each with the task last made of it. A recipe has no memory registrations.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "lib/base/check.hpp"
#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/plan/call.hpp"
#include "lib/collective/plan/plan.hpp"
#include "weft/units.hpp"

namespace weft::collective {

struct Recipe {
  Call call;
  std::shared_ptr<const Plan> plan;
  Arithmetic arithmetic;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  Duration limit;
  const Algorithm* algorithm = nullptr;  // null: an exchange
  Duration predicted;                    // zero: no model
  double learned = 1;                    // correction that `predicted` contains
  bool small = false;                    // needs no registered memory
};

struct Task;

class RecipeBook {
 public:
  struct Page {
    Recipe recipe;
    std::shared_ptr<Task> task;  // the last one made of it, if it can be reused
  };
  // Identifies a call. Only collectives without blocks are cached, since blocks change too often.
  // `call` has no sequence, fingerprint, algorithm or class; `wanted` is the algorithm's name, or
  // empty.
  struct Key {
    Call call;
    uint32_t traffic_class = 0;
    const void* input = nullptr;
    const void* output = nullptr;
    Duration limit;
    std::string_view wanted;
  };

  Page* find(const Key& key) {
    for (Entry& entry : entries_)
      if (entry.page.recipe.plan && entry.is(key)) return &entry.page;
    return nullptr;
  }
  void keep(const Key& key, const Recipe& recipe) {
    WEFT_DCHECK(recipe.plan && recipe.call.collective != Collective::exchange);
    entries_[next_++ % entries_.size()] = {key.call, !key.wanted.empty(), {recipe, nullptr}};
  }
  // To be called when the choice of algorithms changes.
  void clear() { entries_ = {}; }

 private:
  struct Entry {
    Call call;
    bool wanted = false;  // the caller named the algorithm
    Page page;

    bool is(const Key& key) const {
      const Recipe& recipe = page.recipe;
      return recipe.input == key.input && recipe.output == key.output && call == key.call &&
             recipe.call.traffic_class == key.traffic_class && recipe.limit == key.limit &&
             wanted == !key.wanted.empty() && (!wanted || recipe.algorithm->name == key.wanted);
    }
  };

  std::array<Entry, 8> entries_{};
  size_t next_ = 0;
};

}  // namespace weft::collective
