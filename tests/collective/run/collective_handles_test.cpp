// SPDX-License-Identifier: BSD-3-Clause
// Repeated operations, and event loops that wait for them.
#include <poll.h>

#include <fstream>

#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

TEST_CASE("a repeated call, large or small, is matched with plain calls") {
  std::atomic<bool> tried{false};
  check_ranks(3, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    for (const size_t count : {size_t{2}, size_t{100'000}}) {
      std::vector<float> in(count), out(count);
      const auto sum = [&] {
        return group.all_reduce(in.data(), out.data(), count, DataType::fp32);
      };
      Operation first = sum();
      if (Result<void> done = first.wait(); !done) return done.error().message;
      for (int round = 1; round <= 5; ++round) {
        in.assign(count, static_cast<float>(round));
        Operation again = group.rank() == 2 && round == 3 ? sum() : group.repeat(first);
        if (again.algorithm() != first.algorithm()) return "another algorithm";
        if (Result<void> done = again.wait(); !done) return done.error().message;
        if (out != std::vector<float>(count, 3.0F * static_cast<float>(round))) return "wrong sum";
      }
    }
    float value = 0;
    Operation open = group.exchange({});
    if (Result<void> done = open.wait(); !done) return done.error().message;
    const Result<void> refused = group.repeat(open).wait();
    if (refused || refused.error().code != Code::not_supported) return "an exchange was repeated";
    if (group.rank() == 2) return "";
    if (group.rank() == 1) {
      while (!tried) group.progress();
      const Result<void> sent = group.send(&value, sizeof value, 0).wait();
      return sent ? "" : sent.error().message;
    }
    Operation pending = group.receive(&value, sizeof value, 1);
    const Result<void> early = group.repeat(pending).wait();
    tried = true;
    if (Result<void> done = pending.wait(); !done) return done.error().message;
    return !early && early.error().code == Code::bad_state ? "" : "it was repeated too early";
  });
}

TEST_CASE("a kept operation keeps its result when its call is made again") {
  std::atomic<bool> looked{false};
  check_ranks(2, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    int32_t value = 1;
    const auto sum = [&] { return group.all_reduce(&value, &value, 1, DataType::int32); };
    for (int i = 0; i < 3; ++i)  // made anew, then as the one before
      if (Result<void> done = sum().wait(); !done) return done.error().message;
    Operation kept = sum();
    if (Result<void> done = kept.wait(); !done) return done.error().message;
    const Duration took = kept.took();
    while (group.rank() == 1 && !looked) group.progress();
    Operation next = sum();
    if (group.rank() == 0 && (next.done() || next.took() != Duration()))
      return "it is done, or has the time of another";
    if (!kept.done() || kept.took() != took) return "the kept one has become the next";
    looked = true;
    bool called = false;
    next.then([&](const Result<void>&) { called = true; });
    next = sum();  // drops one that is in progress
    if (Result<void> done = next.wait(); !done) return done.error().message;
    return value == 64 && called ? "" : "it ended as " + std::to_string(value);
  });
}

TEST_CASE("operations finish in an event loop that sleeps on the descriptor") {
  for (const std::string& device : {shm_device(), std::string("roce+udp:lo")})
    check_ranks(2, {.device = device}, [](Communicator& group) -> std::string {
      int naps = 0;
      for (int i = 0; i < 20; ++i) {
        int32_t value = 1;
        if (group.rank() == 1) usleep(1'000);  // so that the other one has to wait
        Operation sum = group.all_reduce(&value, &value, 1, DataType::int32);
        Result<bool> done = sum.test();
        for (; done && !*done; done = sum.test()) {
          if (!group.arm()) continue;
          pollfd wanted{group.fd(), POLLIN, 0};
          if (::poll(&wanted, 1, 5'000) == 0) return "nothing woke it";
          ++naps;
        }
        if (!done) return done.error().message;
        if (value != 2) return "wrong sum";
      }
      return group.rank() == 1 || naps > 0 ? "" : "it never slept";
    });
}

TEST_CASE("wait_for() returns at its limit, and the operation continues") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    int32_t value = 1;
    if (group.rank() == 1) usleep(300'000);
    Operation sum = group.all_reduce(&value, &value, 1, DataType::int32);
    int given_up = 0;
    Result<bool> done = sum.wait_for(Duration::from_ms(20));
    for (; done && !*done; done = sum.wait_for(Duration::from_ms(20))) ++given_up;
    if (!done) return done.error().message;
    if (value != 2) return "wrong sum";
    return group.rank() == 1 || (given_up > 0 && given_up < 1000) ? "" : "it did not wait";
  });
}

// How many packets of more than a kilobyte a capture has, and how many of these are of this DSCP.
std::pair<int, int> has_large_packets(const std::string& file, int dscp) {
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  constexpr size_t kFileHeader = 24, kRecordHeader = 16, kTos = 14 + 1;  // behind Ethernet's header
  std::pair<int, int> counts;
  for (size_t at = kFileHeader; at + kRecordHeader + kTos < all.size();) {
    uint32_t length = 0;
    std::memcpy(&length, &all[at + 8], sizeof length);
    const int found = static_cast<uint8_t>(all[at + kRecordHeader + kTos]) >> 2;
    if (length > 1024) ++counts.first;
    if (length > 1024 && found == dscp) ++counts.second;
    at += kRecordHeader + length;
  }
  return counts;
}

TEST_CASE("the traffic class of a communicator is the DSCP of its packets") {
  for (const std::string& provider : {std::string("roce"), std::string("srd")})
    for (const auto& [traffic_class, dscp] : {std::pair{0U, 46}, {1U, 34}, {2U, 0}, {3U, 8}}) {
      char directory[] = "/tmp/weft-dscp-XXXXXX";
      REQUIRE(mkdtemp(directory) != nullptr);
      const std::string file = std::string(directory) + "/capture.pcap";
      const uint32_t number = traffic_class;
      const auto rank_of = [&](uint32_t rank) {
        const auto store = std::move(*Store::open(std::string("file:") + directory, false));
        const std::string device = provider + "+udp:lo" + (rank == 0 ? ",pcap=" + file : "");
        Result<Communicator> group =
            Communicator::create(*store, rank, 2, {.device = device, .traffic_class = number});
        std::vector<float> data(20'000, 1.0F);
        if (group)
          (void)group->all_reduce(data.data(), data.data(), data.size(), DataType::fp32).wait();
      };
      std::thread other(rank_of, 1);
      rank_of(0);
      other.join();
      const auto [all, right] = has_large_packets(file, dscp);
      INFO(provider << ", class " << number);
      CHECK(all > 10);
      CHECK(right == all);
      std::filesystem::remove_all(directory);
    }
}

}  // namespace
}  // namespace weft::test
