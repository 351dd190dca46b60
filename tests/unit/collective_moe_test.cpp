// SPDX-License-Identifier: BSD-3-Clause
// Dispatch and combine against a plain program that sees all ranks: the same bits in every row.
// WEFT_TEST_SEED=N replays a seed that failed.
#include <cstdlib>
#include <fstream>

#include "lib/base/random.hpp"
#include "tests/support/scale.hpp"
#include "tests/unit/collective_ranks.hpp"

namespace weft::test {
namespace {

uint64_t base_seed() {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20261122;
}

// One layer of experts, with what all ranks have.
struct Layer {
  uint32_t ranks = 1, experts_per_rank = 1, choices = 1;
  size_t width = 1, capacity = 0;
  DataType type = DataType::fp32;
  std::string_view algorithm;
  std::vector<size_t> counts;                 // tokens, by rank
  std::vector<std::vector<int32_t>> experts;  // by rank: choices of its tokens
  std::vector<std::vector<float>> weights;

  uint32_t all_experts() const { return ranks * experts_per_rank; }
  // Element i of a token; of no special beauty, so that sums have to be rounded.
  double token(uint32_t rank, size_t t, size_t i) const {
    return static_cast<double>((rank * 7919 + t * 104'729 + i * 31) % 251) / 8 - 15;
  }
  std::string describe() const {
    return std::to_string(ranks) + " ranks, " + std::to_string(experts_per_rank) +
           " experts each, " + std::to_string(choices) + " choices, width " +
           std::to_string(width) + ", capacity " + std::to_string(capacity) + ", " +
           std::string(name(type)) + " '" + std::string(algorithm) + "'";
  }
};

Layer random_layer(base::Random& random, uint32_t ranks) {
  Layer layer;
  layer.ranks = ranks;
  layer.experts_per_rank = static_cast<uint32_t>(1 + random.below(4));
  layer.choices = static_cast<uint32_t>(1 + random.below(4));
  layer.width = 1 + random.below(random.below(2) == 0 ? 8 : 3000);
  layer.capacity = random.below(40);
  const DataType types[] = {DataType::fp32, DataType::bf16,     DataType::fp16,
                            DataType::fp64, DataType::fp8_e4m3, DataType::mxfp8_e5m2};
  layer.type = types[random.below(6)];
  const std::string_view algorithms[] = {"", "direct", "pairwise", "racks"};
  layer.algorithm = algorithms[random.below(4)];
  const bool some_empty = random.below(2) == 0;  // half of the experts are never chosen
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    layer.counts.push_back(random.below(3) == 0 ? 0 : random.below(30));
    layer.experts.emplace_back();
    layer.weights.emplace_back();
    for (size_t i = 0; i < layer.counts[rank] * layer.choices; ++i) {
      int32_t expert = static_cast<int32_t>(random.below(layer.all_experts() + 1)) - 1;
      if (some_empty && expert > 0) expert &= ~1;
      layer.experts[rank].push_back(expert);
      layer.weights[rank].push_back(static_cast<float>(random.below(1000)) / 997.0F);
    }
  }
  return layer;
}

// The plain program: who is in which row of an expert, and what comes back.
struct Reference {
  struct Row {
    uint32_t rank;
    size_t choice;
  };
  std::vector<std::vector<Row>> rows;        // by expert
  std::vector<std::vector<int64_t>> row_of;  // by rank: of each choice, or -1
  std::vector<size_t> dropped;

  explicit Reference(const Layer& layer)
      : rows(layer.all_experts()), row_of(layer.ranks), dropped(layer.ranks) {
    for (uint32_t rank = 0; rank < layer.ranks; ++rank)
      for (size_t i = 0; i < layer.experts[rank].size(); ++i) {
        const int32_t expert = layer.experts[rank][i];
        row_of[rank].push_back(-1);
        if (expert < 0) continue;
        std::vector<Row>& of_expert = rows[static_cast<size_t>(expert)];
        if (of_expert.size() == layer.capacity) {
          ++dropped[rank];
          continue;
        }
        row_of[rank][i] = static_cast<int64_t>(of_expert.size());
        of_expert.push_back({rank, i});
      }
  }
};

// What an expert makes of an element.
double answer(uint32_t expert, double element) { return element * (expert + 1) - 0.25; }

template <class A>
A combined(const Layer& layer, const Reference& reference, uint32_t rank, size_t t, size_t i) {
  A sum = 0;
  for (size_t c = t * layer.choices; c < (t + 1) * layer.choices; ++c) {
    if (reference.row_of[rank][c] < 0) continue;
    std::byte element[kWidest] = {}, answered[kWidest] = {};
    encode(layer.type, element, layer.token(rank, t, i));
    const uint32_t expert = static_cast<uint32_t>(layer.experts[rank][c]);
    encode(layer.type, answered, answer(expert, decode(layer.type, element)));
    const volatile A product =  // rounded before it is added
        static_cast<A>(layer.weights[rank][c]) * static_cast<A>(decode(layer.type, answered));
    sum += product;
  }
  return sum;
}

class LayerRun {
 public:
  LayerRun(const Layer& layer, Communicator& group)
      : layer_(layer), reference_(layer), group_(group), rank_(group.rank()) {
    width_ = size_of(layer.type);
    row_ = layer.width * width_;
    tokens_.resize(layer.counts[rank_] * row_ + 1);
    back_.resize(tokens_.size());
    inbox_.resize(layer.experts_per_rank * layer.capacity * row_ + 1, std::byte{0xAA});
    for (size_t t = 0; t < layer.counts[rank_]; ++t)
      for (size_t i = 0; i < layer.width; ++i)
        encode(layer.type, &tokens_[t * row_ + i * width_], layer.token(rank_, t, i));
  }

