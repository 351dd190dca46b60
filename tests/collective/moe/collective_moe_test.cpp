// SPDX-License-Identifier: BSD-3-Clause
// Dispatch and combine against a plain program with the data of all ranks: the same bits in every
// row. WEFT_TEST_SEED=N replays a seed that failed.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "lib/base/random.hpp"
#include "tests/collective/moe/collective_moe_layer.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

uint64_t base_seed() {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20261122;
}

TEST_CASE("dispatch and combine are exact, bit for bit") {
  for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
    const uint64_t seed = base_seed() + ranks;
    INFO(ranks << " ranks, WEFT_TEST_SEED=" << base_seed());
    check_ranks(ranks, {.device = shm_device()},
                [&](Communicator& group) { return random_layers(group, seed, scaled(40)); });
  }
}

TEST_CASE("dispatch forwards tokens through mirror ranks in a network of racks") {
  const std::string file = "/tmp/weft-racks-" + std::to_string(getpid()) + ".toml";
  for (const auto& [number, trays] : {std::pair{2, 1}, {2, 2}, {3, 2}, {2, 3}}) {
    const int racks = number;
    std::ofstream(file) << "link_latency_us = 1\n[switched]\nracks = " << racks
                        << "\ntrays = " << trays
                        << "\nchips_per_tray = 1\nplanes = 1\nbackplane_gigabytes_per_s = 10\n"
                           "tray_gigabytes_per_s = 10\ncross_rack_gigabytes_per_s = 1\n"
                           "tray_switch = false\n";
    const uint64_t seed = base_seed() + static_cast<uint64_t>(10 * racks + trays);
    INFO(racks << " racks of " << trays << ", WEFT_TEST_SEED=" << base_seed());
    const auto body = [&](Communicator& group) -> std::string {
      Routing routing;
      Operation none = group.dispatch({.width = 1}, routing);
      if (const Result<void> done = none.wait(); !done) return done.error().message;
      if (none.algorithm() != "racks") return "not by racks";
      return random_layers(group, seed, scaled(20), static_cast<uint32_t>(racks));
    };
    check_ranks(static_cast<uint32_t>(racks * trays), {.device = shm_device(), .topology = file},
                body);
  }
  std::remove(file.c_str());
}

// Bytes that a rank sent to the ranks of the other rack in its last call.
uint64_t bytes_across(const Communicator& group) {
  const std::string dump = group.dump();
  uint64_t last = 0, bytes = 0;
  for (size_t line = dump.find("\"steps\":["); line != std::string::npos;
       line = dump.find('\n', line + 1)) {
    unsigned long sequence = 0, piece = 0;
    unsigned sent = 0, peer = 0, length = 0;
    if (std::sscanf(dump.c_str() + line + 1, "[%lu,%u,%u,%lu,%u,", &sequence, &sent, &peer, &piece,
                    &length) != 5)
      continue;
    if (sequence != last) bytes = 0;
    last = sequence;
    if (sent == 1 && peer / 2 != group.rank() / 2) bytes += length;
  }
  return bytes;
}

TEST_CASE("a token for several experts of another rack is sent to that rack once") {
  const std::string file = "/tmp/weft-across-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "link_latency_us = 1\n[switched]\nracks = 2\ntrays = 2\n"
                         "chips_per_tray = 1\nplanes = 1\nbackplane_gigabytes_per_s = 10\n"
                         "tray_gigabytes_per_s = 10\ncross_rack_gigabytes_per_s = 1\n"
                         "tray_switch = false\n";
  check_ranks(4, {.device = shm_device(), .topology = file}, [](Communicator& group) {
    constexpr size_t kTokens = 8, kWidth = 500;
    std::vector<float> tokens(kTokens * kWidth), inbox(2 * 64 * kWidth);
    std::vector<int32_t> experts;  // all four of the other rack
    for (size_t i = 0; i < kTokens * 4; ++i)
      experts.push_back(static_cast<int32_t>(i % 4) + (group.rank() < 2 ? 4 : 0));
    Routing routing;
    const Result<void> done = group
                                  .dispatch({.tokens = tokens.data(),
                                             .count = kTokens,
                                             .width = kWidth,
                                             .type = DataType::fp32,
                                             .experts = experts,
                                             .choices = 4,
                                             .experts_per_rank = 2,
                                             .capacity = 64,
                                             .output = inbox.data()},
                                            routing)
                                  .wait();
    if (!done) return done.error().message;
    const uint64_t across = bytes_across(group), once = kTokens * kWidth * sizeof(float);
    if (across != once) return std::to_string(across) + " bytes crossed";
    // And returns as sums.
    const std::vector<float> weights(experts.size(), 1.0F);
    Operation back = group.combine({.input = inbox.data(),
                                    .width = kWidth,
                                    .type = DataType::fp32,
                                    .weights = weights,
                                    .output = tokens.data()},
                                   routing);
    if (const Result<void> came = back.wait(); !came) return came.error().message;
    const uint64_t returned = bytes_across(group);
    if (back.algorithm() != "racks") return std::string("not by racks");
    return returned == once ? std::string() : std::to_string(returned) + " bytes came back";
  });
  std::remove(file.c_str());
}

