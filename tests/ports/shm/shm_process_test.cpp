// SPDX-License-Identifier: BSD-3-Clause
// Two processes: traffic, kill -9 of either side in the middle of it, and what is left behind.
#include <cstring>

#include "tests/ports/shm/shm_echo.hpp"

using namespace shm_test;

namespace {

size_t open_descriptors() { return entries("/proc/self/fd"); }

}  // namespace

TEST_CASE("shm: two processes exchange frames of all sizes") {
  const char* mode = GENERATE("0", "1", "auto");
  Echo echo(job(), {{"by_reference", mode}});
  auto port = open_port(job(), {{"by_reference", mode}, {"threshold", "8k"}});
  for (int round = 0; round < 3; ++round) {
    for (const size_t size : {0u, 8u, 28u, 29u, 4096u, 65536u, 1u << 20}) {
      const Bytes header = pattern(32, size), payload = pattern(size, 77);
      const auto got = ask(*port, echo.address, header, payload);
      REQUIRE(got.size() == 1);
      CHECK(got[0].bytes == joined(header, payload));
      CHECK(got[0].source == echo.address);
    }
  }
}

TEST_CASE("shm: kill -9 of the peer loses only frames, the next peer connects") {
  const size_t shm_before = entries("/dev/shm");
  auto port = open_port(job());
  for (int round = 0; round < 10; ++round) {
    Echo echo(job());
    REQUIRE(ask(*port, echo.address, pattern(32, 1), pattern(5000, 2)).size() == 1);
    std::vector<Received> got;
    for (int i = 0; i < 400; ++i) {
      send(*port, echo.address, pattern(32, 1), pattern(5000, 2));
      collect(*port, got);
      if (i == 200) echo.kill_now();
    }
    for (const Received& frame : got)
      REQUIRE(frame.bytes == joined(pattern(32, 1), pattern(5000, 2)));
    // The death is noticed by itself, and from then on frames are dropped instead of queued.
    const Deadline deadline(5000);
    while (counter(*port, "shm_links_in") != 0 && !deadline.passed()) collect(*port, got);
    CHECK(counter(*port, "shm_links_in") == 0);
    const uint64_t dropped = counter(*port, "shm_tx_no_peer");
    CHECK(send(*port, echo.address, pattern(32, 1)));
    CHECK(counter(*port, "shm_tx_no_peer") == dropped + 1);
  }
  CHECK(counter(*port, "shm_peers_lost") == 10);
  CHECK(entries("/dev/shm") == shm_before);
}

TEST_CASE("shm: the exit of a peer is detected though its child holds its sockets open") {
  const std::string where = job();
  auto port = open_port(where);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t peer = fork();
  if (peer == 0) {
    alarm(60);
    auto own = weft::port::open_shm_port({where, {}});
    if (!own) _exit(1);
    send(**own, port->address(), pattern(32, 1));
    const pid_t heir = fork();  // keeps every descriptor
    if (heir == 0) {
      alarm(60);
      for (;;) pause();
    }
    if (write(ends[1], &heir, sizeof heir) != sizeof heir) _exit(1);
    for (;;) pause();
  }
  pid_t heir = 0;
  REQUIRE(read(ends[0], &heir, sizeof heir) == sizeof heir);
  REQUIRE(receive(*port, 1).size() == 1);
  CHECK(counter(*port, "shm_links_in") == 1);
  kill(peer, SIGKILL);
  waitpid(peer, nullptr, 0);
  const Deadline deadline(5000);
  std::vector<Received> got;
  while (counter(*port, "shm_links_in") != 0 && !deadline.passed()) collect(*port, got);
  CHECK(counter(*port, "shm_links_in") == 0);
  kill(heir, SIGKILL);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("shm: frames published before the peer closed are still received") {
  const std::string where = job();
  auto port = open_port(where);
  const pid_t peer = fork();
  if (peer == 0) {
    alarm(60);
    auto own = weft::port::open_shm_port({where, {}});
    if (!own) _exit(1);
    for (uint64_t i = 0; i < 100; ++i) send(**own, port->address(), pattern(32, i));
    // The link is accepted only while its maker lives: its address must be reachable.
    std::vector<Received> got;
    collect(**own, got);
    usleep(200'000);
    kill(getpid(), SIGKILL);
  }
  std::vector<Received> first = receive(*port, 1);
  waitpid(peer, nullptr, 0);
  const std::vector<Received> rest = receive(*port, 100 - first.size());
  CHECK(first.size() + rest.size() == 100);
}

TEST_CASE("shm: 200 killed peers leak no descriptor and no memory") {
  const size_t shm_before = entries("/dev/shm");
  auto port = open_port(job());
  std::vector<Received> got;
  size_t descriptors = 0;
  for (int round = 0; round < 200; ++round) {
    {
      Echo echo(job());
      REQUIRE(ask(*port, echo.address, pattern(32, 1), pattern(100, 2)).size() == 1);
    }
    const Deadline deadline(5000);
    while (counter(*port, "shm_links_in") != 0 && !deadline.passed()) collect(*port, got);
    for (int i = 0; i < 3000; ++i) collect(*port, got);
    if (round == 4) descriptors = open_descriptors();
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(entries("/dev/shm") == shm_before);
  size_t mappings = 0;
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  REQUIRE(maps != nullptr);
  while (fgets(line, sizeof line, maps) != nullptr) mappings += strstr(line, "weft-shm") != nullptr;
  fclose(maps);
  CHECK(mappings == 0);
}

TEST_CASE("shm: a closed port frees its address and its descriptors") {
  const size_t before = open_descriptors();
  Gid address;
  for (int i = 0; i < 20; ++i) {
    auto a = open_port(job());
    auto b = open_port(job());
    link_up(*a, *b);
    address = a->address();
  }
  CHECK(open_descriptors() == before);
  auto c = open_port(job());
  CHECK(send(*c, address, pattern(32, 1)));
  CHECK(counter(*c, "shm_tx_no_peer") == 1);
}
