// SPDX-License-Identifier: BSD-3-Clause
// Predictions for programs, and lower bounds from cuts.
#include "lib/collective/model/flow_model.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/model/flow_loop.hpp"
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

Bound lower_bound(Collective collective, double bytes, const Topology& topology) {
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
  return bound;
}

}  // namespace weft::collective
