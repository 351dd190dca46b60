// SPDX-License-Identifier: BSD-3-Clause
// Most samples are zero: these are counted, the others stored.
#include "lib/sim/run/queue_samples.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/check.hpp"

namespace weft::sim::flow {

QueueSamples::QueueSamples(const fabric::Topology& topology, int64_t window_ns)
    : histogram_(1), window_ns_(window_ns) {
  for (uint32_t port = 0; port < topology.port_count(); ++port)
    if (!topology.is_host(topology.from(port)))
      watched_.push_back({.port = port, .from = topology.from(port), .to = topology.to(port)});
}

void QueueSamples::sample(int64_t now_ns, std::span<const fabric::Port> ports) {
  if (now_ns >= window_begin_ + window_ns_) {
    close_window();
    window_begin_ = now_ns / window_ns_ * window_ns_;
  }
  WEFT_DCHECK(now_ns >= window_begin_);
  uint64_t zeros = 0;
  for (Watched& watched : watched_) {
    const uint32_t bytes = ports[watched.port].queue_bytes;
    if (bytes < 1000) {
      ++watched.zeros;
      ++zeros;
      continue;
    }
    const uint32_t kb = bytes / 1000;
    watched.kb.push_back(kb);
    if (kb >= histogram_.size()) histogram_.resize(kb + 1);
    ++histogram_[kb];
  }
  histogram_[0] += zeros;
  count_ += watched_.size();
}

void QueueSamples::close_window() {
  for (Watched& watched : watched_) {
    if (!watched.kb.empty()) {
      const size_t middle = (watched.kb.size() + watched.zeros) / 2;
      uint32_t median = 0;
      if (middle >= watched.zeros) {
        const auto nth = watched.kb.begin() + static_cast<ptrdiff_t>(middle - watched.zeros);
        WEFT_DCHECK(nth < watched.kb.end());
        std::nth_element(watched.kb.begin(), nth, watched.kb.end());
        median = *nth;
      }
      const uint32_t most = *std::max_element(watched.kb.begin(), watched.kb.end());
      windows_.push_back({watched.port, watched.from, watched.to, window_begin_, median, most});
    }
    watched.kb.clear();
    watched.zeros = 0;
  }
}

void QueueSamples::finish() { close_window(); }

uint64_t QueueSamples::percentile_kb(double share) const noexcept {
  uint64_t seen = 0;
  const double wanted = share * static_cast<double>(count_);
  for (size_t kb = 0; kb < histogram_.size(); ++kb) {
    seen += histogram_[kb];
    if (static_cast<double>(seen) >= wanted) return kb;
  }
  return 0;
}

uint64_t QueueSamples::most_kb() const noexcept {
  for (size_t kb = histogram_.size(); kb-- > 0;)
    if (histogram_[kb] != 0) return kb;
  return 0;
}

}  // namespace weft::sim::flow