TEST_CASE("dispatch and combine are exact over UDP sockets with packet loss") {
  const uint64_t seed = base_seed() + 100;
  INFO("WEFT_TEST_SEED=" << base_seed());
  check_ranks(3, {.device = "roce+udp:lo,fault.loss=0.01", .patience = Duration::from_ms(4000)},
              [&](Communicator& group) { return random_layers(group, seed, scaled(15)); });
}

TEST_CASE("a dispatch and its combine may be in flight together, and a routing may be used twice") {
  check_ranks(3, {.device = shm_device()}, [](Communicator& group) -> std::string {
    const std::vector<int32_t> experts = {0, 1, 2};
    const std::vector<float> weights = {1, 2, 4};
    const std::vector<float> tokens = {1, 10, 100};
    std::vector<float> inbox(3), back(3), again(3);
    Routing routing;
    Operation out = group.dispatch({.tokens = tokens.data(),
                                    .count = 3,
                                    .width = 1,
                                    .type = DataType::fp32,
                                    .experts = experts,
                                    .capacity = 3,
                                    .output = inbox.data()},
                                   routing);
    const CombineCall home{.input = inbox.data(),
                           .width = 1,
                           .type = DataType::fp32,
                           .weights = weights,
                           .output = back.data()};
    CombineCall second = home;
    second.output = again.data();
    Operation back_home = group.combine(home, routing), twice = group.combine(second, routing);
    for (Operation* const operation : {&out, &back_home, &twice})
      if (Result<void> done = operation->wait(); !done) return done.error().message;
    if (routing.tokens_of(0) != 3) return "tokens are missing";
    return back == std::vector<float>{1, 20, 400} && again == back ? "" : "wrong sums";
  });
}

TEST_CASE("invalid dispatches and combines are errors without side effects") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<float> data(64);
    const std::vector<int32_t> good = {0, 1}, unknown = {0, 2};
    DispatchCall call{.tokens = data.data(),
                      .count = 2,
                      .width = 4,
                      .type = DataType::fp32,
                      .experts = good,
                      .capacity = 4,
                      .output = &data[32]};
    Routing routing;
    const auto refused = [](Operation operation, const std::string& part) {
      const Result<void> done = operation.wait();
      return !done && done.error().code == Code::invalid_argument &&
             done.error().message.find(part) != std::string::npos;
    };
    DispatchCall wrong = call;
    wrong.experts = unknown;
    if (!refused(group.dispatch(wrong, routing), "no expert 2, only 0 to 1")) return "expert 2";
    wrong = call;
    wrong.choices = 2;
    if (!refused(group.dispatch(wrong, routing), "experts has 2 entries")) return "choices";
    // Errors that depend on the values of several ranks are reported on all, and the group
    // continues.
    wrong = call;
    wrong.width = group.rank() == 0 ? 4 : 2;
    if (!refused(group.dispatch(wrong, routing), "different values for width")) return "width";
    const std::vector<float> weights(2, 1.0F);
    CombineCall home{.input = &data[32],
                     .width = 4,
                     .type = DataType::fp32,
                     .weights = weights,
                     .output = data.data()};
    if (!refused(group.combine(home, routing), "its dispatch has failed")) return "failed dispatch";
    if (!refused(group.combine(home, Routing()), "not of a dispatch")) return "no dispatch";
    if (Result<void> done = group.dispatch(call, routing).wait(); !done)
      return done.error().message;
    home.type = DataType::int32;
    if (!refused(group.combine(home, routing), "no floating-point type")) return "integers";
    home.type = DataType::fp32;
    home.weights = std::span(weights).first(1);
    if (!refused(group.combine(home, routing), "1 weights for 2 choices")) return "weights";
    const Result<void> fine = group.barrier().wait();
    return fine ? "" : fine.error().message;
  });
}

}  // namespace
}  // namespace weft::test
