// SPDX-License-Identifier: BSD-3-Clause
// See swarm_atomics.hpp.
#include "tests/roce/swarm/swarm_atomics.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace weft::test {

namespace {

using Pool = std::multiset<uint64_t>;

// Takes up to `most` addends out of `pool` that sum up to `gap`.
bool take_sum(uint64_t gap, int most, Pool::iterator from, Pool& pool) {
  if (gap == 0) return true;
  if (most == 0) return false;
  for (auto at = from; at != pool.end() && *at <= gap; ++at) {
    if (!take_sum(gap - *at, most - 1, std::next(at), pool)) continue;
    pool.erase(at);
    return true;
  }
  return false;
}

// Can addends of unknown fate explain the gap? Three of them are looked for; more are believed.
bool explain(uint64_t gap, Pool& pool) {
  if (take_sum(gap, 3, pool.begin(), pool)) return true;
  return gap >> 44 >= 4 && pool.size() >= 4;
}

}  // namespace

std::string AddedWord::invalid_reason(uint64_t value) const {
  std::vector<Step> steps = known_;
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.original < b.original; });
  Pool pool(unknown_.begin(), unknown_.end());
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

std::string SummedWord::invalid_reason(uint64_t value) const {
  Pool pool(unknown_.begin(), unknown_.end());
  if (value >= sum_ && explain(value - sum_, pool)) return "";
  return "the word is " + std::to_string(value) + ", its WRITE_ADDs sum up to " +
         std::to_string(sum_);
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

std::string SwappedWord::invalid_reason(uint64_t value) const {
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
