// SPDX-License-Identifier: BSD-3-Clause
// Types of collective operations: operation, element type, reduction. Counts are in elements, as in
// MPI and NCCL:
//   all_reduce, broadcast, reduce    `count` elements in each buffer
//   reduce_scatter                   `count` elements in the output, ranks * count in the input
//   all_gather                       `count` elements in the input, ranks * count in the output
//   all_to_all                       `count` elements for each rank in both buffers
// The _v forms have a count per rank, the size of its block; blocks are contiguous, in the order of
// ranks. dispatch and combine move tokens to experts and back: collective_moe.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

// Collective operations.
enum class Collective : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v,
  dispatch,  // tokens to experts
  combine,   // results of experts back to the tokens' ranks
  exchange,  // point-to-point sends and receives between any pairs
  barrier,
};
// The name as spelled above.
std::string_view name(Collective collective) noexcept;

// Element types. fp16 is IEEE binary16, bf16 the upper half of fp32, fp8_* the formats of OCP OFP8
// 1.0. An element of mxfp8_* is a block of OCP MX 1.0 of 33 bytes, a scale in E8M0 and 32 values of
// fp8: counts are in blocks, which are never split.
enum class DataType : uint8_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  uint64,
  int64,
  fp16,
  bf16,
  fp32,
  fp64,
  fp8_e4m3,
  fp8_e5m2,
  mxfp8_e4m3,
  mxfp8_e5m2,
};
// The name as spelled above.
std::string_view name(DataType type) noexcept;
// True for uint8 .. int64.
constexpr bool is_integer(DataType type) noexcept { return type <= DataType::int64; }
// True for unsigned integers.
constexpr bool is_unsigned(DataType type) noexcept {
  return is_integer(type) && static_cast<int>(type) % 2 == 0;
}
// Bytes of an element.
constexpr size_t size_of(DataType type) noexcept {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 33, 33};
  return kSizes[static_cast<int>(type)];
}

// Reductions. Integers wrap; the average of integers is the wrapped sum divided by the ranks,
// rounded towards zero. Floating-point types of 16 and 8 bits are reduced in fp32 and rounded once,
// to nearest even. fp8 saturates: larger values, infinities included, become the largest number. A
// block of mxfp8 gets a new scale from its largest value; infinities in it become NaN. min and max
// of a NaN and a number are NaN.
enum class ReduceOp : uint8_t { sum, prod, min, max, avg };
// The name as spelled above.
std::string_view name(ReduceOp op) noexcept;

// Traffic classes of calls: 0 has the highest priority, for small latency-critical calls; 2 is the
// default; 3 is for bulk transfers. Each class of a communicator has its own queue pairs, so calls
// of different classes overtake each other. Requests carry the DSCP of their class (46, 34, 0, 8);
// a network with a queue per DSCP keeps the classes apart too. On a rank, calls of a class yield
// while one of a higher-priority class makes progress: they process one piece per 500 us, and
// resume when that call has waited for 100 us. High-priority calls without a pause starve the
// others. On srd, messages of classes 0 and 1 overtake all others to the same peer; on roce, and in
// the rings of shm, requests are sent in the order of posting.
inline constexpr uint32_t kTrafficClasses = 4;
// The DSCP of a traffic class.
constexpr uint8_t dscp_of(uint32_t traffic_class) noexcept {
  constexpr uint8_t kDscp[] = {46, 34, 0, 8};
  return kDscp[traffic_class % kTrafficClasses];
}

}  // namespace weft
