// SPDX-License-Identifier: BSD-3-Clause
// Load balancers of your own: which of many paths the next packet takes. A path is a number below
// `count`, which switches hash; what they make of it is known only by what comes back. A policy is
// a shared object that is compiled with this header and links nothing of weft:
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared patient.cpp -o patient.so
//   srd+udp:lo,paths=8,path_policy=./mine.so       weft_sim run ... path.policy=./mine.so
//
// The same object runs in SRD devices and in the simulator. Functions run under the engine's lock:
// they must not block or allocate. examples/plugins/patient.cpp is a complete one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/units.hpp"

namespace weft::congestion {

// Counts changes of this header that a shared object sees.
inline constexpr uint32_t kPathInterface = 1;
// The most that a policy may keep for one flow.
inline constexpr size_t kMostPathState = 4096;

// The fate of a packet. One trimmed at the receiver's own link counts as good, or as marked: its
// path is not congested.
enum class PathFeedback : uint8_t { good, marked, not_arrived, timed_out };

// What a policy is started with.
struct PathConditions {
  uint32_t count = 0;  // of paths, 1 to 65536; an SRD device has 256 at most
  uint64_t seed = 0;   // of what the policy draws at random
  Duration rtt{};      // of the network, or a guess
};

// A path policy, of which one flow (or one peer of SRD) has a state.
struct PathKind {
  uint32_t interface_number = kPathInterface;  // keeps its place: it is read first
  std::string_view name{};
  size_t state_bytes = 0;  // at most kMostPathState; zero at the start, aligned to 8
  // A flow begins. May be null.
  void (*start)(void* state, const PathConditions&) = nullptr;
  // The path of the next packet; beyond `count` it is taken modulo that.
  uint16_t (*next)(void* state, Instant now) = nullptr;
  // What became of a packet on `path`. May be null.
  void (*on_feedback)(void* state, uint16_t path, PathFeedback, Instant now) = nullptr;
};

}  // namespace weft::congestion

// At the end of a shared object's source, outside of namespaces: `OBJECT`, a congestion::PathKind,
// is the policy that it has.
#define WEFT_PATH_POLICY(OBJECT)                                \
  extern "C" {                                                  \
  extern const ::weft::congestion::PathKind weft_path_policy    \
      __attribute__((visibility("default")));                   \
  const ::weft::congestion::PathKind weft_path_policy = OBJECT; \
  }                                                             \
  static_assert(true, "takes the semicolon")
