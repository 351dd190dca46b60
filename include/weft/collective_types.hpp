// SPDX-License-Identifier: BSD-3-Clause
// The words of collective operations: which operation, of which elements, reduced how. Counts are
// in elements and mean what they mean in MPI and NCCL:
//   all_reduce, broadcast, reduce    `count` elements in each buffer
//   reduce_scatter                   `count` elements per rank are received, ranks * count given
//   all_gather                       `count` elements per rank are given, ranks * count received
//   all_to_all                       `count` elements for each rank in both buffers
// The _v forms have a count for each rank: its block, blocks lie one after the other in the order
// of ranks. dispatch and combine move tokens to experts and back: collective_moe.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

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
  combine,   // and back
  exchange,  // sends and receives between any pairs
  barrier,
};
std::string_view name(Collective collective) noexcept;

// fp16 is IEEE binary16, bf16 the upper half of fp32, fp8_* the 8-bit formats of OCP (OFP8 1.0). An
// element of mxfp8_* is a block of OCP MX 1.0, 33 bytes: a scale of E8M0, then 32 values of fp8; so
// counts are in blocks, and no block is ever cut.
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
std::string_view name(DataType type) noexcept;
constexpr bool is_integer(DataType type) noexcept { return type <= DataType::int64; }
constexpr bool is_unsigned(DataType type) noexcept {
  return is_integer(type) && static_cast<int>(type) % 2 == 0;
}
constexpr size_t size_of(DataType type) noexcept {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 33, 33};
  return kSizes[static_cast<int>(type)];
}

// Integers wrap; an average of integers is the wrapped sum divided, rounded towards zero. Floating
// types of 16 and 8 bits are reduced in fp32 and rounded once, to nearest even. fp8 saturates: what
// is beyond the largest number, infinity too, becomes that number. A block of mxfp8 gets a new
// scale from its largest number; infinities become NaN in it. min and max of a NaN and a number are
// the NaN.
enum class ReduceOp : uint8_t { sum, prod, min, max, avg };
std::string_view name(ReduceOp op) noexcept;

// Traffic classes of calls: 0 goes first, for small calls that somebody waits for; 2 is the usual
// one; 3 is for bulk that may wait. Each class of a communicator has queue pairs of its own, so
// calls of different classes pass each other. Requests carry the class's DSCP (46, 34, 0 and 8),
// and a network that keeps a queue for each of these lets one class pass another. On a rank, calls
// of a class stand back while one of a more urgent class moves on: they do one piece's work in half
// a millisecond, and go on when that call has waited for 100 us. Urgent calls without a pause leave
// the others little. On srd, messages of classes 0 and 1 go before all others to the
// same peer; on roce, and in the rings of shm, what was posted first goes first.
inline constexpr uint32_t kTrafficClasses = 4;
constexpr uint8_t dscp_of(uint32_t traffic_class) noexcept {
  constexpr uint8_t kDscp[] = {46, 34, 0, 8};
  return kDscp[traffic_class % kTrafficClasses];
}

}  // namespace weft
