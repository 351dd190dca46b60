// SPDX-License-Identifier: BSD-3-Clause
// Frames that wait for a neighbour: sent in order once it is known, lost without an answer, and
// blocking no other frames. And frames of a port to itself, which leave room for the wire's.
// link: port_ethernet
#include <sys/mman.h>

#include "lib/memory/guarded_copy.hpp"
#include "providers/port/ethernet/loop_back.hpp"
#include "providers/port/ethernet/unresolved.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::port::ethernet;
using transport::TxFrame;

namespace {

constexpr wire::MacAddress kOurs = {2, 0, 0, 0, 0, 1}, kTheirs = {2, 0, 0, 0, 0, 2};
const Gid kUs = Gid::from_ipv4(10, 0, 0, 1), kThem = Gid::from_ipv4(10, 0, 0, 2);

struct Sent {
  std::vector<std::byte> bytes;
  wire::MacAddress to;
};

struct Host {
  Neighbours neighbours{{.mac = kOurs, .address = kUs, .vlan = 0, .prefix = 0, .gateway = {}}};
  Unresolved unresolved;
  std::vector<Sent> sent;
  size_t room = 1000;
  Instant now{1};

  void keep(const Gid& to, uint8_t mark, uint32_t length = 4) {
    const std::vector<std::byte> bytes(length, std::byte{mark});
    transport::Path path;
    path.source = kUs;
    path.destination = to;
    TxFrame frame;
    frame.path = &path;
    frame.head = bytes.data();
    frame.head_length = length;
    unresolved.enqueue(frame, neighbours, now);
  }
  bool send_resolved() {
    return unresolved.send_resolved(neighbours, now,
                                    [&](const TxFrame& f, const wire::MacAddress& mac) {
                                      if (sent.size() == room) return false;
                                      sent.push_back({{f.head, f.head + f.head_length}, mac});
                                      return true;
                                    });
  }
  // Frames between neighbours that wait to leave.
  size_t questions() {
    size_t count = 0;
    while (!neighbours.next_message().empty()) ++count;
    return count;
  }
};

}  // namespace

TEST_CASE("frames for a neighbour that is not known leave in their order once it is") {
  Host host;
  for (uint8_t i = 0; i < 5; ++i) host.keep(kThem, i, 4u + i);
  CHECK(host.questions() == 1);
  CHECK(host.send_resolved());
  CHECK(host.sent.empty());
  host.neighbours.add(kThem, kTheirs);
  host.room = 2;
  CHECK_FALSE(host.send_resolved());  // the rest stays, and comes once
  CHECK_FALSE(host.unresolved.empty());
  host.room = 100;
  CHECK(host.send_resolved());
  CHECK(host.unresolved.empty());
  REQUIRE(host.sent.size() == 5);
  for (uint8_t i = 0; i < 5; ++i) {
    CHECK(host.sent[i].bytes == std::vector<std::byte>(4u + i, std::byte{i}));
    CHECK(host.sent[i].to == kTheirs);
  }
  CHECK(host.unresolved.dropped() == 0);
}

TEST_CASE("who never answers is asked again, then given up with what waited") {
  Host host;
  host.keep(kThem, 1);
  host.keep(kThem, 2);
  size_t questions = host.questions();
  for (int i = 0; i < 10; ++i) {
    host.now = host.now + Duration::from_ms(10);
    CHECK(host.send_resolved());
    questions += host.questions();
  }
  CHECK(questions == 6);
  CHECK(host.unresolved.empty());
  CHECK(host.unresolved.dropped() == 2);
  host.keep(kThem, 3);  // not asked again for a while
  CHECK(host.unresolved.empty());
  CHECK(host.unresolved.dropped() == 3);
}

TEST_CASE("what waits is bounded, per address and in all") {
  Host host;
  for (uint32_t i = 0; i < 100; ++i) host.keep(kThem, static_cast<uint8_t>(i));
  CHECK(host.unresolved.dropped() == 36);
  for (uint8_t i = 0; i < 100; ++i) host.keep(Gid::from_ipv4(10, 0, 1, i), i);
  CHECK(host.unresolved.dropped() == 36 + 85);
  host.neighbours.add(kThem, kTheirs);
  CHECK(host.send_resolved());
  REQUIRE(host.sent.size() == 64);
  for (uint8_t i = 0; i < 64; ++i) CHECK(host.sent[i].bytes[0] == std::byte{i});
}

TEST_CASE("a frame whose memory is gone before it is copied is lost, not the process") {
  memory::install_fault_guard();
  constexpr size_t kPage = 4096;
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  munmap(memory, kPage);
  transport::Path path;
  path.destination = kThem;
  const transport::Span span{memory, 64};
  TxFrame frame;
  frame.path = &path;
  frame.spans = &span;
  frame.span_count = 1;
  frame.payload_length = 64;
  Host host;
  host.unresolved.enqueue(frame, host.neighbours, host.now);
  CHECK(host.unresolved.dropped() == 1);
  LoopBack looped;
  looped.add(frame);
  CHECK(looped.empty());
}

TEST_CASE("frames to oneself take half of the room at most, and none is lost by that") {
  LoopBack looped;
  transport::Path path;
  for (uint8_t i = 0; i < 10; ++i) {
    const std::vector<std::byte> bytes(1u + i, std::byte{i});
    TxFrame frame;
    frame.path = &path;
    frame.head = bytes.data();
    frame.head_length = static_cast<uint32_t>(bytes.size());
    frame.ip_id = i;
    looped.add(frame);
  }
  uint8_t next = 0;
  for (const size_t count : {size_t{4}, size_t{4}, size_t{2}, size_t{0}}) {
    transport::Frame frames[8];
    REQUIRE(looped.receive(frames) == count);
    for (size_t i = 0; i < count; ++i, ++next) {
      CHECK(frames[i].length == 1u + next);
      CHECK(frames[i].bytes[0] == std::byte{next});
      CHECK(frames[i].ip_id == next);
    }
    looped.release();
  }
  CHECK(next == 10);
}
