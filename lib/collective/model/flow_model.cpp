// SPDX-License-Identifier: BSD-3-Clause
// Predictions for programs, and lower bounds from cuts.
#include "lib/collective/model/flow_model.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/model/flow_loop.hpp"
#include "lib/collective/model/limits.hpp"
#include "lib/collective/model/symmetric.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kSymmetryThreshold = 2048;  // chips: above, use symmetry and coalesce events

// The minimum number of bytes that must cross from `inside` chips to `outside` chips.
double min_crossing_bytes(Collective collective, double bytes, double inside, double outside) {
  const double n = inside + outside;
  WEFT_DCHECK(inside > 0 && outside > 0 && bytes >= 0);
  switch (collective) {
    case Collective::all_to_all:
      return bytes * inside * outside / n;
    case Collective::all_gather:
      return bytes * inside / n;
    case Collective::reduce_scatter:
      return bytes * outside / n;
    default:
      return bytes;
  }
}

// In an all-reduce every element crosses between groups 2 (groups - 1) times: once per group to be
// added, once to be distributed. A schedule may load groups unequally, so this bounds the total:
// the bytes that all groups send, over the capacity of all links between them.
Bound bound_of_groups(double bytes, uint32_t groups, double bytes_per_s, const char* name) {
  WEFT_DCHECK(groups >= 1 && bytes_per_s > 0);
  return {2 * bytes * (groups - 1.0) / bytes_per_s, name};
}

// The larger of the bounds of chips and of racks, which are joined by the links of dimension 0.
Bound bound_of_all_reduce(double bytes, const Topology& topology) {
  double all = 0, between_racks = 0;
  for (const NetworkLink& link : topology.links) {
    if (link.from >= topology.chips) continue;
    all += link.bytes_per_s;
    if (topology.racks > 1 && link.medium == topology.media[0]) between_racks += link.bytes_per_s;
  }
  const Bound chips = bound_of_groups(bytes, topology.chips, all, "all chips");
  if (topology.racks < 2) return chips;
  const Bound racks = bound_of_groups(bytes, topology.racks, between_racks, "all racks");
  return racks.seconds > chips.seconds ? racks : chips;
}

// "out of chip 3", "into chip 3", "8 of 24 chips".
std::string name_of_cut(const std::vector<bool>& inside, bool turned) {
  const auto alone = [&](bool value) {
    return std::to_string(std::find(inside.begin(), inside.end(), value) - inside.begin());
  };
  const auto count = std::count(inside.begin(), inside.end(), true);
  const auto chips = static_cast<ptrdiff_t>(inside.size());
  if (count == 1) return (turned ? "into chip " : "out of chip ") + alone(true);
  if (count == chips - 1) return (turned ? "out of chip " : "into chip ") + alone(false);
  return std::to_string(std::min(count, chips - count)) + " of " + std::to_string(chips) + " chips";
}

// The worst of all cuts; 0 for operations that are not analysed.
Bound exact_bound(Collective collective, double bytes, const Topology& topology, uint32_t root) {
  const bool turned = scatters(collective) || collective == Collective::reduce;
  const Topology network = turned ? reversed(topology) : topology;
  Limit limit;
  if (gathers(collective) || scatters(collective)) {
    limit = gather_limit(network);
    limit.bytes_per_s *= topology.chips;
  } else if (collective == Collective::broadcast || collective == Collective::reduce) {
    limit = broadcast_limit(network, root);
  } else if (collective == Collective::all_reduce) {
    limit = all_reduce_limit(network);
  } else {
    return {};
  }
  WEFT_DCHECK(limit.bytes_per_s > 0);
  return {bytes / limit.bytes_per_s, limit.inside.empty()
                                         ? std::to_string(limit.groups) + " groups of chips"
                                         : name_of_cut(limit.inside, turned)};
}

}  // namespace

Prediction predict(const Shape& shape, const std::vector<Program>& programs, double element,
                   double accumulator, const Topology& topology, Routes& routes) {
  WEFT_DCHECK(programs.size() == shape.ranks && shape.ranks <= topology.chips);
  WEFT_DCHECK(element > 0 && accumulator >= element);
  ProgramRun run(shape, programs, element, accumulator);
  const auto route_of = [&](const ProgramRun::Put& put) -> const Route& {
    return routes.between(put.from, put.to, put.dimension);
  };
  return FlowLoop(topology.links, run, route_of, topology.chips > kSymmetryThreshold).run();
}

Prediction predict(const Algorithm& algorithm, const Shape& shape, double element,
                   double accumulator, const Topology& topology, Routes& routes) {
  if (topology.chips > kSymmetryThreshold)
    if (std::optional<Prediction> symmetric =
            predict_symmetric(algorithm, shape, element, accumulator, topology, routes))
      return *std::move(symmetric);
  return predict(shape, programs_of(algorithm, shape), element, accumulator, topology, routes);
}

Bound lower_bound(Collective collective, double bytes, const Topology& topology, uint32_t root) {
  Bound bound;
  if (topology.chips == 1) return bound;
  if (collective == Collective::all_reduce) bound = bound_of_all_reduce(bytes, topology);
  for (const Cut& cut : topology.cuts)
    for (const bool reversed : {false, true}) {
      Cut side = cut;
      if (reversed) side.inside.flip();
      const double inside =
          static_cast<double>(std::count(side.inside.begin(), side.inside.end(), true));
      const double seconds =
          min_crossing_bytes(collective, bytes, inside, topology.chips - inside) /
          capacity(topology, side);
      WEFT_DCHECK(seconds >= 0);
      if (seconds > bound.seconds) bound = {seconds, cut.name};
    }
  if (topology.chips > kMaxSynthesisChips) return bound;
  const Bound exact = exact_bound(collective, bytes, topology, root);
  return exact.seconds > bound.seconds * (1 + 1e-9) ? exact : bound;
}

}  // namespace weft::collective
