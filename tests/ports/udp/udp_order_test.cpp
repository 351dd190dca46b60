// SPDX-License-Identifier: BSD-3-Clause
// Members that never poll delay no other one: frames of a member that polls come to its own socket,
// no matter which others were killed or have closed.
// ctest: serial
#include "tests/ports/udp/udp_members.hpp"

using namespace udp_test;

namespace {

constexpr uint32_t kFlows = 32;  // source ports: one that is no member's is selected by their hash

// Frames from one member to another come there although no third one reads.
void check_only_reader(Port& from, Port& to) {
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    const Path path = path_between(from, to, static_cast<uint16_t>(0xC000 + flow));
    const Bytes bytes = frame_bytes(flow, 100, to.qpn_range().first + flow);
    const TxFrame frame = whole_frame(path, bytes);
    REQUIRE(from.transmit({&frame, 1}) == 1);
  }
  size_t came = 0;
  for (int turn = 0; turn < 1000 && came < kFlows; ++turn) {
    Frame frames[64];
    const size_t n = to.receive(frames);
    came += n;
    to.release({frames, n});
  }
  CHECK(came == kFlows);
}

void poll(Port& port, int turns) {
  for (int turn = 0; turn < turns; ++turn) {
    Frame frames[16];
    const size_t n = port.receive(frames);
    CHECK(n == 0);
    port.release({frames, n});
  }
}

}  // namespace

TEST_CASE("udp: after two kills in the order that is not theirs no idle member has our frames") {
  const std::string at = "127.78.5.1";
  const pid_t first = idle_member(at), second = idle_member(at);
  const auto reader = open_port(at), idle = open_port(at);
  poll(*reader, 4);
  kill_member(second);  // the kernel moves the idle one to its place, then the reader to the first
  kill_member(first);
  const auto joining = open_port(at);  // takes them for gone from the first to the second
  poll(*reader, 64);                   // reads the probe of the idle one
  check_only_reader(*joining, *reader);
  CHECK(counter(*reader, "udp_probes") > 0);
}

TEST_CASE("udp: a member that polls finds another one killed before its own frames go astray") {
  const std::string at = "127.78.5.2";
  const pid_t victim = idle_member(at);
  const auto idle = open_port(at), reader = open_port(at);
  kill_member(victim);
  poll(*reader, 20'000);
  check_only_reader(*idle, *reader);
}

TEST_CASE("udp: a member that closes leaves the program for the sockets that remain") {
  const std::string at = "127.78.5.3";
  auto closing = open_port(at);
  const auto idle = open_port(at), reader = open_port(at);
  closing.reset();
  check_only_reader(*idle, *reader);
}

// A joining process gets its frames at once, while others die as it comes.
TEST_CASE("udp: a process joins while another is killed, beside one that never polls") {
  const std::string at = "127.78.5.4";
  const auto idle = open_port(at), sender = open_port(at);
  for (int round = 0; round < 20; ++round) {
    const pid_t victim = idle_member(at);
    REQUIRE(::kill(victim, SIGKILL) == 0);
    const auto joining = open_port(at);
    CHECK(result_of(victim) == -1);
    poll(*joining, 20'000);
    check_only_reader(*sender, *joining);
  }
}

TEST_CASE("udp: what looks like a probe and comes from another port is a frame") {
  const auto port = open_port("127.78.5.5");
  const uint64_t probes = counter(*port, "udp_probes");
  const port::udp::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const port::udp::SocketAddress to = port::udp::to_socket_address(port->address(), 4791, 0);
  // As group.cpp writes it: magic, slot, generation.
  const uint32_t words[3] = {0x77750004, static_cast<uint32_t>(slot(*port)) << 8, 1};
  REQUIRE(::sendto(socket.fd(), words, sizeof words, 0, &to.generic, to.length) == sizeof words);
  CHECK(drain(*port, 1).size() == 1);
  CHECK(counter(*port, "udp_probes") == probes + 1);  // our own, which waited before it
}

// Under the lock each member has one socket in the table; a kill -9 between two stores leaves more.
TEST_CASE("udp: a table that a killed member left half changed is mended") {
  using port::udp::Slot;
  port::udp::LocalAddress local;
  local.gid = Gid::from_ipv4(127, 78, 5, 6);
  auto opened = port::udp::GroupTable::open_locked(local);
  REQUIRE(opened);
  port::udp::GroupTable& table = **opened;
  for (const Slot slot : {Slot{1}, Slot{2}, Slot{3}}) {
    table.add_member(slot);
    table.append_socket(slot);
  }
  const auto leave_at = [&](off_t socket, Slot slot) {
    constexpr off_t kOrder = 24;  // in the file
    REQUIRE(::pwrite(table.file(), &slot, 1, kOrder + socket) == 1);
  };
  const auto order = [&] {
    std::vector<int> slots;
    for (uint32_t i = 0; i < table.socket_count(); ++i) slots.push_back(table.slot_at(i));
    return slots;
  };
  CHECK_FALSE(table.mend_order());
  leave_at(0, 2);  // half of a swap of the sockets of 1 and 2
  CHECK(table.mend_order());
  CHECK(order() == std::vector<int>{2, 1, 3});
  table.remove_member(1);
  CHECK(order() == std::vector<int>{2, 3});
  table.add_member(4);
  table.append_socket(4);
  leave_at(0, 4);  // half of a removal: the last has the place of 2, and is still counted
  table.remove_member(2);
  CHECK(table.mend_order());
  CHECK(order() == std::vector<int>{4, 3});
  leave_at(1, 255);
  CHECK(table.mend_order());
  CHECK(order() == std::vector<int>{4, 3});
  for (const Slot slot : {Slot{3}, Slot{4}}) table.remove_member(slot);
  table.remove_file();
  table.unlock();
}
