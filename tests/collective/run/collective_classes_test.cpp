// SPDX-License-Identifier: BSD-3-Clause
// Calls of several traffic classes in one communicator: they are independent, and each is matched
// with the same call on the other ranks. WEFT_TEST_SEED=N replays a seed that failed.
#include <cstdlib>
#include <fstream>
#include <map>

#include "lib/base/random.hpp"
#include "tests/collective/run/collective_ranks.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

uint64_t base_seed() {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20261123;
}

std::vector<std::string> devices() {
  return {shm_device("roce"), shm_device("srd"), "srd+udp:lo,fault.loss=0.02"};
}

// The call of class 2 cannot end before rank 1 has ended the later one of class 0.
TEST_CASE("a call of another class overtakes one that waits") {
  for (const std::string& device : devices()) {
    INFO(device);
    check_ranks(2, {.device = device, .more_classes = {0}}, [](Communicator& group) -> std::string {
      std::vector<int32_t> bulk(50'000, 1);
      const CallOptions urgent{.limit = Duration::from_s(20), .traffic_class = 0};
      for (int32_t round = 0; round < 10; ++round) {
        const int32_t mine[] = {round, round};
        int32_t all[2] = {};
        const auto share = [&] {
          return group.all_to_all(mine, all, 1, DataType::int32, urgent).wait();
        };
        if (group.rank() == 1) {
          if (Result<void> done = share(); !done) return done.error().message;
          if (Result<void> done = group.send(bulk.data(), 4 * bulk.size(), 0).wait(); !done)
            return done.error().message;
          continue;
        }
        std::vector<int32_t> come(bulk.size());
        Operation receive = group.receive(come.data(), 4 * come.size(), 1);
        if (Result<void> done = share(); !done) return done.error().message;
        if (all[0] != round || all[1] != round) return "wrong data";
        if (Result<void> done = receive.wait(); !done) return done.error().message;
        if (come != bulk) return "wrong bulk data";
      }
      return "";
    });
  }
}

struct Sum {
  std::vector<int32_t> in, out;
  std::optional<Operation> operation;
};

// Many calls of random classes in progress at once, waited for in any order.
std::string random_sums(Communicator& group, uint64_t seed, uint64_t rounds) {
  base::Random random(seed);  // the same on all ranks
  for (uint64_t round = 0; round < rounds; ++round) {
    std::vector<Sum> sums(8);
    for (Sum& sum : sums) {
      const size_t count = 1 + random.below(random.below(2) == 0 ? 100 : 60'000);
      const int32_t first = static_cast<int32_t>(random.below(1000));
      const uint32_t classes[] = {0, 2, 3};
      const CallOptions options{.traffic_class = classes[random.below(3)]};
      sum.in.assign(count, first + static_cast<int32_t>(group.rank()));
      sum.out.assign(count, -1);
      sum.operation = group.all_reduce(sum.in.data(), sum.out.data(), count, DataType::int32,
                                       ReduceOp::max, options);
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      Sum& sum = sums[(i * 5 + group.rank()) % sums.size()];
      if (Result<void> done = sum.operation->wait(); !done) return done.error().message;
      const int32_t most =
          sum.in[0] - static_cast<int32_t>(group.rank()) + static_cast<int32_t>(group.size()) - 1;
      if (sum.out != std::vector<int32_t>(sum.in.size(), most)) return "wrong result";
    }
  }
  return "";
}

TEST_CASE("concurrent calls of all classes are matched by class") {
  INFO("WEFT_TEST_SEED=" << base_seed());
  for (const std::string& device : devices())
    for (const uint32_t ranks : {2U, 4U}) {
      INFO(device << ", " << ranks << " ranks");
      check_ranks(
          ranks, {.device = device, .traffic_class = 3, .more_classes = {2, 0}},
          [&](Communicator& group) { return random_sums(group, base_seed() + ranks, scaled(10)); });
    }
}

TEST_CASE("different classes of one call are a mismatch") {
  check_ranks(
      2, {.device = shm_device(), .more_classes = {1}}, [](Communicator& group) -> std::string {
        int32_t value = 1;
        const Result<void> done =
            group
                .all_reduce(&value, &value, 1, DataType::int32, ReduceOp::sum,
                            {.limit = Duration::from_s(20), .traffic_class = 1 + group.rank()})
                .wait();
        const bool right = !done && done.error().code == Code::mismatch &&
                           contains(done.error().message, "class 1");
        return right ? "" : done ? "it succeeded" : done.error().message;
      });
}

TEST_CASE("one call of a class is canceled, and a revoke ends the calls of all classes") {
  check_ranks(
      2, {.device = shm_device(), .more_classes = {0}}, [](Communicator& group) -> std::string {
        std::vector<float> bulk(500'000, 1.0F);
        int32_t value = 0;
        Operation urgent =
            group.broadcast(&value, &value, 1, DataType::int32, 1, {.traffic_class = 0});
        Operation sum = group.all_reduce(bulk.data(), bulk.data(), bulk.size(), DataType::fp32);
        if (group.rank() == 0 && !sum.cancel("enough")) return "it cannot be canceled";
        if (Result<void> done = urgent.wait(); !done) return done.error().message;
        const Result<void> canceled = sum.wait();
        if (group.rank() == 0 && canceled) return "it was not canceled";
        if (!canceled && canceled.error().code != Code::canceled) return canceled.error().message;
        if (Result<void> done = group.barrier().wait(); !done) return done.error().message;
        Operation first = group.receive(&value, sizeof value, 1 - group.rank());
        Operation second = group.receive(bulk.data(), 4, 1 - group.rank(), {.traffic_class = 0});
        if (group.rank() == 1) group.revoke("the end");
        const Result<void> one = first.wait(), two = second.wait();
        return !one && !two ? "" : "something came";
      });
}

TEST_CASE("classes that a communicator does not have are refused") {
  const std::vector<std::string> told =
      run_ranks(2, {.device = shm_device(), .more_classes = {4}},
                [](Communicator&) { return std::string("it was made"); });
  for (const std::string& text : told) CHECK(contains(text, "0 to 3"));
  check_ranks(2, {.device = shm_device(), .more_classes = {0}},
              [](Communicator& group) -> std::string {
                const Result<void> refused = group.barrier({.traffic_class = 1}).wait();
                if (refused || !contains(refused.error().message, "no traffic class 1"))
                  return "it has class 1";
                const Result<void> done = group.barrier({.traffic_class = 0}).wait();
                return done ? "" : done.error().message;
              });
}

// How many packets of more than a kilobyte a capture has of each DSCP.
std::map<int, int> large_packets(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  constexpr size_t kFileHeader = 24, kRecordHeader = 16, kTos = 14 + 1;  // behind Ethernet's header
  std::map<int, int> counts;
  for (size_t at = kFileHeader; at + kRecordHeader + kTos < all.size();) {
    uint32_t length = 0;
    std::memcpy(&length, &all[at + 8], sizeof length);
    if (length > 1024) ++counts[static_cast<uint8_t>(all[at + kRecordHeader + kTos]) >> 2];
    at += kRecordHeader + length;
  }
  return counts;
}

TEST_CASE("the traffic class of a call is the DSCP of its packets") {
  for (const std::string& provider : {std::string("roce"), std::string("srd")}) {
    char directory[] = "/tmp/weft-classes-XXXXXX";
    REQUIRE(mkdtemp(directory) != nullptr);
    const std::string file = std::string(directory) + "/capture.pcap";
    const auto rank_of = [&](uint32_t rank) {
      const auto store = std::move(*Store::open(std::string("file:") + directory, false));
      const std::string device = provider + "+udp:lo" + (rank == 0 ? ",pcap=" + file : "");
      Result<Communicator> group = Communicator::create(
          *store, rank, 2, {.device = device, .traffic_class = 3, .more_classes = {0}});
      std::vector<float> data(20'000, 1.0F);
      for (const std::optional<uint32_t> of : {std::optional<uint32_t>(), {0U}})
        if (group)
          (void)group
              ->all_reduce(data.data(), data.data(), of ? data.size() / 4 : data.size(),
                           DataType::fp32, ReduceOp::sum, {.traffic_class = of})
              .wait();
    };
    std::thread other(rank_of, 1);
    rank_of(0);
    other.join();
    const std::map<int, int> found = large_packets(file);
    INFO(provider);
    CHECK(found.size() == 2);
    CHECK(found.at(46) > 4);
    CHECK(found.at(8) > 2 * found.at(46));
    std::filesystem::remove_all(directory);
  }
}

}  // namespace
}  // namespace weft::test
