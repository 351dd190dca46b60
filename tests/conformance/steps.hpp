// SPDX-License-Identifier: BSD-3-Clause
// Steps that several files of the conformance suite take: posting WRITEs, expecting completions,
// waiting, and counting what the process has open.
#pragma once

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

inline bool readable(int fd, int wait_ms) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, wait_ms) == 1;
}

// Entries of a folder of /proc/self: "fd", "task".
inline size_t entries_of_process(const char* folder) {
  const std::filesystem::path path = std::filesystem::path("/proc/self") / folder;
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}

// `count` signaled WRITEs of 8 B with the ids from `first` on.
inline void post_writes(const Pair& p, const Buffer& near, const Buffer& far, uint64_t first,
                        uint64_t count) {
  const Sge out = near.sge(0, 8);
  for (uint64_t id = first; id < first + count; ++id)
    REQUIRE(p.qa.post_send({.id = id,
                            .opcode = Opcode::write,
                            .sges = {&out, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
}

// Successful completions with the ids from `first` on, in this order.
inline void require_completions(const CompletionQueue& cq, uint64_t first, uint64_t count) {
  for (uint64_t id = first; id < first + count; ++id) {
    Completion c;
    REQUIRE(cq.wait({&c, 1}, Duration::from_s(10)) == 1);
    CHECK(c.id == id);
    CHECK(c.status == Status::success);
  }
}

inline void require_success(const Completion& c, uint64_t id, WorkType type, uint32_t bytes) {
  INFO("status " << name(c.status));
  REQUIRE(c.status == Status::success);
  REQUIRE(c.id == id);
  REQUIRE(c.type == type);
  REQUIRE(c.byte_count == bytes);
}

}  // namespace weft::test
