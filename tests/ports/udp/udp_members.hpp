// SPDX-License-Identifier: BSD-3-Clause
// What the tests of shared addresses have in common: members in this process and in children, and
// the check that each gets its own frames.
#pragma once

#include <sys/wait.h>

#include <cstdlib>

#include "tests/ports/udp/udp_frames.hpp"

namespace udp_test {

using Ports = std::vector<std::unique_ptr<Port>>;

// Sends one frame and one train to a QPN of each member; each must get exactly its own.
inline void check_delivery(const Ports& members, uint32_t rounds) {
  Port& from = *members[0];
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const auto& to : members) {
      const Path path = path_between(from, *to, static_cast<uint16_t>(0xC000 + round));
      const uint32_t qpn = to->qpn_range().first + round;
      std::vector<Bytes> bytes;
      std::vector<TxFrame> frames;
      for (uint32_t k = 0; k < 6; ++k) bytes.push_back(frame_bytes(k + round, 100, qpn));
      for (uint32_t k = 0; k < 6; ++k)
        frames.push_back(whole_frame(path, bytes[k], static_cast<uint16_t>(k > 0 ? k - 1 : 0)));
      REQUIRE(from.transmit(frames) == frames.size());
      // A frame that reached the wrong member waits there until that member looks.
      std::vector<Got> got;
      for (int turn = 0; turn < 100 && got.size() < 6; ++turn) {
        for (const auto& other : members) {
          if (other == to) continue;
          Frame foreign[16];
          const size_t n = other->receive(foreign);
          CHECK(n == 0);
          other->release({foreign, n});
        }
        Frame mine[16];
        const size_t n = to->receive(mine);
        for (size_t i = 0; i < n; ++i) {
          got.push_back({Bytes(mine[i].bytes, mine[i].bytes + mine[i].length), *mine[i].path,
                         mine[i].ip_id, mine[i].ip_id_known, mine[i].ecn});
        }
        to->release({mine, n});
      }
      REQUIRE(got.size() == 6);
      for (uint32_t k = 0; k < 6; ++k) {
        CHECK(got[k].bytes == bytes[k]);
        CHECK(got[k].path.source == from.address());
        CHECK(got[k].path.source_port == path.source_port);
      }
    }
  }
}

inline uint64_t total(const Ports& members, std::string_view name) {
  uint64_t sum = 0;
  for (const auto& member : members) sum += counter(*member, name);
  return sum;
}

inline uint8_t slot(const Port& port) { return static_cast<uint8_t>(port.qpn_range().first >> 16); }

// A child process that runs `body` and answers with its result.
template <class Body>
pid_t child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}

inline int result_of(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Opens a member without Catch, for children. Null: it failed.
inline std::unique_ptr<Port> try_open(const std::string& where) {
  Result<std::unique_ptr<Port>> port = port::open_udp_port({where, {}});
  return port ? std::move(*port) : nullptr;
}

inline bool run(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

}  // namespace udp_test
