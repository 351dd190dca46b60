// SPDX-License-Identifier: BSD-3-Clause
// Experts whose rank has died: the survivors continue with the others, by the same numbers. Ranks
// are processes, and two of five are killed one after the other.
#include <signal.h>

#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kRanks = 5, kPerRank = 2, kChoices = 3;
constexpr size_t kTokens = 40, kWidth = 64;

// What a rank sends and receives. Expert e returns e + 1 times the token.
struct MaskedLayer {
  std::vector<int32_t> experts;
  std::vector<float> weights, tokens, inbox, back;
  Routing routing;

  explicit MaskedLayer(uint32_t seed) {
    for (size_t i = 0; i < kTokens * kChoices; ++i) {
      experts.push_back(static_cast<int32_t>((i * 7 + i / 5 + seed) % (kRanks * kPerRank)));
      if (i % 11 == 0) experts.back() = -1;  // no choice of the router
      weights.push_back(static_cast<float>(1 + i % 4) / 4);
    }
    for (size_t i = 0; i < kTokens * kWidth; ++i)
      tokens.push_back(static_cast<float>((i + seed) % 16));
    inbox.resize(kPerRank * capacity() * kWidth);
    back.resize(tokens.size());
  }
  static size_t capacity() { return kRanks * kTokens * kChoices; }

  Result<void> dispatch(Communicator& group) {
    return group
        .dispatch({.tokens = tokens.data(),
                   .count = kTokens,
                   .width = kWidth,
                   .type = DataType::fp32,
                   .experts = experts,
                   .choices = kChoices,
                   .experts_per_rank = kPerRank,
                   .capacity = capacity(),
                   .output = inbox.data(),
                   .origins = group.origins()},
                  routing)
        .wait();
  }
  void answer(uint32_t origin) {
    for (uint32_t e = 0; e < kPerRank; ++e)
      for (size_t i = 0; i < routing.tokens_of(e) * kWidth; ++i)
        inbox[e * capacity() * kWidth + i] *= static_cast<float>(origin * kPerRank + e + 1);
  }
  Result<void> combine(Communicator& group, Masked masked) {
    return group
        .combine({.input = inbox.data(),
                  .width = kWidth,
                  .type = DataType::fp32,
                  .weights = weights,
                  .output = back.data(),
                  .masked = masked},
                 routing)
        .wait();
  }

  // The expected results with these ranks.
  std::string check(const std::vector<uint32_t>& living, Masked masked) const {
    const auto lives = [&](int32_t expert) {
      return expert >= 0 &&
             std::count(living.begin(), living.end(), static_cast<uint32_t>(expert) / kPerRank) > 0;
    };
    size_t gone = 0;
    for (size_t token = 0; token < kTokens; ++token) {
      double all = 0, left = 0, factor = 0;
      for (size_t i = token * kChoices; i < (token + 1) * kChoices; ++i) {
        gone += experts[i] >= 0 && !lives(experts[i]);
        if (experts[i] >= 0) all += static_cast<double>(weights[i]);
        if (!lives(experts[i])) continue;
        left += static_cast<double>(weights[i]);
        factor += static_cast<double>(weights[i]) * (experts[i] + 1);
      }
      if (masked == Masked::reweigh && left > 0) factor *= all / left;
      for (size_t i = token * kWidth; i < (token + 1) * kWidth; ++i)
        if (std::abs(static_cast<double>(back[i]) - factor * static_cast<double>(tokens[i])) > 1e-3)
          return "token " + std::to_string(token) + " came back wrong";
    }
    if (routing.masked() != gone)
      return std::to_string(routing.masked()) + " choices are masked, not " + std::to_string(gone);
    return routing.dropped() == 0 ? "" : "choices were dropped";
  }
};

std::string run_layer(Communicator& group, uint32_t origin, const std::vector<uint32_t>& living) {
  for (const Masked masked : {Masked::drop, Masked::reweigh}) {
    MaskedLayer layer(origin);
    Result<void> done = layer.dispatch(group);
    if (!done) return done.error().message;
    layer.answer(origin);
    done = layer.combine(group, masked);
    if (!done) return done.error().message;
    if (const std::string wrong = layer.check(living, masked); !wrong.empty()) return wrong;
  }
  return "";
}

// MaskedLayer after layer, in one of which `victim` is killed.
std::string run_until_death(Communicator& group, uint32_t origin, uint32_t victim) {
  for (int i = 0;; ++i) {
    MaskedLayer layer(origin);
    if (origin == victim && i == 2) kill(getpid(), SIGKILL);
    Result<void> done = layer.dispatch(group);
    if (done) done = layer.combine(group, Masked::drop);
    if (done) continue;
    const std::optional<Failure> failure = group.failure();
    const bool right = failure && failure->code == Code::peer_failed;
    return right ? "" : done.error().message;
  }
}

std::string live_on(Communicator& first, Store& store) {
  const uint32_t origin = first.rank();
  std::string wrong = run_layer(first, origin, {0, 1, 2, 3, 4});
  if (wrong.empty()) wrong = run_until_death(first, origin, 1);
  if (!wrong.empty()) return wrong;
  Result<Communicator> second = first.shrink(store);
  if (!second) return second.error().message;
  wrong = run_layer(*second, origin, {0, 2, 3, 4});
  if (wrong.empty()) wrong = run_until_death(*second, origin, 3);
  if (!wrong.empty()) return wrong;
  Result<Communicator> third = second->shrink(store);
  if (!third) return third.error().message;
  return run_layer(*third, origin, {0, 2, 4});
}

TEST_CASE("experts of ranks that died are masked, and the others continue") {
  for (const std::string& device : {shm_device(), shm_device("srd"), std::string("roce+udp:lo")}) {
    INFO(device);
    CHECK(run_processes(kRanks, {.device = device}, live_on) ==
          std::vector<std::string>{"", "killed by 9", "", "killed by 9", ""});
  }
}

TEST_CASE("invalid origins are refused") {
  check_ranks(2, {.device = shm_device()}, [](Communicator& group) -> std::string {
    std::vector<float> data(64);
    const std::vector<int32_t> experts = {9};
    const std::vector<uint32_t> three = {0, 1, 2}, twice = {4, 4}, good = {4, 9},
                                other = {4, group.rank() == 0 ? 9U : 8U};
    DispatchCall call{.tokens = data.data(),
                      .count = 1,
                      .width = 4,
                      .type = DataType::fp32,
                      .experts = experts,
                      .capacity = 4,
                      .output = &data[32]};
    Routing routing;
    const auto says = [&](const std::vector<uint32_t>& origins, const std::string& part) {
      call.origins = origins;
      const Result<void> done = group.dispatch(call, routing).wait();
      return !done && done.error().code == Code::invalid_argument &&
             contains(done.error().message, part);
    };
    if (!says(three, "origins has 3 entries, there are 2 ranks")) return "three";
    if (!says(twice, "two ranks have origin 4")) return "twice";
    if (!says(other, "different values for origins")) return "different ones";
    call.origins = good;
    if (const Result<void> done = group.dispatch(call, routing).wait(); !done)
      return done.error().message;
    if (routing.masked() != 0 || routing.tokens_of(0) != (group.rank() == 1 ? 2U : 0U))
      return "expert 9 is rank 1's";
    return "";
  });
}

}  // namespace
}  // namespace weft::test
