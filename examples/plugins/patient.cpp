// SPDX-License-Identifier: BSD-3-Clause
// A load balancer of your own: round robin, but a path whose packets were marked or lost is passed
// over a few times.
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared patient.cpp -o patient.so
//   weft_sim run spray-incast-16 cc=nscc path.policy=./patient.so
//   weft_write_bw -c SRD -d srd+udp:lo,paths=8,path_policy=./patient.so 127.0.0.1
#include <algorithm>
#include <weft/path_policy.hpp>

namespace cc = weft::congestion;

struct Patient {
  uint32_t count;
  uint32_t at;
  uint8_t skip[256];  // by path: times that it is still passed over
};

static void start(void* state, const cc::PathConditions& conditions) {
  auto* const own = static_cast<Patient*>(state);
  own->count = std::min<uint32_t>(conditions.count, std::size(own->skip));
  own->at = static_cast<uint32_t>(conditions.seed % own->count);
}

static uint16_t next(void* state, weft::Instant) {
  auto* const own = static_cast<Patient*>(state);
  for (uint32_t tries = 0; tries < own->count; ++tries) {
    own->at = (own->at + 1) % own->count;
    if (own->skip[own->at] == 0) break;
    --own->skip[own->at];
  }
  return static_cast<uint16_t>(own->at);
}

static void on_feedback(void* state, uint16_t path, cc::PathFeedback feedback, weft::Instant) {
  auto* const own = static_cast<Patient*>(state);
  if (path >= own->count || feedback == cc::PathFeedback::good) return;
  own->skip[path] = feedback == cc::PathFeedback::marked ? 1 : 4;
}

WEFT_PATH_POLICY((cc::PathKind{.name = "patient",
                               .state_bytes = sizeof(Patient),
                               .start = start,
                               .next = next,
                               .on_feedback = on_feedback}));
