// SPDX-License-Identifier: BSD-3-Clause
// Names of what calls are made of.
#include "weft/collective.hpp"

namespace weft {

std::string_view name(Collective collective) noexcept {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::all_gather_v:
      return "all_gather_v";
    case Collective::reduce_scatter_v:
      return "reduce_scatter_v";
    case Collective::all_to_all_v:
      return "all_to_all_v";
    case Collective::dispatch:
      return "dispatch";
    case Collective::combine:
      return "combine";
    case Collective::exchange:
      return "exchange";
    case Collective::barrier:
      return "barrier";
  }
  return "?";
}

std::string_view name(DataType type) noexcept {
  static constexpr std::string_view kNames[] = {
      "uint8", "int8", "uint16", "int16", "uint32",   "int32",    "uint64",     "int64",
      "fp16",  "bf16", "fp32",   "fp64",  "fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "mxfp8_e5m2"};
  return kNames[static_cast<int>(type)];
}

std::string_view name(Numerics numerics) noexcept {
  static constexpr std::string_view kNames[] = {"fast", "run", "any"};
  return kNames[static_cast<int>(numerics)];
}

std::string_view name(ReduceOp op) noexcept {
  static constexpr std::string_view kNames[] = {"sum", "prod", "min", "max", "avg"};
  return kNames[static_cast<int>(op)];
}

}  // namespace weft
