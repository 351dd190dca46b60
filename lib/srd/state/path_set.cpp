// SPDX-License-Identifier: BSD-3-Clause
// See path_set.hpp.
#include "lib/srd/state/path_set.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace weft::srd {

using congestion::PathFeedback;

namespace {
constexpr uint32_t kProbeUs = 1000;  // until a suspended path is probed, the first time
constexpr uint8_t kMostDoublings = 10;
constexpr uint32_t kPacketsPerProbe = 64;
constexpr uint32_t kReviewEvery = 64;  // round trips, until slow paths are searched
constexpr uint32_t kSlowFactor = 2;    // times the fastest path, and
constexpr uint32_t kSlowNs = 5000;     // more
constexpr Duration kFirstRtt = Duration::from_us(100);  // until one is measured
}  // namespace

void PathSet::start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed) {
  choice_ = choice;
  const uint32_t before = states_ != nullptr ? count_ : 0;
  size_ = count_ = std::clamp(count, 1u, kMostPaths);
  most_in_flight_ = in_flight;
  random_ = base::Random(seed ^ 0x9E3779B97F4A7C15);
  suspended_ = measured_ = last_route_ = last_probed_ = since_probe_ = 0;
  quiet_until_ = Instant{};
  slow_ns_ = UINT32_MAX;
  if (before != count_) states_.reset(new PathState[count_]);
  std::fill_n(states_.get(), count_, PathState{});
  routes_.resize(route_count_ = 1);
  std::fill(std::begin(in_flight_), std::end(in_flight_), 0);
  start_policy(routes_[0], seed);
}

void PathSet::start_policy(RouteState& route, uint64_t seed) {
  route.suspended = route.lost = 0;
  route.policy.start(
      {.choice = choice_, .count = size_, .in_flight = most_in_flight_, .rtt = kFirstRtt}, seed);
}

void PathSet::grow(uint32_t routes) {
  if (routes <= route_count_) return;
  WEFT_DCHECK(routes <= kMostRoutes && states_ != nullptr);
  const uint32_t count = std::min(routes * size_, kMostPaths);
  const auto extended = [&](const auto& array) {
    using Array = std::remove_cvref_t<decltype(array)>;
    Array longer(array != nullptr ? new typename Array::element_type[count] : nullptr);
    if (array != nullptr) std::copy_n(array.get(), count_, longer.get());
    return longer;
  };
  auto states = extended(states_);
  auto tallies = extended(tallies_);
  std::vector<RouteState> all(routes);
  for (size_t i = routes_.size(); i < routes; ++i) start_policy(all[i], random_.next());
  std::move(routes_.begin(), routes_.end(), all.begin());
  routes_ = std::move(all);
  states_ = std::move(states);
  tallies_ = std::move(tallies);
  route_count_ = routes;
  count_ = count;
}

void PathSet::count_packets(bool wanted) {
  tallies_.reset(wanted ? new PathTally[count_] : nullptr);
}

// The route in service with the least in flight, round-robin where they are equal; a suspended one,
// or `except`, only if there is no other.
uint32_t PathSet::next_route(uint32_t except) noexcept {
  const uint32_t count = route_count_;
  const auto rank = [&](uint32_t route) { return 2u * !in_service(route) + (route == except); };
  uint32_t best = (last_route_ + 1) % count;
  for (uint32_t i = 2; i <= count; ++i) {
    const uint32_t route = (last_route_ + i) % count;
    const uint32_t a = rank(route), b = rank(best);
    if (a < b || (a == b && in_flight_[route] < in_flight_[best])) best = route;
  }
  return last_route_ = best;
}

uint8_t PathSet::choose(Instant now) noexcept {
  if (count_ == 1) return 0;
  const bool one = route_count_ == 1 || choice_ == PathChoice::single;
  return choose_on(one ? 0 : next_route(kNone), now);
}

