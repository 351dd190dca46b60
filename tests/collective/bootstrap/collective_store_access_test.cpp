// SPDX-License-Identifier: BSD-3-Clause
// Who may use a TCP store, and that those who may not keep no others from it.
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/collective/bootstrap/store_support.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/secret_file.hpp"

namespace weft {
namespace {

TEST_CASE("a TCP store serves those who have its secret, and tells the others") {
  const test::SecretFile secret, another;
  const std::string address = "tcp:127.0.0.1:" + std::to_string(free_port());
  const auto first = std::move(*Store::open(address, true, kLimit, secret.security()));
  const auto second = std::move(*Store::open(address, false, kLimit, secret.security()));
  REQUIRE(second->set("key", "value"));
  CHECK(*first->get("key", kLimit) == "value");
  for (const Security& wrong : {another.security(), kClear}) {
    const Result<std::unique_ptr<Store>> refused = Store::open(address, false, kLimit, wrong);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::permission_denied);
    CHECK(refused.error().message.find(address) != std::string::npos);
  }
}

TEST_CASE("a TCP store keeps what a client sets that ends at once") {
  const std::string address = "tcp:127.0.0.1:" + std::to_string(free_port());
  const auto store = std::move(*Store::open(address, true));
  for (int i = 0; i < 50; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE((*Store::open(address, false))->set(key, "value"));
    const Result<std::string> value = store->get(key, Duration::from_s(5));
    REQUIRE(value);
    CHECK(*value == "value");
  }
}

TEST_CASE("clients that say nothing do not keep others from a TCP store") {
  const test::SecretFile secret;
  const uint16_t port = free_port();
  const std::string address = "tcp:127.0.0.1:" + std::to_string(port);
  const auto first = std::move(*Store::open(address, true, kLimit, secret.security()));
  std::vector<base::Socket> silent;
  const base::SocketAddress to = base::resolve({"127.0.0.1", port}, false)->front();
  for (int i = 0; i < 300; ++i) {
    silent.push_back(*base::connect_by(to, Instant::never()));
    if (i % 2 == 0) (void)::send(silent.back().fd(), "WE", 2, MSG_NOSIGNAL);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto second = std::move(*Store::open(address, false, kLimit, secret.security()));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  REQUIRE(second->set("key", "value"));
  CHECK(*first->get("key", kLimit) == "value");
}

}  // namespace
}  // namespace weft
