// SPDX-License-Identifier: BSD-3-Clause
// Communicators over shared memory and UDP sockets: random programs of collectives, every result
// compared with plain arithmetic. WEFT_TEST_SEED=N replays a seed that failed.
#include <algorithm>
#include <numeric>

#include "tests/collective/plan/collective_random.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

TEST_CASE("random programs of collectives are right over shared memory") {
  for (uint32_t ranks = 1; ranks <= 5; ++ranks) {
    const uint64_t seed = base_seed() + ranks;
    INFO(ranks << " ranks, WEFT_TEST_SEED=" << base_seed());
    check_ranks(ranks, {.device = shm_device()},
                [&](Communicator& group) { return random_program(group, seed, scaled(60)); });
  }
}

TEST_CASE("random programs of collectives are right over UDP sockets") {
  for (const uint32_t ranks : {2U, 4U}) {
    const uint64_t seed = base_seed() + 100 + ranks;
    INFO(ranks << " ranks, WEFT_TEST_SEED=" << base_seed());
    check_ranks(ranks, {.device = "roce+udp:lo"},
                [&](Communicator& group) { return random_program(group, seed, scaled(30)); });
  }
}

TEST_CASE("random programs of collectives are right over SRD with packet loss and delay") {
  const std::string lossy = "srd+udp:lo,fault.loss=0.01,fault.reorder=0.05";
  for (const std::string& device : {shm_device("srd"), std::string("srd+udp:lo"), lossy})
    for (const uint32_t ranks : {2U, 3U}) {
      const uint64_t seed = base_seed() + 400 + ranks;
      INFO(device << ", " << ranks << " ranks, WEFT_TEST_SEED=" << base_seed());
      check_ranks(ranks, {.device = device, .patience = Duration::from_ms(4000)},
                  [&](Communicator& group) { return random_program(group, seed, scaled(30)); });
    }
}

TEST_CASE("random programs of collectives are right while packets are lost") {
  const uint64_t seed = base_seed() + 300;
  INFO("WEFT_TEST_SEED=" << base_seed());
  check_ranks(3, {.device = "roce+udp:lo,fault.loss=0.01", .patience = Duration::from_ms(4000)},
              [&](Communicator& group) { return random_program(group, seed, scaled(20)); });
}

// The last put's acknowledgement is lost, and the receiver, which has all data, exits before the
// retransmission.
TEST_CASE("a rank that leaves has received all data") {
  std::vector<std::byte> block(64 * 1024, std::byte{7});
  for (uint64_t i = 0; i < scaled(40); ++i)
    check_ranks(
        2,
        {.device = "roce+udp:lo,fault.loss=0.1,fault.seed=" + std::to_string(base_seed() + i),
         .limit = Duration::from_s(20),
         .patience = Duration::from_ms(500)},
        [&](Communicator& group) -> std::string {
          std::vector<std::byte> memory = block;
          const Result<void> sent =
              group.broadcast(memory.data(), memory.data(), memory.size(), DataType::uint8, 0)
                  .wait();
          return sent ? "" : sent.error().message;
        });
}

// Blocks of mxfp8 have accumulators of 128 bytes.
TEST_CASE("two small slots suffice for every program") {
  const uint64_t seed = base_seed() + 200;
  INFO("WEFT_TEST_SEED=" << base_seed());
  check_ranks(3, {.device = shm_device(), .slots = 2, .slot_bytes = 128},
              [&](Communicator& group) { return random_program(group, seed, scaled(6)); });
}

// The value of a key in the last operation's record.
uint64_t traced(const Communicator& group, const std::string& word) {
  const std::string trace = group.trace(), key = "\"" + word + "\":";
  return std::strtoull(trace.c_str() + trace.rfind(key) + key.size(), nullptr, 10);
}

// Pieces placed by one call; all ones if it failed.
uint64_t placed_once(Communicator& group, size_t count, DataType type, ReduceOp op) {
  RandomCall call{.seed = 3, .type = type, .op = op, .count = count};
  call.algorithm = "ring";
  Buffers buffers(call, group.size(), group.rank());
  const Result<void> done = start(group, call, buffers).wait();
  if (!done || !buffers.check().empty()) return ~uint64_t{0};
  return traced(group, "placed");
}