uint8_t PathSet::choose_on(uint32_t route, Instant now) noexcept {
  RouteState& w = routes_[route];
  uint32_t path = w.policy.next(now);
  const uint32_t first = route * size_;
  WEFT_DCHECK(route < route_count_ && path < size_);
  if (choice_ == PathChoice::single || w.suspended == 0 || w.suspended == size_)
    return static_cast<uint8_t>(first + path);
  for (uint32_t tries = 0; tries < 2 * size_ && is_unfit(first + path); ++tries)
    path = w.policy.next(now);
  for (uint32_t tries = 0; tries < size_ && is_unfit(first + path); ++tries)
    path = (path + 1u) % size_;
  return static_cast<uint8_t>(first + path);
}

uint32_t PathSet::take_probe(Instant now) noexcept {
  if (suspended_ == 0 || choice_ == PathChoice::single) return kNone;
  const bool quiet = now < quiet_until_ && since_probe_ < kPacketsPerProbe;
  const uint32_t us = us_of(now);
  uint32_t path = last_probed_;
  for (uint32_t i = 0; i < count_; ++i) {
    if (++path >= count_) path = 0;
    PathState& state = states_[path];
    if (!state.suspended || static_cast<int32_t>(us - state.probe_at_us) < 0) continue;
    if (quiet && !is_dead(path)) continue;
    state.probe_at_us = us + (kProbeUs << state.probes);
    state.probes = static_cast<uint8_t>(std::min<int>(state.probes + 1, kMostDoublings));
    last_probed_ = path;
    if (!is_dead(path)) {
      quiet_until_ = now + Duration::from_us(kProbeUs);
      since_probe_ = 0;
    }
    return path;
  }
  return kNone;
}

uint8_t PathSet::choose_other(uint8_t bad, Instant now) noexcept {
  if (choice_ == PathChoice::single) return choose(now);
  const uint32_t bad_route = route_of(bad);
  const uint32_t route = route_count_ == 1 ? 0 : next_route(bad_route);
  uint8_t path = choose_on(route, now);
  if (route != bad_route) return path;
  for (uint32_t tries = 0; tries < 4 && path == bad; ++tries) path = choose_on(route, now);
  if (path != bad || size_ == 1) return path;
  const uint32_t first = route * size_;
  return static_cast<uint8_t>(first + (bad - first + 1 + random_.below(size_ - 1)) % size_);
}

void PathSet::on_arrival(uint8_t path, uint16_t path_sequence) noexcept {
  PathState& state = states_[path];
  const auto ahead = static_cast<int16_t>(path_sequence - state.acked_sequence);
  if (ahead > 0 || !state.ever_acked) state.acked_sequence = path_sequence;
  state.ever_acked = true;
  if (is_dead(path)) state.rtt_ns = 0;  // from before it died
  state.lost = 0;
  routes_[route_of(path)].lost = 0;
  if (!is_unfit(path)) resume(path);
}

void PathSet::on_ack(uint8_t path, bool marked, Instant now) noexcept {
  if (tallies_ != nullptr) tallies_[path].marked += marked;
  if (count_ == 1) return;  // no policy chooses
  feed(path, marked ? PathFeedback::marked : PathFeedback::good, now);
}

// Of a slow path only the newest round trip counts: it may not be slow any more.
void PathSet::on_rtt(uint8_t path, Duration rtt, Instant now) noexcept {
  PathState& state = states_[path];
  const int64_t old = state.rtt_ns != 0 && !is_slow(path) ? state.rtt_ns : rtt.ns();
  state.rtt_ns =
      static_cast<uint32_t>(std::clamp<int64_t>(old + (rtt.ns() - old) / 8, 1, UINT32_MAX));
  if (++measured_ >= kReviewEvery) find_slow_paths(now);
}

void PathSet::find_slow_paths(Instant now) noexcept {
  measured_ = 0;
  uint32_t fastest = UINT32_MAX;
  for (uint32_t i = 0; i < count_; ++i)
    if (states_[i].rtt_ns != 0 && !is_dead(i)) fastest = std::min(fastest, states_[i].rtt_ns);
  slow_ns_ = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{fastest} * kSlowFactor + kSlowNs, UINT32_MAX));
  for (uint32_t i = 0; i < count_; ++i) is_unfit(i) ? suspend(i, now) : resume(i);
}

