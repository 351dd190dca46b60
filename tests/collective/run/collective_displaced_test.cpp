// SPDX-License-Identifier: BSD-3-Clause
// Displaced blocks: gaps stay unchanged, and overlaps are refused. Schedules of displaced blocks
// are verified, too. WEFT_TEST_SEED=N replays a seed that failed.
#include <algorithm>
#include <numeric>

#include "lib/base/random.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tests/collective/plan/collective_random.hpp"

namespace weft::test {
namespace {

constexpr int32_t kGap = -7;

// Displacements in any order, with gaps.
std::vector<size_t> scatter(std::span<const size_t> counts, base::Random& random) {
  std::vector<size_t> order(counts.size()), at(counts.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  size_t next = 0;
  for (const size_t r : order) {
    next += random.below(3);
    at[r] = next;
    next += counts[r];
  }
  return at;
}

// Counts between all pairs, the same on all ranks.
std::vector<size_t> random_counts(size_t number, base::Random& random) {
  std::vector<size_t> counts(number);
  for (size_t& count : counts)
    count = random.below(3) == 0 ? 0 : random.below(random.below(2) == 0 ? 20 : 30'000);
  return counts;
}

std::string exchange_displaced(Communicator& group, uint64_t seed, const std::string& algorithm) {
  const uint32_t n = group.size(), self = group.rank();
  base::Random common(seed), own(seed + 1 + self);
  const std::vector<size_t> counts = random_counts(n * n, common);
  std::vector<size_t> send(n), receive(n);
  for (uint32_t r = 0; r < n; ++r) send[r] = counts[self * n + r];
  for (uint32_t r = 0; r < n; ++r) receive[r] = counts[r * n + self];
  const std::vector<size_t> from = scatter(send, own), to = scatter(receive, own);
  std::vector<int32_t> in(400'000), out(400'000, kGap), wanted = out;
  for (uint32_t r = 0; r < n; ++r)
    for (size_t i = 0; i < send[r]; ++i)
      in[from[r] + i] = static_cast<int32_t>(self * 1'000'003 + r * 100'003 + i);
  for (uint32_t r = 0; r < n; ++r)
    for (size_t i = 0; i < receive[r]; ++i)
      wanted[to[r] + i] = static_cast<int32_t>(r * 1'000'003 + self * 100'003 + i);
  const Result<void> done = group
                                .all_to_all_v(in.data(), send, from, out.data(), receive, to,
                                              DataType::int32, {.algorithm = algorithm})
                                .wait();
  if (!done) return done.error().message;
  return out == wanted ? "" : "wrong data";
}

std::string gather_displaced(Communicator& group, uint64_t seed) {
  const uint32_t n = group.size(), self = group.rank();
  base::Random common(seed), own(seed + 1 + self);
  const std::vector<size_t> counts = random_counts(n, common), to = scatter(counts, own);
  std::vector<int32_t> out(400'000, kGap), wanted = out;
  for (uint32_t r = 0; r < n; ++r)
    for (size_t i = 0; i < counts[r]; ++i)
      wanted[to[r] + i] = static_cast<int32_t>(r * 100'003 + i);
  for (size_t i = 0; i < counts[self]; ++i) out[to[self] + i] = wanted[to[self] + i];
  const Result<void> done =
      group.all_gather_v(&out[to[self]], out.data(), counts, to, DataType::int32).wait();
  if (!done) return done.error().message;
  return out == wanted ? "" : "wrong data";
}

TEST_CASE("displaced blocks arrive at their displacements, and gaps stay unchanged") {
  INFO("WEFT_TEST_SEED=" << base_seed());
  for (uint32_t ranks = 1; ranks <= 4; ++ranks)
    check_ranks(ranks, {.device = shm_device()}, [](Communicator& group) -> std::string {
      for (uint64_t round = 0; round < 12; ++round) {
        const uint64_t seed = base_seed() + 100 * round;
        std::string wrong = exchange_displaced(group, seed, round % 2 == 0 ? "direct" : "pairwise");
        if (wrong.empty()) wrong = gather_displaced(group, seed);
        if (!wrong.empty()) return wrong;
      }
      return "";
    });
}

TEST_CASE("invalid displacements are errors without side effects") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<int32_t> in(16), out(16);
    const std::vector<size_t> two = {2, 2}, apart = {0, 2}, over = {0, 1}, one = {0},
                              far = {0, SIZE_MAX / 2};
    const auto refused = [](Operation operation, const std::string& part) {
      const Result<void> done = operation.wait();
      return !done && contains(done.error().message, part);
    };
    const auto call = [&](const std::vector<size_t>& from, const std::vector<size_t>& to) {
      return group.all_to_all_v(in.data(), two, from, out.data(), two, to, DataType::int32);
    };
    if (!refused(call(apart, over), "overlap") || !refused(call(one, apart), "one entry") ||
        !refused(call(apart, {}), "one entry") || !refused(call(far, apart), "too large") ||
        !refused(group.all_gather_v(in.data(), out.data(), two, over, DataType::int32),
                 "overlap") ||
        !refused(group.all_gather_v(in.data(), nullptr, two, apart, DataType::int32), "null"))
      return "something was not refused";
    // Blocks that are only read may overlap.
    const Result<void> fine = call(over, apart).wait();
    return fine ? "" : fine.error().message;
  });
}

TEST_CASE("schedules of displaced blocks are right") {
  using collective::Shape;
  for (uint32_t ranks = 1; ranks <= 9; ++ranks)
    for (const std::string_view name : {"direct", "pairwise"}) {
      base::Random random(base_seed() + ranks);
      Shape shape{.collective = Collective::all_to_all_v, .ranks = ranks, .piece = 4};
      for (uint32_t i = 0; i < ranks * ranks; ++i) shape.blocks.counts.push_back(random.below(9));
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        std::vector<size_t> send, receive;
        for (uint32_t r = 0; r < ranks; ++r) {
          send.push_back(shape.blocks.counts[rank * ranks + r]);
          receive.push_back(shape.blocks.counts[r * ranks + rank]);
        }
        const std::vector<size_t> from = scatter(send, random), to = scatter(receive, random);
        shape.blocks.send_displacements.emplace_back(from.begin(), from.end());
        shape.blocks.receive_displacements.emplace_back(to.begin(), to.end());
      }
      const Result<void> proof = collective::verify(
          shape, programs_of(**collective::find_algorithm(name, shape.collective, ranks), shape));
      if (!proof) FAIL(ranks << " ranks, " << name << ": " << proof.error().message);
    }
}

}  // namespace
}  // namespace weft::test
