// SPDX-License-Identifier: BSD-3-Clause
// Members of an address that are killed or closed, services of queue pair 1, and users: the kernel
// selects the right socket again, and nothing is left behind.
// ctest: serial
#include "tests/ports/udp/udp_members.hpp"

using namespace udp_test;

// Processes are killed at once, so that none knows in which order their sockets were closed.
TEST_CASE("udp: the kernel selects the right socket again after some were closed") {
  const auto victim = [] { return idle_member("127.78.4.1"); };
  const pid_t first = victim(), second = victim();
  Ports members;
  for (int i = 0; i < 4; ++i) members.push_back(open_port("127.78.4.1"));
  const pid_t third = victim();
  check_delivery(members, 4);
  CHECK(total(members, "udp_forwarded") == 0);
  for (const pid_t pid : {second, third, first}) REQUIRE(::kill(pid, SIGKILL) == 0);
  for (const pid_t pid : {second, third, first}) CHECK(result_of(pid) == -1);
  check_delivery(members, 20);
  members.erase(members.begin() + 1);
  members.push_back(open_port("127.78.4.1"));
  members.erase(members.begin());
  check_delivery(members, 20);
  const uint64_t forwarded = total(members, "udp_forwarded");
  check_delivery(members, 20);
  CHECK(total(members, "udp_forwarded") == forwarded);
  CHECK(total(members, "udp_forward_drops") == 0);
}

TEST_CASE("udp: the file of an address whose members were killed goes with the next open") {
  const std::string file = "ls /dev/shm /tmp | grep -q 'weft-udp-.*-127.78.4.3-'";
  const pid_t victim = idle_member("127.78.4.3");
  { const auto elsewhere = open_port("127.78.4.4"); }
  CHECK(run(file));  // in use
  kill_member(victim);
  { const auto elsewhere = open_port("127.78.4.4"); }
  CHECK_FALSE(run(file));
}

// Its slot is claimed again: the member that was killed is no other device.
TEST_CASE("udp: an address of a device's own is free after its process was killed") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  transport::PortOptions options{"127.78.4.5", {{"shared", "0"}}};
  options.engines = 2;
  const pid_t victim = child([&] {
    const auto port = port::open_udp_port(options);
    if (!port || ::write(ready[1], "+", 1) != 1) return 1;
    for (;;) ::pause();
    return 0;
  });
  char mark = 0;
  REQUIRE(::read(ready[0], &mark, 1) == 1);
  CHECK_FALSE(port::open_udp_port(options));
  REQUIRE(::kill(victim, SIGKILL) == 0);
  CHECK(result_of(victim) == -1);
  CHECK(port::open_udp_port(options));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("udp: members on one address claim services once each") {
  constexpr uint64_t kService = 0x0106'1B58;
  Ports members;
  for (int i = 0; i < 2; ++i) {
    members.push_back(open_port("127.78.4.2"));
    members.back()->open_general_services();
  }
  REQUIRE(members[0]->claim_service(kService));
  REQUIRE(members[1]->claim_service(kService + 1));
  const Result<void> taken = members[1]->claim_service(kService);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Code::address_in_use);
  CHECK(taken.error().message.find("process " + std::to_string(::getpid())) != std::string::npos);
  members[0]->release_service(kService);
  REQUIRE(members[1]->claim_service(kService));
  members.pop_back();  // with its services
  CHECK(members[0]->claim_service(kService));
  CHECK(members[0]->claim_service(kService + 1));
}

TEST_CASE("udp: the shared loopback address is one for a user, and the next for another") {
  if (::geteuid() != 0) WEFT_SKIP("udp two users", "changing the user needs root");
  const Keys shared = {{"shared", "1"}};
  const auto mine = open_port("lo", shared), again = open_port("lo", shared);
  CHECK(mine->address() == again->address());
  CHECK(mine->address().bytes[15] == 1);
  const std::string text = to_string(mine->address());
  const pid_t other_user = child([&] {
    if (::setuid(65534) != 0) return 1;
    const auto first = port::open_udp_port({"lo", shared}),
               more = port::open_udp_port({"lo", shared});
    if (!first || !more) return 2;
    if ((*first)->address() == mine->address()) return 3;
    if ((*first)->address() != (*more)->address()) return 4;
    const auto refused = port::open_udp_port({text, {}});
    if (refused || refused.error().code != Code::address_in_use) return 5;
    return refused.error().message.find("of user 0") != std::string::npos ? 0 : 6;
  });
  CHECK(result_of(other_user) == 0);
}