void PathSet::on_loss(uint8_t path, Instant now) noexcept {
  PathState& state = states_[path];
  if (tallies_ != nullptr) ++tallies_[path].lost;
  if (!is_dead(path) && ++state.lost == kDead) suspend(path, now);
  count_loss(route_of(path), now);
  feed(path, PathFeedback::not_arrived, now);
}

void PathSet::on_timeout(uint8_t path, Instant now) noexcept {
  if (tallies_ != nullptr) ++tallies_[path].lost;
  if (!is_dead(path)) {
    states_[path].lost = kDead;
    suspend(path, now);
  }
  count_loss(route_of(path), now);
  feed(path, PathFeedback::timed_out, now);
}

// Losses in a row on different paths of a route: the route is dead.
void PathSet::count_loss(uint32_t route, Instant now) noexcept {
  if (route_count_ == 1 || !in_service(route) || ++routes_[route].lost < kDeadRoute) return;
  routes_[route].lost = 0;
  for (uint32_t path = route * size_; path < (route + 1) * size_; ++path) {
    states_[path].lost = kDead;
    suspend(path, now);
  }
}

void PathSet::on_trimmed(uint8_t path, bool last_hop, Instant now) noexcept {
  if (tallies_ != nullptr) ++tallies_[path].lost;
  feed(path, last_hop ? PathFeedback::good : PathFeedback::not_arrived, now);
}

void PathSet::suspend(uint32_t path, Instant now) noexcept {
  WEFT_DCHECK(path < count_);
  PathState& state = states_[path];
  if (state.suspended) return;
  state.suspended = true;
  state.probe_at_us = us_of(now) + kProbeUs;
  ++suspended_;
  ++routes_[route_of(path)].suspended;
}

void PathSet::end_suspension(uint32_t path) noexcept {
  WEFT_DCHECK(suspended_ > 0 && routes_[route_of(path)].suspended > 0);
  states_[path].suspended = false;
  --suspended_;
  --routes_[route_of(path)].suspended;
}

PathReport PathSet::report(uint32_t path) const noexcept {
  const PathState& state = states_[path];
  PathReport report{.rtt = Duration::from_ns(state.rtt_ns)};
  if (is_dead(path))
    report.health = state.probes != 0 ? PathHealth::probing : PathHealth::dead;
  else if (is_slow(path))
    report.health = PathHealth::slow;
  if (tallies_ == nullptr) return report;
  report.sent = tallies_[path].sent;
  report.lost = tallies_[path].lost;
  report.marked = tallies_[path].marked;
  return report;
}

uint32_t PathSet::in_flight() const noexcept {
  uint32_t sum = 0;
  for (uint32_t route = 0; route < route_count_; ++route) sum += in_flight_[route];
  return sum;
}

void PathSet::check_invariants() const noexcept {
  WEFT_DCHECK(route_count_ >= 1 && route_count_ <= kMostRoutes && routes_.size() >= route_count_);
  WEFT_DCHECK(count_ >= 1 && count_ <= kMostPaths && count_ <= route_count_ * size_);
  uint32_t all = 0;
  for (uint32_t route = 0; route < route_count_; ++route) {
    uint32_t suspended = 0;
    for (uint32_t path = route * size_; path < std::min(count_, (route + 1) * size_); ++path)
      suspended += states_[path].suspended;
    WEFT_DCHECK(suspended == routes_[route].suspended);
    all += suspended;
  }
  WEFT_DCHECK(all == suspended_);
}

uint32_t PathSet::dead() const noexcept {
  uint32_t dead = 0;
  for (uint32_t i = 0; i < count_; ++i) dead += is_dead(i);
  return dead;
}

uint32_t PathSet::slow() const noexcept {
  uint32_t slow = 0;
  for (uint32_t i = 0; i < count_; ++i) slow += is_slow(i);
  return slow;
}

}  // namespace weft::srd
