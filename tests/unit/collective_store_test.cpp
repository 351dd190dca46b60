// SPDX-License-Identifier: BSD-3-Clause
// Both stores: values that are there, values that come later, values that never come, and hostile
// or broken clients of the TCP store.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/catch.hpp"
#include "weft/store.hpp"

namespace weft {
namespace {

struct Directory {
  std::string path;
  Directory() {
    char name[] = "/tmp/weft-store-XXXXXX";
    path = mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return ntohs(address.sin_port);
}

void talk(Store& first, Store& second) {
  const std::string odd("a\0b/../c", 8);
  REQUIRE(first.set("key/0", odd));
  CHECK(*second.get("key/0", Duration::from_s(5)) == odd);
  REQUIRE(second.set("key/0", "what comes second does not count"));
  CHECK(*second.get("key/0", Duration::from_s(5)) == odd);
  REQUIRE(first.set("empty", ""));
  CHECK(second.get("empty", Duration::from_s(5))->empty());
  Result<void> set;
  std::thread later([&] {
    usleep(20'000);
    set = first.set("later", std::string(10'000, 'x'));
  });
  CHECK(second.get("later", Duration::from_s(10))->size() == 10'000);
  later.join();
  CHECK(set);
  const Result<std::string> never = first.get("never", Duration::from_ms(10));
  REQUIRE(!never);
  CHECK(never.error().code == Code::timed_out);
  CHECK(never.error().message.find("never") != std::string::npos);
  REQUIRE(second.set("never", "but late"));  // its answer is not taken for that of the next get
  usleep(5000);
  CHECK(*first.get("key/0", Duration::from_s(5)) == odd);
}

TEST_CASE("processes find each other in a directory") {
  const Directory directory;
  const std::string address = "file:" + directory.path + "/new";
  const auto first = std::move(*Store::open(address, true));
  const auto second = std::move(*Store::open(address, false));
  talk(*first, *second);
}

TEST_CASE("processes find each other over TCP, also when the server is late") {
  const std::string address = "tcp:127.0.0.1:" + std::to_string(free_port());
  std::unique_ptr<Store> second;
  std::thread early([&] { second = std::move(*Store::open(address, false)); });
  usleep(30'000);
  auto first = std::move(*Store::open(address, true));
  early.join();
  talk(*first, *second);

  const Result<std::unique_ptr<Store>> again = Store::open(address, true);
  REQUIRE(!again);
  CHECK(again.error().code == Code::address_in_use);

  first.reset();
  const Result<std::string> gone = second->get("key", Duration::from_s(5));
  REQUIRE(!gone);
  CHECK(gone.error().code == Code::disconnected);
}

TEST_CASE("nonsense does not stop the TCP store") {
  const uint16_t port = free_port();
  const auto store = std::move(*Store::open("tcp:127.0.0.1:" + std::to_string(port), true));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string nonsense(64, '\xff');
  CHECK(send(fd, nonsense.data(), nonsense.size(), 0) == 64);
  REQUIRE(store->set("key", "value"));
  CHECK(*store->get("key", Duration::from_s(5)) == "value");
  close(fd);
}

TEST_CASE("bad store addresses are told what to write") {
  for (const std::string_view address : {"", "file:", "tcp", "etcd:host", "tcp:127.0.0.1"}) {
    const Result<std::unique_ptr<Store>> opened = Store::open(address, false);
    REQUIRE(!opened);
    CHECK(opened.error().code == Code::invalid_argument);
    CHECK(opened.error().message.find("write") != std::string::npos);
  }
}

}  // namespace
}  // namespace weft
