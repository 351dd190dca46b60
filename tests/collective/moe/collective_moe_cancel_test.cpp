// SPDX-License-Identifier: BSD-3-Clause
// Canceled dispatches and combines: their parts end with them, on all ranks.
#include <atomic>
#include <fstream>

#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

// Every token goes to all experts, one on each rank.
struct Experts {
  static constexpr size_t kTokens = 100, kWidth = 600;
  explicit Experts(Communicator& group)
      : group(group),
        ranks(group.size()),
        tokens(kTokens * kWidth, static_cast<float>(group.rank() + 1)),
        inbox(kTokens * ranks * kWidth),
        back(tokens.size()),
        weights(kTokens * ranks, 1.0F) {
    for (size_t i = 0; i < kTokens * ranks; ++i) chosen.push_back(static_cast<int32_t>(i % ranks));
  }

  Operation dispatch() {
    return group.dispatch({.tokens = tokens.data(),
                           .count = kTokens,
                           .width = kWidth,
                           .type = DataType::fp32,
                           .experts = chosen,
                           .choices = ranks,
                           .capacity = kTokens * ranks,
                           .output = inbox.data()},
                          routing);
  }
  Operation combine() {
    return group.combine({.input = inbox.data(),
                          .width = kWidth,
                          .type = DataType::fp32,
                          .weights = weights,
                          .output = back.data()},
                         routing);
  }
  // A whole round, to check that the communicator still works.
  std::string run() {
    Operation there = dispatch(), here = combine();
    if (Result<void> done = there.wait(); !done) return done.error().message;
    if (Result<void> done = here.wait(); !done) return done.error().message;
    const float sum = static_cast<float>(ranks * (group.rank() + 1));
    return back == std::vector<float>(back.size(), sum) ? "" : "wrong sum";
  }

  Communicator& group;
  uint32_t ranks;
  std::vector<float> tokens, inbox, back, weights;
  std::vector<int32_t> chosen;
  Routing routing;
};

// Why its result is wrong. Counts canceled operations.
std::string canceled(Operation operation, std::atomic<int>& taken) {
  const Result<void> result = operation.wait();
  taken += !result;
  return result || result.error().code == Code::canceled ? "" : result.error().message;
}

uint64_t pending(const Communicator& group) {
  const std::string text = group.prometheus();
  const size_t line = text.find("\nweft_collective_pending_operations{");
  if (line == std::string::npos) return UINT64_MAX;
  return std::strtoull(text.c_str() + text.find("} ", line) + 2, nullptr, 10);
}

TEST_CASE("a canceled combine releases the experts' rows, over racks too") {
  const std::string file = "/tmp/weft-moe-cancel-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "link_latency_us = 1\n[switched]\nracks = 2\ntrays = 2\n"
                         "chips_per_tray = 1\nplanes = 1\nbackplane_gigabytes_per_s = 10\n"
                         "tray_gigabytes_per_s = 10\ncross_rack_gigabytes_per_s = 1\n"
                         "tray_switch = false\n";
  for (const std::string& network : {std::string(), file}) {
    std::atomic<int> taken{0};
    check_ranks(4, {.device = shm_device(), .topology = network},
                [&](Communicator& group) -> std::string {
                  for (uint32_t round = 0; round < 16; ++round) {
                    Experts experts(group);
                    if (Result<void> done = experts.dispatch().wait(); !done)
                      return done.error().message;
                    Operation back = experts.combine();
                    if (group.rank() == round % 4) {
                      for (uint32_t turn = 0; turn < 3 * round; ++turn) (void)back.test();
                      if (!back.cancel("enough")) return "it cannot be canceled";
                    }
                    if (std::string wrong = canceled(back, taken); !wrong.empty()) return wrong;
                    if (pending(group) != 0) return "parts of it are still in progress";
                    experts.inbox = {};  // the transport does not read it any more
                    if (std::string wrong = Experts(group).run(); !wrong.empty()) return wrong;
                  }
                  return "";
                });
    CHECK(taken > 0);
  }
  std::remove(file.c_str());
}

TEST_CASE(
    "the combine of a canceled dispatch is canceled, also on ranks that completed the dispatch") {
  std::atomic<int> taken{0};
  check_ranks(3, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    for (uint32_t round = 0; round < 16; ++round) {
      Experts experts(group);
      Operation there = experts.dispatch(), back = experts.combine();
      if (group.rank() == round % 3) {
        for (uint32_t turn = 0; turn < 4 * round; ++turn) (void)there.test();
        if (!there.cancel("enough")) return "it cannot be canceled";
      }
      if (std::string wrong = canceled(there, taken); !wrong.empty()) return wrong;
      if (std::string wrong = canceled(back, taken); !wrong.empty()) return wrong;
      const Result<void> result = back.wait();
      if (!result && !contains(result.error().message, "its dispatch was canceled"))
        return result.error().message;
      if (std::string wrong = Experts(group).run(); !wrong.empty()) return wrong;
    }
    return "";
  });
  CHECK(taken > 0);
}

}  // namespace
}  // namespace weft::test
