// SPDX-License-Identifier: BSD-3-Clause
// What Numerics promises of bits: `fast` none but that all ranks have the same and none is wrong by
// more than rounding, `run` the same in every run, `any` whatever the size and algorithm. Sums of
// numbers of very different size change with every change of order, ranks come in random order, and
// the transports are several.
// ctest: realtime
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "lib/base/clock.hpp"
#include "lib/base/random.hpp"
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

constexpr size_t kCount = 20'000;
constexpr uint32_t kRanks = 4;

float contribution(uint32_t rank, size_t i) {
  base::Random random(i * kRanks + rank);
  return std::ldexp(static_cast<float>(random.below(1 << 24)) - 8e6F,
                    static_cast<int>(random.below(30)) - 40);
}

std::vector<float> contributions(uint32_t rank, size_t first, size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = contribution(rank, first + i);
  return all;
}

// Sums as bytes, by what they are to be equal for.
class Seen {
 public:
  std::string compare(const std::string& what, const std::vector<float>& sums) {
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = sums_.try_emplace(what, sums);
    const bool same = fresh || std::memcmp(known->second.data(), sums.data(), sums.size() * 4) == 0;
    return same ? "" : what + ": other bits than before";
  }
  const std::vector<float>& of(const std::string& what) { return sums_.at(what); }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> sums_;
};

struct Sum {
  size_t first = 0, count = kCount;
  std::string_view algorithm;
};

Result<std::vector<float>> sum_of(Communicator& group, const Sum& sum) {
  const std::vector<float> mine = contributions(group.rank(), sum.first, sum.count);
  std::vector<float> sums(sum.count);
  const Result<void> done = group
                                .all_reduce(mine.data(), sums.data(), sum.count, DataType::fp32,
                                            ReduceOp::sum, {.algorithm = sum.algorithm})
                                .wait();
  if (!done) return done.error();
  return sums;
}

// Ranks come in another order each time.
void be_late(uint32_t rank, int round) {
  base::Random random(static_cast<uint64_t>(round) * kRanks + rank);
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
}

std::vector<std::string> devices() { return {shm_device(), "roce+udp:lo", "srd+udp:lo"}; }

TEST_CASE("run: the same bits in every run, on every transport, whichever rank comes last") {
  Seen seen;
  for (const std::string& device : devices())
    check_ranks(kRanks, {.device = device, .numerics = Numerics::run},
                [&](Communicator& group) -> std::string {
                  for (int round = 0; round < 6; ++round) {
                    be_late(group.rank(), round);
                    for (const std::string_view algorithm :
                         {"", "ring", "halving_doubling", "double_tree", "direct", "swing"}) {
                      const auto sums = sum_of(group, {.algorithm = algorithm});
                      if (!sums) return sums.error().message;
                      if (const std::string differs =
                              seen.compare("by '" + std::string(algorithm) + "'", *sums);
                          !differs.empty())
                        return differs + " on " + device;
                    }
                  }
                  return "";
                });
  // The data would tell: another order gives other bits.
  CHECK(std::memcmp(seen.of("by 'ring'").data(), seen.of("by 'direct'").data(), kCount * 4) != 0);
}

TEST_CASE("any: the same bits whatever the size, the algorithm, the transport") {
  std::vector<float> wanted(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    wanted[i] = contribution(0, i);
    for (uint32_t rank = 1; rank < kRanks; ++rank) wanted[i] += contribution(rank, i);
  }
  for (const std::string& device : devices())
    check_ranks(
        kRanks, {.device = device, .numerics = Numerics::any},
        [&](Communicator& group) -> std::string {
          base::Random random(7);  // the same on all ranks
          for (int round = 0; round < 20; ++round) {
            be_late(group.rank(), round);
            Sum sum;
            sum.first = random.below(kCount);
            sum.count = 1 + random.below(kCount - sum.first);
            sum.algorithm = std::vector<std::string_view>{"", "direct", "single_step"}[round % 3];
            const auto sums = sum_of(group, sum);
            if (!sums) return sums.error().message;
            if (std::memcmp(sums->data(), &wanted[sum.first], sum.count * 4) != 0)
              return "not added in the order of ranks by '" + std::string(sum.algorithm) + "'";
          }
          return "";
        });
}

TEST_CASE("fast: all ranks have the same sums, which are wrong by rounding at most") {
  Seen seen;
  check_ranks(
      kRanks, {.device = shm_device(), .numerics = Numerics::fast},
      [&](Communicator& group) -> std::string {
        for (int round = 0; round < 6; ++round) {
          be_late(group.rank(), round);
          const auto sums = sum_of(group, {});
          if (!sums) return sums.error().message;
          if (const std::string differs = seen.compare("round " + std::to_string(round), *sums);
              !differs.empty())
            return differs;
          for (size_t i = 0; i < kCount; ++i) {
            double exact = 0, size = 0;
            for (uint32_t rank = 0; rank < kRanks; ++rank)
              exact += contribution(rank, i), size += std::abs(contribution(rank, i));
            if (std::abs((*sums)[i] - exact) > kRanks * size * 0x1p-24)
              return "element " + std::to_string(i) + " is wrong";
          }
        }
        return "";
      });
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("fast: a late rank holds up no sum of the others") {
  // Small ones are copied, large ones would be put in place if they were alone.
  const size_t count = GENERATE(as<size_t>(), 400, 20'000, 400'000);
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const std::string device = GENERATE(as<std::string>(), "shm", "srd+udp:lo");
  CAPTURE(count, name(type), device);
  std::atomic<uint32_t> ahead{0};
  check_ranks(kRanks,
              {.device = device == "shm" ? shm_device() : device, .numerics = Numerics::fast},
              [&](Communicator& group) -> std::string {
                const base::Clock& clock = base::Clock::process();
                const Instant end = clock.now() + Duration::from_s(30);
                std::vector<uint32_t> mine(count), sums(count);  // of four bytes, or of two
                if (group.rank() == 0)
                  while (ahead < kRanks - 1 && clock.now() < end) group.progress();
                if (group.rank() == 0 && ahead < kRanks - 1)
                  return "the others wait for rank 0 to add up what they have";
                Operation sum = group.all_reduce(mine.data(), sums.data(), count, type,
                                                 ReduceOp::sum, {.algorithm = "direct"});
                if (group.rank() != 0) {
                  // Every piece of the two others has been added.
                  const size_t block = count * size_of(type) / kRanks, slot = 64 * 1024;
                  const size_t in_slot = type == DataType::bf16 ? slot / 2 : slot;  // as fp32
                  const size_t pieces = 2 * ((block + in_slot - 1) / in_slot);
                  while (occurrences(group.trace(), "\"receive from ") < pieces) {
                    if (clock.now() > end) return "has not got what the others have";
                    if (const Result<bool> done = sum.test(); !done) return done.error().message;
                  }
                  ++ahead;
                }
                const Result<void> done = sum.wait();
                return done ? "" : done.error().message;
              });
}

TEST_CASE("promises have names") {
  CHECK(name(Numerics::fast) == "fast");
  CHECK(name(Numerics::run) == "run");
  CHECK(name(Numerics::any) == "any");
}

}  // namespace
}  // namespace weft::test
