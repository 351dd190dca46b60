// SPDX-License-Identifier: BSD-3-Clause
// Shared by tests of connection set-up: an open device (WEFT_TEST_DEVICE, if set), and a pair
// connected by two threads.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/weft.hpp"

namespace weft::test {

inline const char* device_of_test() {
  const char* const named = std::getenv("WEFT_TEST_DEVICE");
  return named != nullptr ? named : "roce+udp:lo";
}

struct Endpoint {
  std::string spec = device_of_test();
  Device device = *Device::open(spec);
  CompletionQueue cq = *device.completion_queue({.capacity = 64});
  ProtectionDomain pd = *device.protection_domain();

  QueuePair queue_pair() const { return *pd.queue_pair({.send_cq = cq, .recv_cq = cq}); }
};

inline std::vector<std::byte> bytes(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline std::string at(const Listener& listener) {
  return "127.0.0.1:" + std::to_string(listener.port());
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Connects `a` and accepts `b` at the same time.
inline void connect_both(Listener& listener, QueuePair a, QueuePair b,
                         const ConnectOptions& a_options, const ConnectOptions& b_options,
                         Result<Connection>& a_result, Result<Connection>& b_result) {
  std::thread server([&] { b_result = listener.accept(b, b_options); });
  a_result = connect(at(listener), a, a_options);
  server.join();
}

inline const Error kNone{Code::invalid_argument, "not run"};

}  // namespace weft::test
