// SPDX-License-Identifier: BSD-3-Clause
// Numerics::any: contributions are added in the order of ranks, in fp32 for narrower types, and
// rounded once, whatever the operation, size, buffers, transport, loss and reordering. The bits are
// compared with those of a simple loop. WEFT_TEST_SEED=N replays
// a seed that failed.
// ctest: realtime
#include "tests/collective/plan/collective_random.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kOrderRanks = 4;
constexpr size_t kMost = 12'000;  // elements of the larger buffer

struct Reduction {
  uint64_t seed = 0;
  Collective collective = Collective::all_reduce;
  DataType type = DataType::fp32;
  size_t count = 0;  // as in the call
  uint32_t root = 0;
  bool in_place = false;
  std::string_view algorithm;

  bool scatters() const { return collective == Collective::reduce_scatter; }
  size_t elements() const { return scatters() ? count * kOrderRanks : count; }  // of an input
  std::string describe() const {
    return std::string(name(collective)) + " " + std::to_string(count) + " " +
           std::string(name(type)) + " root " + std::to_string(root) +
           (in_place ? " in place" : "") + " by '" + std::string(algorithm) + "'";
  }
};

// Numbers of very different magnitude, so that another order gives other bits.
std::vector<std::byte> reduction_input(const Reduction& r, uint32_t rank) {
  const size_t width = size_of(r.type);
  std::vector<std::byte> all(r.elements() * width);
  base::Random random(r.seed + rank);
  for (size_t i = 0; i < r.elements(); ++i) {
    const double mantissa = static_cast<double>(random.below(1 << 24)) - 8e6;
    encode(r.type, &all[i * width], std::ldexp(mantissa, static_cast<int>(random.below(20)) - 30));
  }
  return all;
}

std::vector<std::byte> in_order_of_ranks(const Reduction& r) {
  const size_t width = size_of(r.type);
  std::vector<float> sums(r.elements());
  std::vector<std::byte> all(r.elements() * width);
  for (uint32_t rank = 0; rank < kOrderRanks; ++rank) {
    const std::vector<std::byte> own = reduction_input(r, rank);
    for (size_t i = 0; i < sums.size(); ++i) {
      const float value = static_cast<float>(decode(r.type, &own[i * width]));
      sums[i] = rank == 0 ? value : sums[i] + value;
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) encode(r.type, &all[i * width], sums[i]);
  return all;
}

Result<void> call(Communicator& group, const Reduction& r, const std::byte* in, std::byte* out) {
  const CallOptions options{.algorithm = r.algorithm};
  switch (r.collective) {
    case Collective::reduce:
      return group.reduce(in, out, r.count, r.type, ReduceOp::sum, r.root, options).wait();
    case Collective::reduce_scatter:
      return group.reduce_scatter(in, out, r.count, r.type, ReduceOp::sum, options).wait();
    default:
      return group.all_reduce(in, out, r.count, r.type, ReduceOp::sum, options).wait();
  }
}

// Empty, or the error.
std::string check(Communicator& group, const Reduction& r) {
  const uint32_t rank = group.rank();
  const size_t width = size_of(r.type), share = r.count * width;
  std::vector<std::byte> in = reduction_input(r, rank), apart(r.elements() * width);
  std::byte* out = r.in_place ? in.data() : apart.data();
  if (r.in_place && r.scatters()) out += rank * share;
  if (Result<void> done = call(group, r, in.data(), out); !done)
    return r.describe() + ": " + done.error().message;
  if (r.collective == Collective::reduce && rank != r.root) return "";
  const std::vector<std::byte> wanted = in_order_of_ranks(r);
  const std::byte* const own = wanted.data() + (r.scatters() ? rank * share : 0);
  return std::memcmp(out, own, share) == 0 ? "" : r.describe() + ": not in the order of ranks";
}

// The same on all ranks.
Reduction draw(base::Random& random) {
  static constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::reduce,
                                                Collective::reduce_scatter};
  static constexpr DataType kTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16};
  Reduction r;
  r.seed = random.next();
  r.collective = kCollectives[random.below(3)];
  r.type = kTypes[random.below(3)];
  const size_t most = r.scatters() ? kMost / kOrderRanks : kMost;
  r.count = 1 + random.below(random.below(3) == 0 ? 200 : most);
  r.root = static_cast<uint32_t>(random.below(kOrderRanks));
  r.in_place = random.below(2) == 0;
  const uint64_t way = random.below(3);
  if (way == 1) r.algorithm = "direct";
  if (way == 2 && r.collective == Collective::all_reduce) r.algorithm = "single_step";
  return r;
}

TEST_CASE("any: the same bits for every operation, with loss and reordering") {
  constexpr const char* kFaults = ",fault.loss=0.02,fault.reorder=0.05,fault.seed=";
  const uint64_t seed = base_seed();
  INFO("replay: WEFT_TEST_SEED=" << seed << " collective_order_test");
  for (const std::string& device :
       {shm_device("roce"), shm_device("srd"), "roce+udp:lo" + (kFaults + std::to_string(seed)),
        "srd+udp:lo" + (kFaults + std::to_string(seed))}) {
    INFO(device);
    check_ranks(kOrderRanks,
                {.device = device, .numerics = Numerics::any, .patience = Duration::from_s(4)},
                [&](Communicator& group) -> std::string {
                  base::Random random(seed);
                  for (int round = 0; round < 24; ++round)
                    if (std::string wrong = check(group, draw(random)); !wrong.empty())
                      return wrong;
                  return "";
                });
  }
}

}  // namespace
}  // namespace weft::test
