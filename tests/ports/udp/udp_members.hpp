// SPDX-License-Identifier: BSD-3-Clause
// What the tests of shared addresses have in common: members in this process and in children, and
// the check that each gets its own frames.
#pragma once

#include <signal.h>
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

// A child that opens a member and never reads from it; returns once it is open.
inline pid_t idle_member(const std::string& where) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t pid = child([&] {
    Result<std::unique_ptr<Port>> port = port::open_udp_port({where, {}});
    if (!port || ::write(ready[1], "+", 1) != 1) return 1;
    for (;;) ::pause();
    return 0;
  });
  char mark = 0;
  const bool opened = ::close(ready[1]) == 0 && ::read(ready[0], &mark, 1) == 1;
  ::close(ready[0]);
  REQUIRE(opened);
  return pid;
}

inline int result_of(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline void kill_member(pid_t pid) {
  REQUIRE(::kill(pid, SIGKILL) == 0);
  CHECK(result_of(pid) == -1);
}

// Opens a member without Catch, for children. Null: it failed.
inline std::unique_ptr<Port> try_open(const std::string& where) {
  Result<std::unique_ptr<Port>> port = port::open_udp_port({where, {}});
  return port ? std::move(*port) : nullptr;
}

// Echoes frames for our QPNs back to where they came from until the pipe `end` closes: a member
// that left earlier could take frames of the others with it. 0 = they were `count`.
inline int echo(Port& port, int count, uint32_t back_to, int end) {
  Frame frames[32];
  for (int idle = 0; idle < 5;) {
    const size_t n = port.receive(frames);
    for (size_t i = 0; i < n; ++i) {
      if (static_cast<uint8_t>(frames[i].bytes[5]) != slot(port)) return 3;
      Path path;
      path.source = port.address();
      path.destination = frames[i].path->source;
      path.source_port = port.source_port(0xE000, 0);
      Bytes answer(frames[i].bytes, frames[i].bytes + frames[i].length);
      answer[5] = static_cast<std::byte>(back_to >> 16);
      const TxFrame frame = whole_frame(path, answer);
      if (port.transmit({&frame, 1}) != 1) return 4;
      --count;
    }
    port.release({frames, n});
    std::vector<pollfd> waits;
    if (n > 0 || !port.prepare_wait(waits, false)) continue;
    waits.push_back({end, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), 1000) == 0) ++idle;
    port.finish_wait();
    if (waits.back().revents != 0) break;
  }
  return count == 0 ? 0 : 5;
}

inline bool run(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

}  // namespace udp_test
