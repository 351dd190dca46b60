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
    case Collective::all_reduce:
      // Into and out of one chip: its share of a reduce-scatter and of an all-gather.
      return inside == 1 || outside == 1 ? 2 * bytes * (n - 1) / n : bytes;
    default:
      return bytes;
  }
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
