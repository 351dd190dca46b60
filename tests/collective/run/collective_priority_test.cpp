// SPDX-License-Identifier: BSD-3-Clause
// Priorities of lanes: calls of less urgent classes yield while an urgent one advances, for a
// limited time. Two ranks in one thread, which alternates between them in virtual time, a
// microsecond each.
// program: own
#include <deque>

#include "lib/base/virtual_process.hpp"
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

std::atomic<bool> stands_still{false};
std::atomic<int64_t> test_ps{0};

// Advances automatically while the ranks connect, and when they leave.
Instant test_now() {
  if (!stands_still) test_ps += 1'000'000;
  return Instant{test_ps};
}
const bool kInTestTime = base::live_in_virtual_time(test_now);

class PriorityPair {
 public:
  explicit PriorityPair(const std::string& provider) {
    REQUIRE(kInTestTime);
    char directory[] = "/tmp/weft-turns-XXXXXX";
    REQUIRE(mkdtemp(directory) != nullptr);
    const CommunicatorOptions options{.device = shm_device(provider) + ",single_thread=1",
                                      .limit = Duration::from_s(1'000'000),
                                      .connect_limit = Duration::from_s(1'000'000),
                                      .patience = Duration::from_s(100),
                                      .traffic_class = 0,
                                      .more_classes = {3}};
    on_both([&](uint32_t rank) {
      const auto store = std::move(*Store::open(std::string("file:") + directory, false));
      Result<Communicator> made = Communicator::create(*store, rank, 2, options);
      if (!made || !made->barrier().wait() || !made->barrier({.traffic_class = 3}).wait()) return;
      groups_[rank] = std::make_unique<Communicator>(std::move(*made));
    });
    std::filesystem::remove_all(directory);
    REQUIRE(groups_[0]);
    REQUIRE(groups_[1]);
    stands_still = true;
  }
  ~PriorityPair() {
    stands_still = false;
    on_both([&](uint32_t rank) { groups_[rank].reset(); });
  }

  Operation sum(uint32_t rank, size_t bytes, uint32_t traffic_class) {
    std::vector<float>& data = data_[rank].emplace_back(bytes / sizeof(float), 1.0F);
    return groups_[rank]->all_reduce(data.data(), data.data(), data.size(), DataType::fp32,
                                     ReduceOp::max, {.traffic_class = traffic_class});
  }
  void turn() {
    for (const auto& group : groups_) group->progress();
    test_ps += 1'000'000;
  }
  // The turns that both need, at most this many.
  int turns_until_done(const Operation (&both)[2], int most) {
    int turns = 0;
    for (; turns < most && !(both[0].done() && both[1].done()); ++turns) turn();
    return turns;
  }

 private:
  static void on_both(const std::function<void(uint32_t)>& what) {
    std::thread other(what, 1);
    what(0);
    other.join();
  }
  std::unique_ptr<Communicator> groups_[2];
  std::deque<std::vector<float>> data_[2];
};

constexpr size_t kBulk = 128 << 10, kUrgent = 16 << 20;

TEST_CASE("an earlier call of a less urgent class yields to an urgent call that advances") {
  for (const std::string provider : {"roce", "srd"}) {
    INFO(provider);
    PriorityPair pair(provider);
    const Operation bulk[] = {pair.sum(0, kBulk, 3), pair.sum(1, kBulk, 3)};
    const Operation urgent[] = {pair.sum(0, kUrgent, 0), pair.sum(1, kUrgent, 0)};
    CHECK(pair.turns_until_done(urgent, 400) < 400);
    CHECK(!bulk[0].done());
    CHECK(!bulk[1].done());
    CHECK(pair.turns_until_done(bulk, 400) < 400);
  }
}

TEST_CASE("a less urgent call advances while the urgent one waits for a rank") {
  PriorityPair pair("roce");
  const Operation bulk[] = {pair.sum(0, kUrgent, 3), pair.sum(1, kUrgent, 3)};
  const Operation waits = pair.sum(0, kBulk, 0);
  CHECK(pair.turns_until_done(bulk, 2000) < 2000);
  const Operation urgent[] = {waits, pair.sum(1, kBulk, 0)};
  CHECK(pair.turns_until_done(urgent, 400) < 400);
}

TEST_CASE("back-to-back urgent calls do not starve the others") {
  PriorityPair pair("roce");
  const Operation bulk[] = {pair.sum(0, kBulk, 3), pair.sum(1, kBulk, 3)};
  int calls = 0;
  for (; calls < 5000 && !(bulk[0].done() && bulk[1].done()); ++calls) {
    const Operation urgent[] = {pair.sum(0, 1024, 0), pair.sum(1, 1024, 0)};
    REQUIRE(pair.turns_until_done(urgent, 400) < 400);
  }
  CHECK(calls > 100);
  CHECK(calls < 5000);
}

}  // namespace
}  // namespace weft::test
