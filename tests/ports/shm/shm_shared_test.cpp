// SPDX-License-Identifier: BSD-3-Clause
// Ports that share the address of their job (shm.shared=1): frames find the port of their queue
// pair, requests the port that listens for their service.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <set>

#include "lib/transport/shared_address.hpp"
#include "tests/ports/shm/shm_support.hpp"

using namespace shm_test;
using weft::Code;
using weft::transport::MadOffsets;

namespace {

std::unique_ptr<Port> open_shared(const std::string& where = job()) {
  return open_port(where, {{"shared", "1"}, {"by_reference", "0"}});
}

std::byte slot_byte(const Port& port) { return std::byte{weft::transport::slot_of(port)}; }

// Begins as a frame to a queue pair of that port does.
Bytes frame_for(const Port& port, uint64_t seed) {
  Bytes frame = pattern(28, seed);
  frame[weft::transport::kQpnTopByte] = slot_byte(port);
  return frame;
}

// A frame to queue pair 1, its MAD as payload: headers are 20 bytes.
struct Mad {
  Bytes header = Bytes(20, std::byte{0});
  Bytes body = Bytes(256, std::byte{0});
  std::byte& at(uint32_t offset) { return body[offset - 20]; }
};
Mad request(uint64_t service) {
  Mad mad;
  mad.at(MadOffsets::kAttribute + 1) = std::byte{MadOffsets::kReq};
  for (uint32_t i = 0; i < 8; ++i)
    mad.at(MadOffsets::kService + i) = static_cast<std::byte>(service >> (56 - 8 * i));
  return mad;
}
Mad reply_to(const Port& port) {
  Mad mad;
  mad.at(MadOffsets::kAttribute + 1) = std::byte{0x13};  // REP
  mad.at(MadOffsets::kRemoteId) = slot_byte(port);
  return mad;
}
bool send(Port& from, const Port& to, const Mad& mad) {
  return shm_test::send(from, to.address(), mad.header, mad.body);
}

// Whether what was sent by `from` arrives at `to`.
bool arrives(Port& to, Port& from, const Bytes& whole) {
  const auto got = receive(to, 1, &to == &from ? nullptr : &from);
  return got.size() == 1 && got[0].bytes == whole && got[0].source == from.address();
}
bool request_arrives(Port& to, Port& from, uint64_t service) {
  const Mad mad = request(service);
  return send(from, to, mad) && arrives(to, from, joined(mad.header, mad.body));
}

constexpr uint64_t kService = 0x0000'0000'0106'1d2f;  // port 7471 of TCP

}  // namespace

TEST_CASE("shm: ports of a shared address get the frames of their queue pairs") {
  auto a = open_shared(), b = open_shared(), c = open_shared();
  auto other = open_port(job());
  CHECK(a->address() == b->address());
  CHECK(a->address() == c->address());
  CHECK(a->address() != other->address());
  CHECK(std::set{slot_byte(*a), slot_byte(*b), slot_byte(*c)}.size() == 3);
  CHECK(a->qpn_range().first == static_cast<uint32_t>(slot_byte(*a)) << 16);
  uint64_t seed = 0;
  for (int round = 0; round < 3; ++round)
    for (Port* const from : {a.get(), b.get(), c.get(), other.get()})
      for (Port* const to : {a.get(), b.get(), c.get()}) {
        const Bytes frame = frame_for(*to, ++seed);
        REQUIRE(shm_test::send(*from, to->address(), frame));
        REQUIRE(arrives(*to, *from, frame));
      }
  const Bytes back = frame_for(*a, ++seed);
  REQUIRE(shm_test::send(*a, other->address(), back));
  CHECK(arrives(*other, *a, back));
}

TEST_CASE("shm: a burst for several ports of a shared address is distributed in order") {
  auto a = open_shared(), b = open_shared(), c = open_shared();
  Path path;
  path.source = path.destination = a->address();
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (uint64_t i = 0; i < 30; ++i) bytes.push_back(frame_for(i % 3 == 0 ? *b : *c, i));
  for (const Bytes& one : bytes) {
    TxFrame frame;
    frame.path = &path;
    frame.head = one.data();
    frame.head_length = static_cast<uint32_t>(one.size());
    frames.push_back(frame);
  }
  REQUIRE(a->transmit(frames) == frames.size());
  const auto at_b = receive(*b, 10, a.get()), at_c = receive(*c, 20, a.get());
  REQUIRE(at_b.size() == 10);
  REQUIRE(at_c.size() == 20);
  for (size_t i = 0; i < 30; ++i)
    CHECK((i % 3 == 0 ? at_b[i / 3] : at_c[i - i / 3 - 1]).bytes == bytes[i]);
}

TEST_CASE("shm: a frame for a slot that no port has is dropped") {
  auto a = open_shared();
  Bytes frame = frame_for(*a, 1);
  auto& slot = frame[weft::transport::kQpnTopByte];
  slot = slot == std::byte{1} ? std::byte{2} : std::byte{1};
  CHECK(shm_test::send(*a, a->address(), frame));
  CHECK(counter(*a, "shm_tx_no_peer") == 1);
  CHECK(shm_test::send(*a, a->address(), Bytes(20, std::byte{0})));  // QPN 0, no MAD
  CHECK(counter(*a, "shm_tx_no_peer") == 2);
}

