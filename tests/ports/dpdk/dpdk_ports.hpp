// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the dpdk port share: opening one, and both ends of a memif.
#pragma once

#include <algorithm>
#include <span>

#include "providers/port/dpdk/dpdk_port.hpp"
#include "tests/ports/udp/udp_frames.hpp"

namespace dpdk_test {

using namespace udp_test;

constexpr const char* kMemory = "400";  // for four devices at once

using Opened = Result<std::unique_ptr<Port>>;

inline Opened try_dpdk(const std::string& where, const Keys& keys = {}) {
  Keys all = keys;
  all.emplace_back("huge", "0");
  if (std::none_of(keys.begin(), keys.end(), [](const auto& key) { return key.first == "memory"; }))
    all.emplace_back("memory", kMemory);
  return port::open_dpdk_port({where, all});
}

inline std::unique_ptr<Port> open_dpdk(const std::string& where, const Keys& keys = {}) {
  Opened opened = try_dpdk(where, keys);
  INFO((opened ? "" : opened.error().message));
  REQUIRE(opened);
  return *std::move(opened);
}

inline const port::dpdk::Device& device_of(const Port& port) {
  return *static_cast<const port::DpdkPort&>(port).device();
}

// Two ends of a memif.
struct Ends {
  Keys keys;  // of both
  std::string socket = "/tmp/weft-port-" + std::to_string(getpid());
  std::unique_ptr<Port> a = open("1", "2");
  std::unique_ptr<Port> b = open("2", "1");

  std::unique_ptr<Port> open(const std::string& own, const std::string& other) const {
    Keys all = {{"socket", socket},
                {"address", "10.83.0." + own},
                {"neighbour", "10.83.0." + other + "@02:00:00:00:00:0" + other}};
    all.insert(all.end(), keys.begin(), keys.end());
    return open_dpdk("net_memif", all);
  }
};

// The frames that come within a second, `count` at most.
inline std::vector<Got> arrived(Port& port, size_t count, int milliseconds = 1000) {
  std::vector<Got> all;
  for (int i = 0; i < milliseconds && all.size() < count; ++i) {
    Frame frames[64];
    const size_t now = port.receive(frames);
    for (const Frame& frame : std::span(frames, now))
      all.push_back({Bytes(frame.bytes, frame.bytes + frame.length), *frame.path});
    port.release({frames, now});
    if (now == 0) usleep(1000);
  }
  return all;
}

}  // namespace dpdk_test
