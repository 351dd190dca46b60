// SPDX-License-Identifier: BSD-3-Clause
// See swarm_atomics.hpp.
#include "tests/sim/swarm_atomics.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace weft::test {

namespace {

// Takes addends out of `pool` that sum up to `gap`, at most three of them; more are taken on trust.
bool explain(uint64_t gap, std::multiset<uint64_t>& pool) {
  if (gap == 0) return true;
  const uint64_t count = gap >> 40;
  if (count == 0 || count > pool.size()) return false;
  if (count > 3) return true;
  if (count == 1) {
    const auto at = pool.find(gap);
    if (at == pool.end()) return false;
    return pool.erase(at), true;
  }
  for (auto at = pool.begin(); at != pool.end() && *at <= gap; ++at) {
    const uint64_t one = *at;
    pool.erase(at);
    if (explain(gap - one, pool)) return true;
    at = pool.insert(one);
  }
  return false;
}

}  // namespace

std::string AddedWord::objection(uint64_t value) const {
  std::vector<Step> steps = known_;
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.original < b.original; });
  std::multiset<uint64_t> pool(unknown_.begin(), unknown_.end());
  uint64_t at = 0;
  for (const Step& step : steps) {
    if (step.original < at || !explain(step.original - at, pool))
      return "a FetchAdd returned " + std::to_string(step.original) + " where the word was " +
             std::to_string(at);
    at = step.original + step.addend;
  }
  if (value < at || !explain(value - at, pool))
    return "the word ended as " + std::to_string(value) + ", its FetchAdds as " +
           std::to_string(at);
  return "";
}

void SwappedWord::succeeded(uint64_t expected, uint64_t value, uint64_t original) {
  if (original == expected) {
    known_.push_back({expected, value});
    guess_ = value;
  } else {
    seen_.push_back(original);
    guess_ = original;
  }
}

std::string SwappedWord::objection(uint64_t value) const {
  std::map<uint64_t, uint64_t> came_from;
  for (const Step& step : known_) came_from[step.to] = step.from;
  for (const Step& step : unknown_) came_from[step.to] = step.from;
  std::set<uint64_t> history = {0};
  for (uint64_t at = value; at != 0; at = came_from[at]) {
    if (came_from.find(at) == came_from.end() || !history.insert(at).second)
      return "no CmpSwap wrote " + std::to_string(at);
  }
  for (const Step& step : known_)
    if (history.find(step.to) == history.end())
      return "a CmpSwap to " + std::to_string(step.to) + " left no trace";
  for (const uint64_t seen : seen_)
    if (history.find(seen) == history.end())
      return "a CmpSwap saw " + std::to_string(seen) + ", which the word never was";
  return "";
}

}  // namespace weft::test
