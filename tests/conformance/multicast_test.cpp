// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups through the public API: which queue pairs get a copy of a datagram, on this
// device and on another, and what is refused.
#include <unistd.h>

#include <cstdlib>

#include "tests/conformance/node.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr size_t kHeader = kNetworkHeaderLength;
constexpr size_t kSlot = 8192;
constexpr uint32_t kQKey = 0x1234;

// Datagram queue pairs of two devices; number i receives in slot i of its device's memory.
struct MulticastParty {
  struct Member {
    Node* node;
    QueuePair qp;
    size_t slot;
  };
  Node a, b;
  std::vector<Member> members;

  // Two groups of the device's address family that have one address on Ethernet, and are this
  // process's: a member of a group of another test on this host receives that one's datagrams too.
  Gid group = Gid::from_ipv4(239, 205, 0, 0), twin = Gid::from_ipv4(239, 77, 0, 0);

  explicit MulticastParty(const std::string& spec) : a(spec, QpType::ud), b(spec, QpType::ud) {
    if (!a.side.device.attributes().gid.is_ipv4()) {
      group = *parse_gid("ff15::1:4d81:0");
      twin = *parse_gid("ff15::2:4d81:0");
    }
    for (Gid* gid : {&group, &twin}) {
      gid->bytes[14] = static_cast<uint8_t>(getpid() >> 8);
      gid->bytes[15] = static_cast<uint8_t>(getpid());
    }
  }

  // A queue pair that is ready, with one receive.
  QueuePair& add(Node& node, uint32_t qkey = kQKey) {
    members.push_back({&node, node.side.queue_pair({.type = QpType::ud}), members.size() * kSlot});
    QueuePair& qp = members.back().qp;
    REQUIRE(qp.modify(
        {.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .qkey = qkey}));
    REQUIRE(qp.modify({.state = QpState::rtr}));
    REQUIRE(qp.modify({.state = QpState::rts, .sq_psn = Psn{7}}));
    expect(members.back());
    return qp;
  }
  void expect(const Member& m) {
    const Sge sge = m.node->memory.sge(m.slot, kSlot);
    REQUIRE(m.qp.post_recv({.id = m.slot / kSlot, .sges = {&sge, 1}}));
  }
  static void post(const Node& node, const QueuePair& from, const Gid& group, size_t size) {
    const AddressHandle to = node.side.pd.address_handle({.destination = group});
    const Sge out = node.memory.sge(1 << 19, size);
    REQUIRE(from.post_send({.id = 99,
                            .sges = {&out, 1},
                            .to = &to,
                            .remote_qpn = kMulticastQpn,
                            .remote_qkey = kQKey}));
  }
  // Sends one datagram; returns which members had it, one letter each, in their order.
  std::string say(Node& node, const QueuePair& from, const Gid& group, size_t size, size_t wanted) {
    fill(node.memory.bytes(1 << 19, size), size + group.bytes[15]);
    post(node, from, group, size);
    std::string received(members.size(), '.');
    size_t count = 0;
    bool sent = false;
    const auto take = [&](Node& at) {
      for (const Completion& c : at.side.got) {
        CHECK(c.status == Status::success);
        if (c.type == WorkType::send) {
          sent = true;
          continue;
        }
        const Member& m = members.at(c.id);
        CHECK(received[c.id] == '.');
        received[c.id] = 'x';
        ++count;
        CHECK(c.byte_count == kHeader + size);
        CHECK(c.source_qp == from.number());
        const std::span<const std::byte, kHeader> header(m.node->memory.at(m.slot), kHeader);
        CHECK(sender_of(header).destination == node.side.device.attributes().gid);
        CHECK(
            equal(m.node->memory.bytes(m.slot + kHeader, size), node.memory.bytes(1 << 19, size)));
        expect(m);
      }
      at.side.got.clear();
    };
    // Then a while longer, for copies that should not come.
    const auto all = [&] { return take(a), take(b), sent && count >= wanted; };
    CHECK(pump_until({&a.side, &b.side}, all));
    const Deadline longer(Duration::from_ms(30));
    pump_until({&a.side, &b.side}, [&] { return take(a), take(b), longer.passed(); });
    return received;
  }
};

