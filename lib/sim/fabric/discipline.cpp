// SPDX-License-Identifier: BSD-3-Clause
// See discipline.hpp.
#include "lib/sim/fabric/discipline.hpp"

#include "lib/base/module/plugin_table.hpp"

namespace weft::sim::fabric {
namespace {

base::PluginTable& loaded() {
  static base::PluginTable table({.symbol = "weft_queue_discipline",
                                  .macro = "WEFT_QUEUE_DISCIPLINE(kYours)",
                                  .header = "weft/simulation.hpp",
                                  .interface_number = simulation::kInterface});
  return table;
}

}  // namespace

Result<size_t> load_discipline(const std::string& path) {
  const Result<size_t> number = loaded().load(path);
  if (!number) return number.error();
  return *number + 1;
}

const simulation::QueueDiscipline* discipline_of(size_t number) {
  if (number == 0) return nullptr;
  return static_cast<const simulation::QueueDiscipline*>(loaded().exported(number - 1));
}

std::string discipline_name(size_t number) {
  return number == 0 ? "thresholds" : loaded().path(number - 1);
}

}  // namespace weft::sim::fabric
