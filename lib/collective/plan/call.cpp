// SPDX-License-Identifier: BSD-3-Clause
// Text of a call for error messages and dumps.
#include "lib/collective/plan/call.hpp"

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

constexpr uint8_t kUsualClass = 2;  // omitted from the text

}  // namespace

std::string describe(const Call& call) {
  if (call.collective == Collective::exchange) return "exchange";
  std::string text = std::string(name(call.collective)) + " #" + std::to_string(call.sequence);
  if (call.collective == Collective::barrier && call.traffic_class == kUsualClass) return text;
  text += " (";
  if (!has_blocks(call.collective) || call.count > 0) text += std::to_string(call.count) + " ";
  text += name(call.type);
  if (reduces(call.collective)) text += ", " + std::string(name(call.op));
  if (call.collective == Collective::broadcast || call.collective == Collective::reduce)
    text += ", root " + std::to_string(call.root);
  if (call.algorithm < algorithms().size())
    text += ", " + std::string(algorithms()[call.algorithm].name);
  if (call.traffic_class != kUsualClass) text += ", class " + std::to_string(call.traffic_class);
  return text + ")";
}

}  // namespace weft::collective