void copies(Wire wire) {
  MulticastParty p(device_string(wire));
  const QueuePair sender = p.add(p.a);
  const QueuePair near = p.add(p.a), far = p.add(p.b), far_too = p.add(p.b);
  const QueuePair other_member = p.add(p.b), other_key = p.add(p.b, kQKey + 1);
  for (const QueuePair* qp : {&near, &far, &far_too, &other_key})
    REQUIRE(qp->attach_multicast(p.group));
  REQUIRE(far.attach_multicast(p.group));  // it is there already
  REQUIRE(other_member.attach_multicast(p.twin));
  const uint32_t mtu = p.a.side.device.attributes().active_mtu;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{mtu}}) {
    INFO(size);
    CHECK(p.say(p.a, sender, p.group, size, 3) == ".xxx..");
  }
  CHECK(p.say(p.a, sender, p.twin, 100, 1) == "....x.");
  CHECK(p.say(p.b, other_member, p.group, 100, 3) == ".xxx..");
  // Leaving, by detach and by destruction.
  REQUIRE(far.detach_multicast(p.group));
  CHECK(p.say(p.a, sender, p.group, 100, 2) == ".x.x..");
  CHECK(far.detach_multicast(p.group).error().code == Code::not_found);
  REQUIRE(near.detach_multicast(p.group));
  REQUIRE(far_too.detach_multicast(p.group));
  REQUIRE(other_key.detach_multicast(p.group));
  CHECK(p.say(p.a, sender, p.group, 100, 0) == "......");
  REQUIRE(near.attach_multicast(p.group));
  CHECK(p.say(p.b, other_member, p.group, 100, 1) == ".x....");
  p.members.erase(p.members.begin() + 5);  // destruction without detach
}
WEFT_ON_WIRE(copies, "multicast: each member gets one copy, roce:C-OPS-87", udp)
WEFT_ON_WIRE(copies, "multicast: each member gets one copy, roce:C-OPS-87", udp_engines)
WEFT_ON_WIRE(copies, "multicast: each member gets one copy, roce:C-OPS-87", udp_captured)
WEFT_ON_WIRE(copies, "multicast: each member gets one copy, roce:C-OPS-87", af_packet)
WEFT_ON_WIRE(copies, "multicast: each member gets one copy, roce:C-OPS-87", dpdk)
WEFT_ON_IBVERBS(copies, "multicast: each member gets one copy, roce:C-OPS-87")

// Only our own: a device of the kernel brings it back (rxe does).
void not_back(Wire wire) {
  MulticastParty p(device_string(wire));
  const QueuePair one = p.add(p.a), other = p.add(p.a);
  REQUIRE(one.attach_multicast(p.group));
  REQUIRE(other.attach_multicast(p.group));
  CHECK(p.say(p.a, one, p.group, 100, 1) == ".x");
  CHECK(p.say(p.a, other, p.group, 100, 1) == "x.");
}
WEFT_ON_WIRE(not_back, "multicast: a sender does not receive its own datagrams", udp)
WEFT_ON_WIRE(not_back, "multicast: a sender does not receive its own datagrams", udp_engines)
WEFT_ON_WIRE(not_back, "multicast: a sender does not receive its own datagrams", af_packet)
WEFT_ON_WIRE(not_back, "multicast: a sender does not receive its own datagrams", dpdk)

void multicast_refusals(Wire wire) {
  MulticastParty p(device_string(wire));
  const QueuePair qp = p.add(p.a);
  const QueuePair rc = p.a.side.queue_pair();
  CHECK(rc.attach_multicast(p.group).error().code == Code::invalid_argument);
  CHECK(qp.attach_multicast(Gid::from_ipv4(10, 0, 0, 1)).error().code == Code::invalid_argument);
  CHECK(qp.attach_multicast({{0xFF, 0x15, 1}}).error().code == Code::invalid_argument);
  CHECK(qp.detach_multicast(p.group).error().code == Code::not_found);
}
WEFT_ON_WIRE(multicast_refusals,
             "multicast: what is no group, or no datagram queue pair, is refused", udp)
WEFT_ON_IBVERBS(multicast_refusals,
                "multicast: what is no group, or no datagram queue pair, is refused")

TEST_CASE("multicast: a port that has none says which do") {
  const Node node(device_string(Wire::shm), QpType::ud);
  const Gid group = {{0xFF, 0x15, 1}};
  const Error error = node.qp.attach_multicast(group).error();
  CHECK(error.code == Code::not_supported);
  CHECK(error.message.find("roce+udp") != std::string::npos);
}

TEST_CASE("multicast: two IPv6 addresses of a veth, roce:C-OPS-87") {
  const Namespace own;
  // There is another interface that the kernel would choose, if it were asked to.
  if (!own || std::system("ip link add v0 type veth peer name v1 && ip link set v0 up && "
                          "ip link set v1 up && ip addr add fd78::1/64 dev v0 nodad && "
                          "ip link add w0 type veth peer name w1 && ip link set w0 up && "
                          "ip link set w1 up && ip addr add fd77::1/64 dev w0 nodad && "
                          "ip addr add fd77::2/64 dev w0 nodad") != 0)
    WEFT_SKIP("multicast: two IPv6 addresses of a veth, roce:C-OPS-87",
              "a network namespace with a veth needs root");
  const Gid group = *parse_gid("ff12::77");
  MulticastParty p("roce+udp:fd77::2");  // two devices that share the address
  const QueuePair one = p.add(p.a), other = p.add(p.b), third = p.add(p.b);
  REQUIRE(other.attach_multicast(group));
  REQUIRE(third.attach_multicast(group));
  CHECK(p.say(p.a, one, group, 1000, 2) == ".xx");
  REQUIRE(one.attach_multicast(group));
  CHECK(p.say(p.b, third, group, 1000, 2) == "xx.");
}

}  // namespace