TEST_CASE("long pieces of a reduction are placed over SRD only") {
  constexpr size_t kCount = 40'000;
  // The maximum of a few calls: a sender that waits for an advertisement for 100 ms uses a slot,
  // which happens on a stalled machine.
  const auto placed = [](Communicator& group, size_t count, DataType type, ReduceOp op) {
    uint64_t most = 0;
    for (int i = 0; i < 5; ++i) most = std::max(most, placed_once(group, count, type, op));
    return most;
  };
  const auto body = [&](bool places) {
    return [&, places](Communicator& group) -> std::string {
      // Two steps that reduce and two that gather. Blocks of int64 are two pieces. The first bf16
      // operands are not accumulators yet.
      for (const auto& [type, pieces] :
           {std::pair(DataType::fp32, 4U), std::pair(DataType::int32, 4U),
            std::pair(DataType::int64, 8U), std::pair(DataType::bf16, 3U)})
        if (placed(group, kCount, type, ReduceOp::avg) != (places ? pieces : 0))
          return std::string(name(type));
      // Not added by the transport: only the gathered results are placed.
      if (placed(group, kCount, DataType::fp32, ReduceOp::max) != (places ? 2 : 0)) return "max";
      if (placed(group, 1000, DataType::fp32, ReduceOp::sum) != 0) return "short";
      return "";
    };
  };
  check_ranks(3, {.device = shm_device("srd")}, body(true));
  check_ranks(3, {.device = shm_device("roce")}, body(false));
}

TEST_CASE("every algorithm has the right result on four ranks") {
  const std::string device = GENERATE("roce", "srd");
  check_ranks(4, {.device = shm_device(device)}, [&](Communicator& group) -> std::string {
    for (const collective::Algorithm& algorithm : collective::algorithms())
      for (const DataType type : {DataType::bf16, DataType::fp32, DataType::mxfp8_e4m3}) {
        if (is_for_experts(algorithm.collective)) continue;
        RandomCall call{.seed = 7,
                        .collective = algorithm.collective,
                        .type = type,
                        .op = ReduceOp::avg,
                        .root = 2,
                        .count = 50'001,
                        .algorithm = algorithm.name};
        call.blocks = random_blocks(call, group.size());
        Buffers buffers(call, group.size(), group.rank());
        Operation operation = start(group, call, buffers);
        if (operation.algorithm() != algorithm.name) return "ran " + call.describe();
        if (const Result<void> done = operation.wait(); !done) return done.error().message;
        if (const std::string wrong = buffers.check(); !wrong.empty()) return wrong;
      }
    return "";
  });
}

TEST_CASE("the same call has the same algorithm with and without explicit blocks") {
  check_ranks(4, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    for (const size_t count : {100U, 4096U, 5000U, 16'384U, 17'000U}) {
      const std::vector<uint8_t> in(count);
      std::vector<uint8_t> out(4 * count);
      Operation plain = group.all_gather(in.data(), out.data(), count, DataType::uint8);
      Operation blocks =
          group.all_gather_v(in.data(), out.data(), std::vector<size_t>(4, count), DataType::uint8);
      for (Operation* const each : {&plain, &blocks})
        if (const Result<void> done = each->wait(); !done) return done.error().message;
      if (plain.algorithm() != blocks.algorithm())
        return std::to_string(count) + ": " + std::string(plain.algorithm()) + " and " +
               std::string(blocks.algorithm());
    }
    return "";
  });
}

