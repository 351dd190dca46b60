// SPDX-License-Identifier: BSD-3-Clause
// Random calls of collectives, their buffers, and the expected contents.
// WEFT_TEST_SEED=N replays a seed that failed.
#pragma once

#include <cstdlib>

#include "lib/base/random.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {

inline uint64_t base_seed() {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20261121;
}

// A random call, the same on all ranks of a seed.
struct RandomCall {
  uint64_t seed = 0;
  Collective collective = Collective::all_reduce;
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;
  uint32_t root = 0;
  size_t count = 0;
  bool in_place = false;
  size_t misaligned = 0;  // bytes
  bool discovered = false;
  collective::Blocks blocks = {};
  std::string_view algorithm;

  std::string describe() const {
    return std::string(name(collective)) + " " + std::to_string(count) + " " +
           std::string(name(type)) + " " + std::string(name(op)) + " root " + std::to_string(root) +
           (in_place ? " in place" : "") + " algorithm '" + std::string(algorithm) +
           "' misaligned " + std::to_string(misaligned) + (discovered ? " discovered" : "");
  }

  collective::Shape shape(uint32_t ranks) const {
    return {
        .collective = collective, .ranks = ranks, .root = root, .count = count, .blocks = blocks};
  }
};

// Blocks of 0 to 2 * `count` elements, every third one empty.
inline collective::Blocks random_blocks(const RandomCall& call, uint32_t ranks) {
  collective::Blocks blocks;
  if (!collective::has_blocks(call.collective)) return blocks;
  base::Random random(call.seed);
  const size_t entries = call.collective == Collective::all_to_all_v ? ranks * ranks : ranks;
  for (size_t i = 0; i < entries; ++i)
    blocks.counts.push_back(random.below(3) == 0 ? 0 : random.below(2 * call.count + 1));
  return blocks;
}

// Tokens for experts have a test of their own.
inline bool is_for_experts(Collective collective) {
  return collective == Collective::dispatch || collective == Collective::combine;
}

inline RandomCall random_call(base::Random& random, uint32_t ranks) {
  const auto& all = collective::algorithms();
  RandomCall call;
  call.seed = random.next();
  const auto pick = [&] { return all[random.below(all.size())]; };
  collective::Algorithm algorithm = pick();
  while (is_for_experts(algorithm.collective)) algorithm = pick();
  call.collective = algorithm.collective;
  if (random.below(4) != 0 && collective::find_algorithm(algorithm.name, call.collective, ranks))
    call.algorithm = algorithm.name;
  call.type = static_cast<DataType>(random.below(1 + static_cast<int>(DataType::mxfp8_e5m2)));
  call.op = static_cast<ReduceOp>(random.below(5));
  call.root = static_cast<uint32_t>(random.below(ranks));
  const size_t limits[] = {1, 3, 200, 3000, 40'000, 150'000};
  call.count = random.below(limits[random.below(6)] + 1);
  call.in_place = random.below(3) == 0 && call.collective != Collective::all_to_all_v;
  call.discovered = random.below(2) == 0;
  call.blocks = random_blocks(call, ranks);
  call.misaligned = random.below(2) * random.below(9);
  return call;
}

// Element i of a rank's input: small, so that sums and products are exact in every type.
inline double element(const RandomCall& call, uint32_t rank, size_t i) {
  const uint64_t bits = (call.seed ^ (i * 0x9E3779B97F4A7C15 + rank * 0xC2B2AE3D27D4EB4F)) >> 7;
  if (call.op == ReduceOp::prod) return bits % 5 == 0 ? 2 : 1;
  return static_cast<double>(bits % 9) - (is_unsigned(call.type) ? 0 : 4);
}

inline double reduced(const RandomCall& call, uint32_t ranks, size_t i) {
  double value = element(call, 0, i);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const double next = element(call, rank, i);
    if (call.op == ReduceOp::prod)
      value *= next;
    else if (call.op == ReduceOp::min)
      value = std::min(value, next);
    else if (call.op == ReduceOp::max)
      value = std::max(value, next);
    else
      value += next;
  }
  if (call.op != ReduceOp::avg) return value;
  if (is_integer(call.type)) return std::trunc(value / ranks);
  if (call.type == DataType::fp64) return value / ranks;
  return static_cast<float>(value) / static_cast<float>(ranks);
}

// The expected value of element i of a rank's output.
inline double expected(const RandomCall& call, uint32_t ranks, uint32_t rank, size_t i) {
  const std::vector<uint64_t>& counts = call.blocks.counts;
  uint32_t from = 0;
  switch (call.collective) {
    case Collective::reduce_scatter_v:
      for (uint32_t r = 0; r < rank; ++r) i += counts[r];
      return reduced(call, ranks, i);
    case Collective::all_gather_v:
      for (; i >= counts[from]; ++from) i -= counts[from];
      return element(call, from, i);
    case Collective::all_to_all_v:
      for (; i >= counts[from * ranks + rank]; ++from) i -= counts[from * ranks + rank];
      for (uint32_t to = 0; to < rank; ++to) i += counts[from * ranks + to];
      return element(call, from, i);
    case Collective::reduce_scatter:
      return reduced(call, ranks, rank * call.count + i);
    case Collective::all_gather:
      return element(call, static_cast<uint32_t>(i / call.count), i % call.count);
    case Collective::broadcast:
      return element(call, call.root, i);
    case Collective::all_to_all:
      return element(call, static_cast<uint32_t>(i / call.count),
                     rank * call.count + i % call.count);
    default:
      return reduced(call, ranks, i);
  }
}

