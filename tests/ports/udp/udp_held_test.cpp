// SPDX-License-Identifier: BSD-3-Clause
// Another socket holds the UDP port on 0.0.0.0, as the kernel's rxe does: no loopback address is
// free, and the error comes after a few attempts, not after one at each of 65,000 addresses.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "providers/port/udp/socket.hpp"
#include "providers/port/udp/udp_port.hpp"
#include "tests/support/catch.hpp"

namespace {
std::atomic<int> binds{0};
}

// In place of libc's: counts.
extern "C" int bind(int fd, const sockaddr* address, socklen_t length) {
  ++binds;
  return static_cast<int>(::syscall(SYS_bind, fd, address, length));
}

namespace weft::port::udp {
namespace {

struct Held {
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  uint16_t port = 0;

  explicit Held(uint32_t address) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(address);
    REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
    socklen_t length = sizeof any;
    REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length) == 0);
    port = ntohs(any.sin_port);
  }
  ~Held() { ::close(fd); }
};

Result<std::unique_ptr<transport::Port>> open(uint16_t port, uint32_t engines) {
  transport::PortOptions options;
  options.where = "lo";
  options.udp_port = port;
  options.engines = engines;
  binds = 0;
  return open_udp_port(options);
}

TEST_CASE("a UDP port bound on 0.0.0.0 ends the search for a loopback address") {
  const Held held(INADDR_ANY);
  for (const uint32_t engines : {1u, 2u}) {
    INFO("engines " << engines);
    const auto port = open(held.port, engines);
    REQUIRE_FALSE(port);
    CHECK(port.error().code == Code::address_in_use);
    CHECK(port.error().message.find("taken on every loopback address") != std::string::npos);
    CHECK(port.error().message.find("rdma_rxe") != std::string::npos);
    CHECK(binds < 20);
  }
}

TEST_CASE("a UDP port bound on some addresses is free on the next") {
  const Held first(0x7F000002);  // 127.0.0.2
  for (const uint32_t engines : {1u, 2u}) {
    INFO("engines " << engines);
    const auto port = open(first.port, engines);
    REQUIRE(port);
    CHECK((*port)->address() == Gid::from_ipv4(127, 0, 0, 3));
  }
}

TEST_CASE("a UDP port bound on a distant address is not taken for one on 0.0.0.0") {
  const Held first(0x7F000002);
  for (const Gid& far : distant_loopbacks()) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const SocketAddress at = to_socket_address(far, first.port, 0);
    REQUIRE(bind(fd, &at.generic, at.length) == 0);
    for (const uint32_t engines : {1u, 2u}) CHECK(open(first.port, engines));
    ::close(fd);
  }
}

// 8 processes that opened devices at once on 16 cores did.
TEST_CASE("threads that ask at once whether a UDP port is held do not disturb each other") {
  const Held held(0x7F000002);
  std::atomic<int> wrong{0}, ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      for (++ready; ready < 6;) std::this_thread::yield();
      for (int round = 0; round < 3000; ++round) wrong += is_held_everywhere(held.port);
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace weft::port::udp
