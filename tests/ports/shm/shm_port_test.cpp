// SPDX-License-Identifier: BSD-3-Clause
// The shm port as the engine sees it: two ports of one process, all sizes, back-pressure, sleeping.
#include <poll.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "tests/ports/shm/shm_support.hpp"
#include "tests/support/paths.hpp"

using namespace shm_test;

TEST_CASE("shm: frames of all sizes arrive as they were sent, headers apart from payload") {
  auto a = open_port(job());
  auto b = open_port(job());
  link_up(*a, *b);
  for (const uint32_t header_size : {12u, 28u, 48u, 60u, 128u}) {
    for (const uint32_t size : {0u, 1u, 8u, 28u, 29u, 256u, 4096u, 65536u, 1u << 20}) {
      const Bytes header = pattern(header_size, size);
      const Bytes payload = pattern(size, header_size);
      REQUIRE(send(*a, b->address(), header, payload, false, 3));
      const auto got = receive(*b, 1, a.get());
      REQUIRE(got.size() == 1);
      CHECK(got[0].bytes == joined(header, payload));
      CHECK(got[0].source == a->address());
      CHECK(got[0].ecn == 3);
      const bool apart = header_size <= 48 && header_size + size > 56;
      CHECK(got[0].more_length == (apart && size != 0 ? size : 0));
    }
  }
}

TEST_CASE("shm: a staged frame is split after its headers") {
  auto a = open_port(job());
  auto b = open_port(job());
  const Bytes head = pattern(28 + 300, 7);
  Path path;
  path.destination = b->address();
  TxFrame frame;
  frame.path = &path;
  frame.head = head.data();
  frame.head_length = 328;
  frame.header_length = 28;
  REQUIRE(a->transmit(std::span(&frame, 1)) == 1);
  const auto got = receive(*b, 1, a.get());
  REQUIRE(got.size() == 1);
  CHECK(got[0].bytes == head);
  CHECK(got[0].more_length == 300);
}

TEST_CASE("shm: several spans and a trailer are gathered in order") {
  auto a = open_port(job());
  auto b = open_port(job());
  link_up(*a, *b);
  const Bytes head = pattern(20, 1), one = pattern(1000, 2), two = pattern(3, 3);
  for (const uint8_t tail : {uint8_t{0}, uint8_t{8}}) {
    const Span spans[] = {{one.data(), 1000}, {two.data(), 3}};
    Path path;
    path.destination = b->address();
    TxFrame frame;
    frame.path = &path;
    frame.head = head.data();
    frame.head_length = frame.header_length = 20;
    frame.spans = spans;
    frame.span_count = 2;
    frame.payload_length = 1003;
    frame.tail_length = tail;
    std::fill(std::begin(frame.tail), std::end(frame.tail), std::byte{0x77});
    REQUIRE(a->transmit(std::span(&frame, 1)) == 1);
    const auto got = receive(*b, 1, a.get());
    REQUIRE(got.size() == 1);
    CHECK(got[0].bytes == joined(joined(joined(head, one), two), Bytes(tail, std::byte{0x77})));
  }
}

