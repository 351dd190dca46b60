// SPDX-License-Identifier: BSD-3-Clause
// The results of a run as named columns: what weft_sim_columns() returns.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scenario/scenario.hpp"
#include "weft/sim.h"

namespace weft::c {

class SimColumns {
 public:
  SimColumns(const sim::scenario::Scenario& scenario, const sim::flow::RunResult& result);
  SimColumns(const SimColumns&) = delete;
  SimColumns& operator=(const SimColumns&) = delete;

  std::span<const weft_sim_column> all() const noexcept { return columns_; }

 private:
  using Values = std::variant<std::vector<int64_t>, std::vector<double>>;
  // A column with value(row) of each row.
  template <class Rows, class Value>
  void add(const char* name, const Rows& rows, Value value);

  std::vector<Values> values_;
  std::vector<weft_sim_column> columns_;
};

}  // namespace weft::c