class Buffers {
 public:
  Buffers(const RandomCall& call, uint32_t ranks, uint32_t rank)
      : call_(call), ranks_(ranks), rank_(rank), width_(size_of(call.type)) {
    const collective::Shape shape = call.shape(ranks);
    in_count_ = collective::input_size(shape, rank);
    out_count_ = collective::output_size(shape, rank);
    const size_t bytes =
        (std::max({in_count_, out_count_, call.count}) + 1) * width_ + call.misaligned;
    in_.resize(bytes, std::byte{0xAA});
    out_.resize(bytes, std::byte{0xAA});
    size_t shift = 0;
    if (call.in_place && collective::gathers(call.collective))
      shift = collective::rank_block(shape, rank).offset * width_;
    std::vector<std::byte>& from =
        call.in_place && !collective::scatters(call.collective) ? out_ : in_;
    input = from.data() + call.misaligned + shift;
    output = out_.data() + call.misaligned;
    if (call.in_place && collective::scatters(call.collective))
      output = in_.data() + call.misaligned + collective::rank_block(shape, rank).offset * width_;
    const std::vector<uint64_t>& counts = call.blocks.counts;
    for (uint32_t r = 0; r < ranks && call.collective == Collective::all_to_all_v; ++r) {
      send_counts.push_back(counts[rank * ranks + r]);
      receive_counts.push_back(counts[r * ranks + rank]);
    }
    discovered_counts.resize(ranks);
    for (size_t i = 0; i < in_count_; ++i)
      encode(call.type, input + i * width_, element(call, rank, i));
  }

  size_t capacity() const { return out_count_; }

  std::string check() const {
    if (call_.discovered && call_.collective == Collective::all_to_all_v &&
        discovered_counts != receive_counts)
      return call_.describe() + ": other counts discovered";
    for (size_t i = 0; i < out_count_; ++i) {
      std::byte wanted[kWidest];
      encode(call_.type, wanted, expected(call_, ranks_, rank_, i));
      if (std::memcmp(wanted, output + i * width_, width_) != 0)
        return call_.describe() + ": element " + std::to_string(i) + " is " +
               std::to_string(decode(call_.type, output + i * width_)) + ", not " +
               std::to_string(decode(call_.type, wanted));
    }
    return "";
  }

  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<size_t> send_counts, receive_counts, discovered_counts;

 private:
  const RandomCall& call_;
  uint32_t ranks_, rank_;
  size_t width_, in_count_, out_count_;
  std::vector<std::byte> in_, out_;
};

inline Operation start(Communicator& group, const RandomCall& c, Buffers& b) {
  const CallOptions options{.algorithm = c.algorithm};
  switch (c.collective) {
    case Collective::reduce_scatter:
      return group.reduce_scatter(b.input, b.output, c.count, c.type, c.op, options);
    case Collective::all_gather:
      return group.all_gather(b.input, b.output, c.count, c.type, options);
    case Collective::broadcast:
      return group.broadcast(b.input, b.output, c.count, c.type, c.root, options);
    case Collective::reduce:
      return group.reduce(b.input, b.output, c.count, c.type, c.op, c.root, options);
    case Collective::all_to_all:
      return group.all_to_all(b.input, b.output, c.count, c.type, options);
    case Collective::all_gather_v:
      return group.all_gather_v(b.input, b.output, c.blocks.counts, c.type, options);
    case Collective::reduce_scatter_v:
      return group.reduce_scatter_v(b.input, b.output, c.blocks.counts, c.type, c.op, options);
    case Collective::all_to_all_v:
      if (c.discovered)
        return group.all_to_all_v_discovered(b.input, b.send_counts, b.output, b.capacity(),
                                             b.discovered_counts, c.type, options);
      return group.all_to_all_v(b.input, b.send_counts, b.output, b.receive_counts, c.type,
                                options);
    default:
      return group.all_reduce(b.input, b.output, c.count, c.type, c.op, options);
  }
}

// `calls` random calls, up to three of them in progress at a time.
inline std::string random_program(Communicator& group, uint64_t seed, uint64_t calls) {
  base::Random random(seed);
  for (uint64_t done = 0; done < calls;) {
    const uint64_t together = std::min(calls - done, 1 + random.below(3));
    std::vector<RandomCall> batch;
    for (uint64_t i = 0; i < together; ++i) batch.push_back(random_call(random, group.size()));
    std::vector<std::unique_ptr<Buffers>> buffers;
    std::vector<Operation> operations;
    for (const RandomCall& call : batch) {
      buffers.push_back(std::make_unique<Buffers>(call, group.size(), group.rank()));
      operations.push_back(start(group, call, *buffers.back()));
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      if (const Result<void> finished = operations[i].wait(); !finished)
        return batch[i].describe() + ": " + finished.error().message;
      const std::string wrong = buffers[i]->check();
      if (!wrong.empty()) return wrong;
    }
    done += together;
  }
  return "";
}

}  // namespace weft::test
