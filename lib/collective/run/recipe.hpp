// SPDX-License-Identifier: BSD-3-Clause
// What a call was made into, once its arguments were checked. The same call made again, with the
// same buffers and options, is the same recipe with the next sequence number, so those made lately
// are kept, each with the task that was made of it last. Registrations of memory are no part of it.
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
  Duration predicted;                    // zero: by no model
  double learned = 1;                    // what the model's time was multiplied with for that
  bool small = false;                    // works on no memory that must be registered
};

struct Task;

class RecipeBook {
 public:
  struct Page {
    Recipe recipe;
    std::shared_ptr<Task> task;  // the last one made of it, if it may be used again
  };
  // What tells one call from another, for collectives without blocks: those change too often. The
  // call has no sequence, no fingerprint, no algorithm and no class; `wanted` is the algorithm's
  // name, or empty.
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
  // What chooses algorithms chooses others from now on.
  void clear() { entries_ = {}; }

 private:
  struct Entry {
    Call call;
    bool wanted = false;  // the algorithm, by name
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
