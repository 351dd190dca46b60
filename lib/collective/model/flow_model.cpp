// SPDX-License-Identifier: BSD-3-Clause
// Predictions of programs, and the bounds of cuts.
#include "lib/collective/model/flow_model.hpp"

#include <algorithm>

#include "lib/collective/model/alike.hpp"
#include "lib/collective/model/flow_loop.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kFew = 2048;  // chips

// The least that must go from `inside` chips to the `outside` ones.
double crossing(Collective collective, double bytes, double inside, double outside) {
  const double n = inside + outside;
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

// Of an all-reduce every element goes from group to group 2 (groups - 1) times: to be added up, and
// to be known. Which groups give more of these than others is for the schedule, so this is no bound
// of a single one, but of all: what they put on the links between them, over what these carry.
Bound bound_of_all(double bytes, uint32_t groups, double bytes_per_s, const char* name) {
  return {2 * bytes * (groups - 1.0) / bytes_per_s, name};
}

// Chips, and racks: from rack to rack one goes over a link of the first dimension.
Bound bound_of_all_reduce(double bytes, const Topology& topology) {
  double all = 0, between_racks = 0;
  for (const NetworkLink& link : topology.links) {
    if (link.from >= topology.chips) continue;
    all += link.bytes_per_s;
    if (topology.racks > 1 && link.medium == topology.media[0]) between_racks += link.bytes_per_s;
  }
  const Bound chips = bound_of_all(bytes, topology.chips, all, "all chips");
  if (topology.racks < 2) return chips;
  const Bound racks = bound_of_all(bytes, topology.racks, between_racks, "all racks");
  return racks.seconds > chips.seconds ? racks : chips;
}

}  // namespace

Prediction predict(const Shape& shape, const std::vector<Program>& programs, double element,
                   double accumulator, const Topology& topology, Routes& routes) {
  ProgramRun run(shape, programs, element, accumulator);
  const auto route_of = [&](const ProgramRun::Put& put) -> const Route& {
    return routes.between(put.from, put.to, put.along);
  };
  return FlowLoop(topology.links, run, route_of, topology.chips > kFew).run();
}

Prediction predict(const Algorithm& algorithm, const Shape& shape, double element,
                   double accumulator, const Topology& topology, Routes& routes) {
  if (topology.chips > kFew)
    if (std::optional<Prediction> alike =
            predict_alike(algorithm, shape, element, accumulator, topology, routes))
      return *std::move(alike);
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
          crossing(collective, bytes, inside, topology.chips - inside) / capacity(topology, side);
      if (seconds > bound.seconds) bound = {seconds, cut.name};
    }
  return bound;
}

}  // namespace weft::collective
