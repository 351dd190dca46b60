// SPDX-License-Identifier: BSD-3-Clause
// How many bytes may be on the way to one peer, over all paths. `none` always permits what the
// receiver's buffer absorbs; `halved` halves that at a loss, at most once per window of data, and
// grows back additively.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace weft::engine::srd {

enum class Control : uint8_t { none, halved };
inline constexpr std::string_view kControlNames[] = {"none", "halved"};

struct Window {
  uint64_t in_flight = 0;  // bytes sent, neither acknowledged nor believed lost
  uint64_t size = 0;
  uint64_t limit = 0;
  uint64_t floor = 0;
  uint64_t until_growth = 0;
  uint64_t until_cut = 0;  // bytes to be acknowledged before the next cut
  Control control = Control::halved;

  void start(Control how, uint64_t most) {
    control = how;
    limit = size = std::max<uint64_t>(most, 16384);
    floor = std::min<uint64_t>(limit, 16384);
    in_flight = until_growth = until_cut = 0;
  }
  bool open() const { return in_flight < size; }
  void on_sent(uint64_t bytes) { in_flight += bytes; }
  void forget(uint64_t bytes) { in_flight -= std::min(in_flight, bytes); }

  void on_acknowledged(uint64_t bytes) {
    forget(bytes);
    until_cut -= std::min(until_cut, bytes);
    if (size >= limit) return;
    if (bytes < until_growth) {
      until_growth -= bytes;
      return;
    }
    size = std::min(limit, size + limit / 16);
    until_growth = size;
  }
  void on_loss() {
    if (control == Control::none || until_cut != 0) return;
    until_cut = std::max<uint64_t>(in_flight, 1);
    size = std::max(floor, size / 2);
    until_growth = size;
  }
};

}  // namespace weft::engine::srd