TEST_CASE("shm: requests go to the listener of their service, the rest by communication ID") {
  auto client = open_shared(), a = open_shared(), b = open_shared();
  REQUIRE(a->claim_service(kService));
  REQUIRE(b->claim_service(kService + 1));
  CHECK(request_arrives(*a, *client, kService));
  CHECK(request_arrives(*b, *client, kService + 1));
  CHECK(request_arrives(*a, *a, kService));
  const Mad reply = reply_to(*client);
  REQUIRE(send(*a, *client, reply));
  CHECK(arrives(*client, *a, joined(reply.header, reply.body)));
  // No port listens there: the device of the client refuses it.
  CHECK(request_arrives(*client, *client, kService + 2));

  const auto second = b->claim_service(kService);
  REQUIRE(!second);
  CHECK(second.error().code == Code::address_in_use);
  CHECK(second.error().message.find(std::to_string(getpid())) != std::string::npos);
  CHECK(request_arrives(*a, *client, kService));
}

TEST_CASE("shm: a service whose listener closes stays with it for a moment, or the next one's") {
  auto client = open_shared(), a = open_shared(), b = open_shared();
  REQUIRE(a->claim_service(kService));
  CHECK(request_arrives(*a, *client, kService));
  a->release_service(kService);
  const auto request_goes_to = [&](Port& wanted, Port& meanwhile) {
    const Mad mad = request(kService);
    std::vector<Received> got, other;
    for (const Deadline deadline(20'000); got.empty() && !deadline.passed();) {
      send(*client, *a, mad);
      for (int i = 0; i < 3000; ++i) {
        collect(wanted, got);
        collect(meanwhile, other);
      }
    }
    return !got.empty();
  };
  // Its name is there until it polls, at least.
  REQUIRE(send(*client, *a, request(kService)));
  std::vector<Received> refused;
  for (int i = 0; i < 3000; ++i) collect(*client, refused);
  CHECK(refused.empty());
  CHECK(request_goes_to(*client, *a));  // a second later
  REQUIRE(b->claim_service(kService));
  CHECK(request_goes_to(*b, *client));
  b->release_service(kService);
  REQUIRE(b->claim_service(kService));
  CHECK(request_goes_to(*b, *client));
}

TEST_CASE("shm: twenty services whose listeners close stay with them for a moment") {
  auto client = open_shared(), a = open_shared();
  constexpr uint64_t kServices = 20;
  for (uint64_t i = 0; i < kServices; ++i) REQUIRE(a->claim_service(kService + i));
  for (uint64_t i = 0; i < kServices; ++i) a->release_service(kService + i);
  for (uint64_t i = 0; i < kServices; ++i) REQUIRE(send(*client, *a, request(kService + i)));
  std::vector<Received> refused;
  for (int i = 0; i < 3000; ++i) collect(*client, refused);
  CHECK(refused.empty());
}

TEST_CASE("shm: without descriptors a request is lost, and not refused though a port listens") {
  auto client = open_shared(), a = open_shared();
  REQUIRE(a->claim_service(kService));
  CHECK(request_arrives(*client, *client, kService + 1));  // to itself: no port listens there
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  // The first attempt finds no descriptor; those soon after it do not try.
  for (int i = 0; i < 100; ++i) send(*client, *a, request(kService));
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<Received> refused;
  for (int i = 0; i < 3000; ++i) collect(*client, refused);
  CHECK(refused.empty());
}

TEST_CASE("shm: the next process listens after the first one was killed") {
  const std::string where = job();
  auto client = open_shared();
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    auto listener = open_shared(where);
    const bool claimed = listener->claim_service(kService).ok();
    (void)!write(ready[1], claimed ? "y" : "n", 1);
    std::vector<Received> got;
    for (;;) collect(*listener, got);
  }
  char answer = 0;
  REQUIRE(read(ready[0], &answer, 1) == 1);
  REQUIRE(answer == 'y');
  CHECK(send(*client, *client, request(kService)));
  auto next = open_shared();
  CHECK(!next->claim_service(kService));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  REQUIRE(next->claim_service(kService));
  std::vector<Received> got;
  for (const Deadline deadline(20'000); got.empty() && !deadline.passed();) {
    send(*client, *client, request(kService));
    std::vector<Received> none;
    for (int i = 0; i < 3000; ++i) {
      collect(*client, none);
      collect(*next, got);
    }
  }
  CHECK(!got.empty());
}

TEST_CASE("shm: 254 ports share an address, and no more") {
  std::vector<std::unique_ptr<Port>> ports;
  std::set<std::byte> slots;
  while (ports.size() < 254) {
    ports.push_back(open_shared());
    slots.insert(slot_byte(*ports.back()));
  }
  CHECK(slots.size() == 254);
  CHECK(slots.count(std::byte{0}) + slots.count(std::byte{255}) == 0);
  const auto more = weft::port::open_shm_port({job(), {{"shared", "1"}}});
  REQUIRE(!more);
  CHECK(more.error().code == Code::no_memory);
  ports.pop_back();
  CHECK(open_shared());
}
