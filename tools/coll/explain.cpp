// SPDX-License-Identifier: BSD-3-Clause
// Figures of schedules: puts, elements, and the longest chain of messages, which is the latency.
#include "tools/coll/explain.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>

#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/model/forests.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "lib/collective/msccl/export.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tools/coll/msccl_xml.hpp"
#include "tools/coll/reference.hpp"

namespace weft::bench {
namespace {

using collective::Algorithm;
using collective::Program;
using collective::Shape;
using collective::Step;
using collective::StepKind;

constexpr uint64_t kMaxRows = 1 << 20;  // rows of tokens, which are listed one by one

// The longest chain of dependent puts over all ranks. Puts match receives in order, so repeating
// over the ranks until nothing changes finds it.
size_t longest_chain(const std::vector<Program>& programs) {
  const size_t ranks = programs.size();
  std::vector<std::vector<size_t>> depth(ranks);
  for (size_t r = 0; r < ranks; ++r) depth[r].assign(programs[r].steps.size(), 0);
  size_t longest = 0;
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<std::vector<size_t>> sent(ranks * ranks);
    for (size_t r = 0; r < ranks; ++r)
      for (size_t s = 0; s < programs[r].steps.size(); ++s)
        if (programs[r].steps[s].kind == StepKind::put)
          sent[r * ranks + programs[r].steps[s].peer].push_back(depth[r][s] + 1);
    std::vector<size_t> taken(ranks * ranks);
    for (size_t r = 0; r < ranks; ++r)
      for (size_t s = 0; s < programs[r].steps.size(); ++s) {
        const Step& step = programs[r].steps[s];
        size_t now = 0;
        for (const uint32_t earlier : programs[r].dependencies_of(s))
          now = std::max(now, depth[r][earlier]);
        if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
          const size_t link = step.peer * ranks + r;
          now = std::max(now, sent[link][taken[link]++]);
        }
        longest = std::max(longest, now);
        changed |= now != depth[r][s];
        depth[r][s] = now;
      }
  }
  return longest;
}

// "proven", or the violation.
std::string proof_of(const Algorithm& algorithm, const Shape& shape,
                     const std::vector<Program>& programs) {
  if (algorithm.collective == Collective::combine && algorithm.traits.by_rack &&
      shape.blocks.racks > 1)
    return "the part inside racks; a second call sends the sums across racks";
  const Result<void> proof = collective::verify(shape, programs);
  return proof ? "proven" : proof.error().message;
}

void print_summary(const Algorithm& algorithm, const Shape& shape,
                   const std::vector<Program>& programs) {
  uint64_t most = 0, work = 0;
  size_t puts = 0;
  for (const Program& program : programs) {
    uint64_t elements = 0;
    size_t own_puts = 0;
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::put) continue;
      elements += step.source.count;
      ++own_puts;
    }
    most = std::max(most, elements);
    puts = std::max(puts, own_puts);
    work = std::max(work, program.work);
  }
  std::printf("%-18s %8zu %10zu %12lu %12lu  %s\n", std::string(algorithm.name).c_str(),
              longest_chain(programs), puts, static_cast<unsigned long>(most),
              static_cast<unsigned long>(work), proof_of(algorithm, shape, programs).c_str());
}

void print_steps(const Program& program) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    std::string after;
    for (const uint32_t earlier : program.dependencies_of(s))
      after += (after.empty() ? "  after " : ", ") + std::to_string(earlier);
    std::printf("%5zu  %s%s\n", s, collective::to_string(program.steps[s]).c_str(), after.c_str());
  }
}

Result<void> write_msccl(const std::string& path, const Algorithm& algorithm, const Shape& shape,
                         const std::vector<Program>& programs) {
  const Result<collective::MscclPlan> plan =
      collective::msccl_plan_of(std::string(algorithm.name), shape, programs);
  if (!plan) return plan.error();
  std::ofstream file(path);
  file << msccl_xml(*plan);
  file.close();
  return file ? Result<void>() : Error{Code::io_error, "cannot write " + path};
}

}  // namespace

int explain(const CollOptions& o, const ExplainOptions& explained) {
  if (!has_schedules(o.collective)) {
    std::fprintf(stderr, "%s has no schedules to explain\n", operation_name(o).c_str());
    return 2;
  }
  if (uses_experts(o.collective) && explained.count > kMaxRows) {
    std::fprintf(stderr, "--count: explain takes at most %lu rows\n",
                 static_cast<unsigned long>(kMaxRows));
    return 2;
  }
  collective::Topology network;
  if (!explained.topology.empty()) {
    Result<collective::Topology> read = collective::read_topology(explained.topology);
    if (!read) {
      std::fprintf(stderr, "%s\n", read.error().message.c_str());
      return 2;
    }
    network = *std::move(read);
  }
  const uint32_t ranks = network.chips != 0 ? network.chips : o.ranks.value_or(4);
  if (ranks == 0 || ranks > collective::kMaxVerifiedRanks || o.root >= ranks) {
    std::fprintf(stderr, "explain takes 1 to %u ranks, and a --root below --ranks\n",
                 collective::kMaxVerifiedRanks);
    return 2;
  }
  const bool reduces = collective::reduces(o.collective);
  const uint64_t count = explained.count != 0 ? explained.count : 4 * uint64_t{ranks};
  Shape shape = shape_of(o, ranks, count);
  shape.exact = !reduces || collective::arithmetic_of(o.type, o.op).exact;
  shape.average = reduces && o.op == ReduceOp::avg;
  shape.dimensions = network.dimensions;
  shape.blocks.racks = network.racks;
  shape.wave = explained.wave;
  std::printf("%s of %lu %s, %u ranks%s%s; per rank, at most:\n",
              std::string(name(o.collective)).c_str(), static_cast<unsigned long>(shape.count),
              std::string(name(o.type)).c_str(), ranks, network.name.empty() ? "" : " of ",
              network.name.c_str());
  std::printf("%-18s %8s %10s %12s %12s\n", "algorithm", "chain", "puts", "elements sent", "work");
  bool found = false;
  collective::Forests forests(network);
  for (const Algorithm& algorithm : collective::algorithms()) {
    if (algorithm.collective != o.collective) continue;
    if (!o.algorithm.empty() && algorithm.name != o.algorithm) continue;
    if (algorithm.traits.power_of_two && !std::has_single_bit(ranks)) continue;
    if (const Result<void> able = collective::fits(algorithm, shape); !able) {
      std::printf("%-18s %s\n", std::string(algorithm.name).c_str(), able.error().message.c_str());
      continue;
    }
    found = true;
    shape.forest = algorithm.traits.over_forest ? forests.of(o.collective, shape.root) : nullptr;
    const std::vector<Program> programs = collective::programs_of(algorithm, shape);
    print_summary(algorithm, shape, programs);
    if (explained.rank && *explained.rank < ranks) print_steps(programs[*explained.rank]);
    if (explained.msccl_file.empty()) continue;
    const Result<void> written = write_msccl(explained.msccl_file, algorithm, shape, programs);
    if (!written) {
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      return 1;
    }
  }
  if (found) return 0;
  const Result<const Algorithm*> why = collective::find_algorithm(o.algorithm, o.collective, ranks);
  std::fprintf(stderr, "%s\n", why ? "nothing to explain" : why.error().message.c_str());
  return 2;
}

}  // namespace weft::bench