TEST_CASE("sends and receives are matched in order, in both directions, for any size") {
  check_ranks(3, {.device = shm_device()}, [&](Communicator& group) -> std::string {
    const uint32_t to = (group.rank() + 1) % 3, from = (group.rank() + 2) % 3;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{70'000}, size_t{3'000'000}}) {
      std::vector<uint8_t> given(bytes, static_cast<uint8_t>(group.rank() + 1)), got(bytes);
      const Transfer both[] = {{.peer = to, .send = given.data(), .send_bytes = bytes},
                               {.peer = from, .receive = got.data(), .receive_bytes = bytes}};
      if (const Result<void> done = group.exchange(both).wait(); !done) return done.error().message;
      if (got != std::vector<uint8_t>(bytes, static_cast<uint8_t>(from + 1)))
        return std::to_string(bytes) + " wrong bytes";
    }
    if (const Result<void> done = group.barrier().wait(); !done) return done.error().message;
    uint64_t word = group.rank();
    if (group.rank() == 0) (void)group.send(&word, sizeof word, 2).wait();
    if (group.rank() == 2) (void)group.receive(&word, sizeof word, 0).wait();
    return group.rank() != 2 || word == 0 ? "" : "the word did not come";
  });
}

// The receiver of each rank, in place and out of place.
std::string permute(Communicator& group, const std::vector<uint32_t>& to, size_t bytes) {
  const uint32_t rank = group.rank(), ranks = group.size();
  const uint32_t from = static_cast<uint32_t>(std::find(to.begin(), to.end(), rank) - to.begin());
  const auto of = [&](uint32_t r) { return std::vector<uint8_t>(bytes, uint8_t(r + 1)); };
  for (const bool in_place : {false, true}) {
    std::vector<uint8_t> given = of(rank), apart(bytes, 0xAA);
    std::vector<uint8_t>& got = in_place && from == rank ? given : apart;
    const Transfer both[] = {{.peer = to[rank], .send = given.data(), .send_bytes = bytes},
                             {.peer = from, .receive = got.data(), .receive_bytes = bytes}};
    if (const Result<void> done = group.exchange(both).wait(); !done) return done.error().message;
    if (got != of(from)) return std::to_string(bytes) + " wrong bytes of " + std::to_string(ranks);
  }
  return "";
}

TEST_CASE("a permutation may have fixed points") {
  for (const uint32_t ranks : {1U, 3U, 4U})
    check_ranks(ranks, {.device = shm_device()}, [&](Communicator& group) -> std::string {
      std::vector<uint32_t> to(ranks);
      std::iota(to.begin(), to.end(), 0);
      do {
        for (const size_t bytes : {size_t{0}, size_t{5}, size_t{200'000}})
          if (std::string wrong = permute(group, to, bytes); !wrong.empty()) return wrong;
      } while (std::next_permutation(to.begin(), to.end()));
      return "";
    });
}

TEST_CASE("Numerics::any gives the same bits with every algorithm") {
  check_ranks(4, {.device = shm_device(), .numerics = Numerics::any},
              [&](Communicator& group) -> std::string {
                base::Random random(group.rank() + 1);
                constexpr size_t kCount = 100'000;
                std::vector<float> input(kCount), large(kCount), small(kCount);
                for (float& x : input)
                  x = std::ldexp(static_cast<float>(random.below(1 << 24)),
                                 static_cast<int>(random.below(60)) - 50);
                (void)group.all_reduce(input.data(), large.data(), kCount, DataType::fp32).wait();
                for (size_t at = 0; at < kCount; at += 10'000)
                  (void)group
                      .all_reduce(&input[at], &small[at], at % 20'000 == 0 ? 10'000 : 7,
                                  DataType::fp32, ReduceOp::sum,
                                  {.algorithm = at % 20'000 == 0 ? "single_step" : "direct"})
                      .wait();
                for (size_t i = 0; i < kCount; ++i)
                  if ((i % 20'000 < 10'000 || i % 10'000 < 7) &&
                      std::memcmp(&small[i], &large[i], sizeof(float)) != 0)
                    return "element " + std::to_string(i) + " differs";
                Operation ring = group.all_reduce(input.data(), large.data(), 1, DataType::fp32,
                                                  ReduceOp::sum, {.algorithm = "ring"});
                const Result<void> refused = ring.wait();
                return refused ? "ring was not refused" : "";
              });
}

}  // namespace
}  // namespace weft::test