TEST_CASE("shm: a port reaches itself, by copy and by reference") {
  auto a = open_port(job(), {{"by_reference", "1"}, {"threshold", "4096"}});
  for (const uint32_t size : {0u, 100u, 4096u, 100'000u}) {
    const Bytes header = pattern(28, size), payload = pattern(size, 3);
    REQUIRE(send(*a, a->address(), header, payload, true));
    const auto got = receive(*a, 1);
    REQUIRE(got.size() == 1);
    CHECK(got[0].bytes == joined(header, payload));
    CHECK(got[0].remote_length == (size >= 4096 ? size : 0));
  }
  a->detach(nullptr, SIZE_MAX);
}

TEST_CASE("shm: a full ring causes backpressure, without loss or reordering") {
  const uint32_t size = GENERATE(8u, 3000u, 20000u);
  auto a = open_port(job(), {{"ring", "128k"}, {"slots", "64"}});
  auto b = open_port(job());
  link_up(*a, *b);
  uint64_t sent = 0, pushed_back = 0;
  std::vector<Received> got;
  while (got.size() < 2000) {
    while (send(*a, b->address(), pattern(28, sent), pattern(size, sent))) ++sent;
    ++pushed_back;
    const size_t before = got.size();
    collect(*b, got);
    for (size_t i = before; i < got.size(); ++i)
      REQUIRE(got[i].bytes == joined(pattern(28, i), pattern(size, i)));
  }
  CHECK(pushed_back > 10);
  CHECK(counter(*a, "shm_tx_stalled") == 0);
}

TEST_CASE("shm: the wait for a stalled peer is bounded") {
  auto a = open_port(job(), {{"ring", "64k"}, {"slots", "64"}});
  auto b = open_port(job());
  auto c = open_port(job());
  link_up(*a, *c);
  link_up(*a, *b);
  const Deadline deadline(20'000);
  while (counter(*a, "shm_tx_stalled") == 0 && !deadline.passed())
    send(*a, b->address(), pattern(28, 1), pattern(1000, 1));
  REQUIRE(counter(*a, "shm_tx_stalled") > 0);
  // Others are reached again, and it is too when it wakes up.
  REQUIRE(send(*a, c->address(), pattern(12, 2)));
  CHECK(receive(*c, 1, a.get()).size() == 1);
  CHECK(receive(*b, 50, a.get()).size() >= 50);
  REQUIRE(send(*a, b->address(), pattern(12, 3)));
}

TEST_CASE("shm: frames to an unknown address are dropped") {
  auto a = open_port(job());
  for (int i = 0; i < 100; ++i) CHECK(send(*a, weft::port::shm::make_gid(12345), pattern(12, 1)));
  CHECK(send(*a, Gid::from_ipv4(127, 0, 0, 1), pattern(12, 1)));
  CHECK(counter(*a, "shm_tx_no_peer") == 101);
}

TEST_CASE("shm: jobs do not reach each other") {
  auto a = open_port(job() + "a");
  auto b = open_port(job() + "b");
  CHECK(send(*a, b->address(), pattern(12, 1)));
  CHECK(counter(*a, "shm_tx_no_peer") == 1);
}

TEST_CASE("shm: both sides may start at the same time") {
  for (int round = 0; round < 20; ++round) {
    auto a = open_port(job());
    auto b = open_port(job());
    for (uint64_t i = 0; i < 50; ++i) {
      REQUIRE(send(*a, b->address(), pattern(40, i)));
      REQUIRE(send(*b, a->address(), pattern(40, i + 100)));
    }
    std::vector<Received> at_a, at_b;
    const Deadline deadline(20'000);
    while ((at_a.size() < 50 || at_b.size() < 50) && !deadline.passed()) {
      collect(*a, at_a);
      collect(*b, at_b);
    }
    REQUIRE(at_a.size() == 50);
    REQUIRE(at_b.size() == 50);
    for (uint64_t i = 0; i < 50; ++i) {
      CHECK(at_b[i].bytes == pattern(40, i));
      CHECK(at_a[i].bytes == pattern(40, i + 100));
    }
  }
}

TEST_CASE("shm: a sender wakes a port that sleeps") {
  auto a = open_port(job());
  auto b = open_port(job());
  const bool known = GENERATE(false, true);
  if (known) link_up(*a, *b);
  std::vector<pollfd> waits;
  REQUIRE(b->prepare_wait(waits, false));
  REQUIRE(poll(waits.data(), waits.size(), 0) == 0);
  std::thread sender([&] { send(*a, b->address(), pattern(40, 9)); });
  CHECK(poll(waits.data(), waits.size(), 10'000) > 0);
  sender.join();
  b->finish_wait();
  CHECK(receive(*b, 1).size() == 1);
  // Awake, it is not rung for.
  const uint64_t rung = counter(*a, "shm_tx_doorbells");
  CHECK(rung == (known ? 1 : 0));
  REQUIRE(send(*a, b->address(), pattern(40, 10)));
  CHECK(counter(*a, "shm_tx_doorbells") == rung);
  CHECK(receive(*b, 1).size() == 1);
}

TEST_CASE("shm: a frame that a port sends to itself wakes it") {
  auto a = open_port(job());
  const bool known = GENERATE(false, true);
  if (known) {
    REQUIRE(send(*a, a->address(), pattern(40, 1)));
    REQUIRE(receive(*a, 1).size() == 1);
  }
  for (int i = 0; i < 3; ++i) {
    std::vector<pollfd> waits;
    REQUIRE(a->prepare_wait(waits, false));
    REQUIRE(poll(waits.data(), waits.size(), 0) == 0);
    REQUIRE(send(*a, a->address(), pattern(40, 2)));
    CHECK(poll(waits.data(), waits.size(), 0) > 0);
    a->finish_wait();
    CHECK(receive(*a, 1).size() == 1);
  }
}

TEST_CASE("shm: polls of another thread take no doorbell from the one that sleeps") {
  auto a = open_port(job());
  auto b = open_port(job());
  link_up(*a, *b);
  std::vector<pollfd> waits;
  REQUIRE(b->prepare_wait(waits, false));
  REQUIRE(send(*a, b->address(), pattern(40, 1)));
  std::vector<Received> got;
  for (int i = 0; i < 3000; ++i) collect(*b, got);
  CHECK(got.size() == 1);
  // The sender does not ring again before the sleeper has woken.
  REQUIRE(send(*a, b->address(), pattern(40, 2)));
  CHECK(poll(waits.data(), waits.size(), 0) > 0);
  b->finish_wait();
  CHECK(receive(*b, 1).size() == 1);
}

TEST_CASE("shm: a port does not sleep while a frame is pending") {
  auto a = open_port(job());
  auto b = open_port(job());
  link_up(*a, *b);
  REQUIRE(send(*a, b->address(), pattern(40, 9)));
  std::vector<pollfd> waits;
  CHECK_FALSE(b->prepare_wait(waits, false));
  CHECK(receive(*b, 1).size() == 1);
  CHECK(b->prepare_wait(waits, false));
  b->finish_wait();
}

TEST_CASE("shm: a receiver wakes a sender that waits for room") {
  auto a = open_port(job(), {{"slots", "64"}});
  auto b = open_port(job());
  link_up(*a, *b);
  while (send(*a, b->address(), pattern(40, 1)))
    ;
  std::vector<pollfd> waits;
  if (!a->prepare_wait(waits, true)) return;  // without membarrier it polls instead
  CHECK(poll(waits.data(), waits.size(), 0) == 0);
  CHECK(receive(*b, 1).size() >= 1);
  CHECK(poll(waits.data(), waits.size(), 10'000) > 0);
  a->finish_wait();
  CHECK(send(*a, b->address(), pattern(40, 1)));
}

TEST_CASE("shm: no wake-up is lost between two threads that both sleep") {
  auto a = open_port(job());
  auto b = open_port(job());
  link_up(*a, *b);
  constexpr int kRounds = 3000;
  const auto wait_one = [](Port& port) {
    std::vector<Received> got;
    const Deadline deadline(20'000);
    while (got.empty() && !deadline.passed()) {
      std::vector<pollfd> waits;
      if (port.prepare_wait(waits, false)) {
        if (poll(waits.data(), waits.size(), 10'000) == 0) return false;
        port.finish_wait();
      }
      collect(port, got);
    }
    return !got.empty();
  };
  bool echo_ok = true;
  std::thread echo([&] {
    for (int i = 0; i < kRounds && echo_ok; ++i)
      echo_ok = wait_one(*b) && send(*b, a->address(), pattern(40, 1));
  });
  bool ok = true;
  for (int i = 0; i < kRounds && ok; ++i)
    ok = send(*a, b->address(), pattern(40, 1)) && wait_one(*a);
  echo.join();
  CHECK(ok);
  CHECK(echo_ok);
}

TEST_CASE("shm: an unknown key is an error that lists the valid ones") {
  for (const Options& options : {Options{{"rings", "1"}}, Options{{"ring", "3000"}},
                                 Options{{"slots", "63"}}, Options{{"by_reference", "yes"}},
                                 Options{{"mtu", "1000"}}, Options{{"mtu", "99999999m"}}}) {
    const auto port = weft::port::open_shm_port({job(), options});
    REQUIRE_FALSE(port);
    CHECK(port.error().code == weft::Code::invalid_argument);
    CHECK(port.error().message.find("shm.ring") != std::string::npos);
  }
  CHECK_FALSE(weft::port::open_shm_port({"a/b", {}}));
}

TEST_CASE("shm: capabilities follow the options") {
  auto port = open_port(job(), {{"ring", "128k"}, {"by_reference", "0"}});
  CHECK(port->capabilities().max_mtu == 65536);
  CHECK(port->capabilities().in_flight_limit == 65536);
  CHECK_FALSE(port->capabilities().by_reference);
  CHECK(open_port(job(), {{"mtu", "4096"}})->capabilities().active_mtu == 4096);
}

TEST_CASE("shm: carries no multicast, and names every port that does") {
  const auto port = open_port(job());
  const weft::Result<void> refused = port->join(weft::Gid::from_ipv4(239, 1, 2, 3));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == weft::Code::not_supported);
  size_t named = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(weft::test::source_root() / "providers" / "port")) {
    const std::string name = folder.path().filename();
    std::ifstream file(folder.path() / (name + "_port.hpp"));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (!std::filesystem::exists(folder.path() / "port.cpp")) continue;  // wraps others
    if (text.find(" join(const Gid&") == std::string::npos) continue;
    INFO(name << ": " << refused.error().message);
    CHECK(refused.error().message.find("roce+" + name) != std::string::npos);
    ++named;
  }
  CHECK(named == 5);
}
