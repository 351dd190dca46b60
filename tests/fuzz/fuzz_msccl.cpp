// SPDX-License-Identifier: BSD-3-Clause
// Plans of MSCCL, which come from files of others: XML to plan, its order and its proof. No crash;
// an error has a reason; a plan that is accepted is written and read again as the same plan, and
// its programs are those of that one.
#include <string>

#include "lib/collective/msccl/program.hpp"
#include "tests/fuzz/input.hpp"
#include "tools/coll/msccl_xml.hpp"

using namespace weft;
using namespace weft::collective;
using fuzz::require;

namespace {

// Proofs take time by ranks x steps; larger plans say nothing more.
constexpr size_t kMostRanks = 8, kMostSteps = 64, kMostChunks = 64;

bool is_small(const MscclPlan& plan) {
  size_t steps = 0;
  uint64_t chunks = plan.chunks;
  for (const MscclRank& rank : plan.ranks) {
    chunks = std::max({chunks, uint64_t{rank.input_chunks}, uint64_t{rank.output_chunks},
                       uint64_t{rank.scratch_chunks}});
    for (const MscclBlock& block : rank.blocks) {
      steps += block.steps.size();
      for (const MscclStep& step : block.steps) chunks = std::max(chunks, uint64_t{step.count});
    }
  }
  return plan.ranks.size() <= kMostRanks && steps <= kMostSteps && chunks <= kMostChunks;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<MscclPlan> plan = bench::parse_msccl(text, "plan.xml");
  if (!plan) {
    require(!plan.error().message.empty(), "a reason");
    return 0;
  }
  const Result<MscclPlan> again = bench::parse_msccl(bench::msccl_xml(*plan), "plan.xml");
  require(again && *again == *plan, "the same plan");
  if (!is_small(*plan)) return 0;
  const Result<std::unique_ptr<MscclProgram>> program = MscclProgram::make(*plan);
  if (!program) {
    require(!program.error().message.empty(), "a reason");
    return 0;
  }
  const Result<std::unique_ptr<MscclProgram>> same = MscclProgram::make(*again);
  require(same && (*same)->fingerprint() == (*program)->fingerprint(), "the same program");
  return 0;
}