  std::string run() {
    const CallOptions options{.algorithm = layer_.algorithm};
    Result<void> done = group_
                            .dispatch({.tokens = tokens_.data(),
                                       .count = layer_.counts[rank_],
                                       .width = layer_.width,
                                       .type = layer_.type,
                                       .experts = layer_.experts[rank_],
                                       .choices = layer_.choices,
                                       .experts_per_rank = layer_.experts_per_rank,
                                       .capacity = layer_.capacity,
                                       .output = inbox_.data()},
                                      routing_, options)
                            .wait();
    if (!done) return done.error().message;
    if (routing_.dropped() != reference_.dropped[rank_]) return "another number is dropped";
    for (uint32_t e = 0; e < layer_.experts_per_rank; ++e)
      if (const std::string wrong = check_expert(e); !wrong.empty()) return wrong;
    CallOptions way_back = options;
    if (layer_.algorithm == "racks") way_back.algorithm = "";
    done = group_
               .combine({.input = inbox_.data(),
                         .width = layer_.width,
                         .type = layer_.type,
                         .weights = layer_.weights[rank_],
                         .output = back_.data()},
                        routing_, way_back)
               .wait();
    if (!done) return done.error().message;
    return check_back();
  }

 private:
  // Compares an expert's rows, and lets it answer.
  std::string check_expert(uint32_t e) {
    const uint32_t expert = rank_ * layer_.experts_per_rank + e;
    const std::vector<Reference::Row>& rows = reference_.rows[expert];
    if (routing_.tokens_of(e) != rows.size()) return "another number of tokens";
    for (size_t r = 0; r < layer_.capacity; ++r)
      for (size_t i = 0; i < layer_.width; ++i) {
        std::byte wanted[kWidest];
        std::memset(wanted, 0xAA, sizeof wanted);  // an unused row is left as it was
        if (r < rows.size())
          encode(layer_.type, wanted,
                 layer_.token(rows[r].rank, rows[r].choice / layer_.choices, i));
        std::byte* const got = &inbox_[((e * layer_.capacity + r) * layer_.width + i) * width_];
        if (std::memcmp(wanted, got, width_) != 0)
          return "expert " + std::to_string(expert) + " row " + std::to_string(r) + " is wrong";
        encode(layer_.type, got, answer(expert, decode(layer_.type, got)));
      }
    return "";
  }

  std::string check_back() const {
    for (size_t t = 0; t < layer_.counts[rank_]; ++t)
      for (size_t i = 0; i < layer_.width; ++i) {
        const double value = layer_.type == DataType::fp64
                                 ? combined<double>(layer_, reference_, rank_, t, i)
                                 : combined<float>(layer_, reference_, rank_, t, i);
        std::byte wanted[kWidest];
        encode(layer_.type, wanted, value);
        if (std::memcmp(wanted, &back_[t * row_ + i * width_], width_) != 0)
          return "token " + std::to_string(t) + " came back wrong";
      }
    return "";
  }

  const Layer& layer_;
  const Reference reference_;
  Communicator& group_;
  uint32_t rank_;
  size_t width_ = 0, row_ = 0;
  std::vector<std::byte> tokens_, inbox_, back_;
  Routing routing_;
};

std::string random_layers(Communicator& group, uint64_t seed, uint64_t number) {
  base::Random random(seed);
  for (uint64_t i = 0; i < number; ++i) {
    const Layer layer = random_layer(random, group.size());
    const std::string wrong = LayerRun(layer, group).run();
    if (!wrong.empty()) return layer.describe() + ": " + wrong;
  }
  return "";
}

TEST_CASE("tokens come to their experts and back, bit for bit") {
  for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
    const uint64_t seed = base_seed() + ranks;
    INFO(ranks << " ranks, WEFT_TEST_SEED=" << base_seed());
    check_ranks(ranks, {.device = shm_device()},
                [&](Communicator& group) { return random_layers(group, seed, scaled(40)); });
  }
}

TEST_CASE("tokens come to their experts through mirror ranks where ranks lie in racks") {
  const std::string file = "/tmp/weft-racks-" + std::to_string(getpid()) + ".toml";
  for (const auto& [racks, trays] : {std::pair{2, 1}, {2, 2}, {3, 2}, {2, 3}}) {
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
      return random_layers(group, seed, scaled(20));
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

TEST_CASE("a token that several experts of another rack want crosses to it once") {
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
    return across == once ? std::string() : std::to_string(across) + " bytes crossed";
  });
  std::remove(file.c_str());
}

TEST_CASE("tokens come to their experts and back over UDP sockets while packets are lost") {
  const uint64_t seed = base_seed() + 100;
  INFO("WEFT_TEST_SEED=" << base_seed());
  check_ranks(3, {.device = "roce+udp:lo,fault.loss=0.01", .patience = Duration::from_ms(4000)},
              [&](Communicator& group) { return random_layers(group, seed, scaled(15)); });
}

TEST_CASE("a dispatch and its combine may be under way at once, and a routing serves twice") {
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

TEST_CASE("calls of experts that do not fit are refused, and harm nothing") {
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
    // What only the ranks together can see is refused by all, and they go on.
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
