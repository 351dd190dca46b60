// SPDX-License-Identifier: BSD-3-Clause
// Address parsing, and socket operations with deadlines.
#include <sys/socket.h>

#include "lib/base/clock.hpp"
#include "lib/base/tcp.hpp"
#include "tests/support/catch.hpp"

namespace weft::base {
namespace {

TEST_CASE("addresses are split into host and port") {
  const auto is = [](std::string_view address, std::string_view host, uint16_t port) {
    const Result<HostPort> where = parse_host_port(address, 18515);
    INFO(address);
    REQUIRE(where);
    CHECK(where->host == host);
    CHECK(where->port == port);
  };
  is("127.0.0.1:5", "127.0.0.1", 5);
  is("host", "host", 18515);
  is("[::1]:7", "::1", 7);
  is("[::1]", "::1", 18515);
  is("fe80::1", "fe80::1", 18515);
  is("", "", 18515);
  is(":9", "", 9);
  is("host:0", "host", 0);
  for (const char* wrong :
       {"host:", "host:x", "host:65536", "host:-1", "[::1", "[::1]x", "host:1 "})
    CHECK(parse_host_port(wrong, 18515).error().code == Code::invalid_argument);
}

TEST_CASE("connecting succeeds, is refused or times out, with distinct errors") {
  const std::vector<SocketAddress> here = *resolve({"127.0.0.1", 0}, true);
  Result<Socket> listener = start_listen(here.front());
  REQUIRE(listener);
  const uint16_t port = bound_port(*listener);
  const SocketAddress there = resolve({"127.0.0.1", port}, false)->front();
  const Result<Socket> socket = connect_by(there, wall_now() + Duration::from_s(5));
  REQUIRE(socket);
  CHECK(start_listen(there).error().code == Code::address_in_use);
  listener->close();
  const Result<Socket> refused = connect_by(there, wall_now() + Duration::from_s(5));
  CHECK(refused.error().code == Code::not_found);
  // A full backlog answers nothing.
  Result<Socket> full = start_listen(here.front());
  REQUIRE(full);
  REQUIRE(listen(full->fd(), 0) == 0);
  const SocketAddress busy = resolve({"127.0.0.1", bound_port(*full)}, false)->front();
  const Result<Socket> first = connect_by(busy, wall_now() + Duration::from_s(5));
  REQUIRE(first);
  const Result<Socket> late = connect_by(busy, wall_now() + Duration::from_ms(50));
  CHECK(late.error().code == Code::timed_out);
}

}  // namespace
}  // namespace weft::base
