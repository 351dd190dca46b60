// SPDX-License-Identifier: BSD-3-Clause
// Two ports of one process exchange frames and trains of many shapes: what goes in comes out, in
// order and once, whatever the kernel makes of it on the way.
#include <sys/resource.h>

#include <set>

#include "tests/ports/udp/udp_frames.hpp"

using namespace udp_test;

namespace {

// How one train looks: equal frames, the last maybe shorter, each in one piece or in several.
struct Shape {
  uint32_t count;
  uint32_t length;
  uint32_t last;
  uint32_t spans;  // pieces besides head and tail
};

// Frames of one train and the memory they name.
struct Train {
  std::vector<Bytes> bytes;
  std::vector<std::vector<Span>> spans;
  std::vector<TxFrame> frames;
};

Train make_train(const Path& path, const Shape& shape, uint32_t qpn) {
  Train train;
  train.bytes.resize(shape.count);
  train.spans.resize(shape.count);
  for (uint32_t k = 0; k < shape.count; ++k) {
    const uint32_t length = k + 1 == shape.count ? shape.last : shape.length;
    train.bytes[k] = frame_bytes(k, length, qpn);
    TxFrame frame = whole_frame(path, train.bytes[k], static_cast<uint16_t>(k));
    if (shape.spans > 0) {
      const std::byte* at = train.bytes[k].data();
      frame.head_length = 16;
      frame.tail_length = 4;
      frame.payload_length = length - 20;
      std::memcpy(frame.tail, at + length - 4, 4);
      uint32_t done = 0;
      for (uint32_t s = 0; s < shape.spans; ++s) {
        const uint32_t end = frame.payload_length * (s + 1) / shape.spans;
        train.spans[k].push_back({at + 16 + done, end - done});
        done = end;
      }
      // Apart in memory, as user buffers are: the port must not take them for adjacent.
      frame.span_count = static_cast<uint8_t>(shape.spans);
      frame.spans = train.spans[k].data();
    }
    train.frames.push_back(frame);
  }
  return train;
}

void exchange(Port& from, Port& to, const Shape& shape, size_t at_once) {
  INFO(shape.count << " x " << shape.length << ", last " << shape.last << ", spans " << shape.spans
                   << ", at once " << at_once);
  Path path = path_between(from, to);
  path.traffic_class = 0x68;
  const uint32_t qpn = to.qpn_range().first + 5;
  Train train = make_train(path, shape, qpn);
  REQUIRE(from.transmit(train.frames) == train.frames.size());
  const std::vector<Got> got = drain(to, shape.count, at_once);
  REQUIRE(got.size() == shape.count);
  const bool v4 = to.address().is_ipv4();
  for (uint32_t k = 0; k < shape.count; ++k) {
    REQUIRE(got[k].bytes == train.bytes[k]);
    CHECK(got[k].path.source == from.address());
    CHECK(got[k].path.destination == to.address());
    CHECK(got[k].path.source_port == path.source_port);
    CHECK(got[k].path.traffic_class == 0x68);
    CHECK(got[k].ip_id_known == !v4);
  }
  if (counter(to, "udp_rx_super_packets") > 0 && shape.count > 1)
    for (uint32_t k = 0; k < shape.count; ++k) CHECK(got[k].ip_id == k);
}

const Shape kShapes[] = {
    {1, 16, 16, 0},  {1, 4112, 4112, 0},  {1, 65000, 65000, 0}, {2, 20, 20, 0},
    {3, 28, 17, 0},  {15, 4116, 4116, 1}, {15, 4116, 24, 3},    {60, 1040, 999, 1},
    {64, 36, 36, 0}, {64, 272, 272, 32},  {1, 4196, 4196, 32},  {7, 300, 299, 2},
};

}  // namespace

TEST_CASE("udp: trains of many shapes arrive whole and in order") {
  for (const char* where : {"lo", "::1"}) {
    if (std::string(where) == "::1" && !has_ipv6_loopback())
      WEFT_SKIP("udp trains over IPv6", "this machine has no ::1");
    for (const char* gso : {"0", "1"}) {
      for (const char* gro : {"0", "1"}) {
        INFO(where << " gso=" << gso << " gro=" << gro);
        const auto from = open_port(where, {{"gso", gso}});
        const auto to = open_port(where, {{"gro", gro}});
        for (const Shape& shape : kShapes) {
          if (shape.count > from->capabilities().train_frames) continue;
          for (const size_t at_once : {size_t{1}, size_t{5}, size_t{64}})
            exchange(*from, *to, shape, at_once);
        }
        if (from->capabilities().train_frames > 1)
          CHECK((counter(*to, "udp_rx_super_packets") > 0) == (std::string(gro) == "1"));
      }
    }
  }
}

TEST_CASE("udp: a train of the largest size and one of the most segments") {
  const auto from = open_port("lo");
  const auto to = open_port("lo");
  const transport::Capabilities& can = from->capabilities();
  if (can.train_frames == 1) WEFT_SKIP("udp largest train", "this kernel has no UDP_SEGMENT");
  const uint32_t length = can.train_bytes / 15;
  exchange(*from, *to, {15, length, length, 0}, 64);
  exchange(*from, *to, {can.train_frames, 36, 36, 0}, 64);
  CHECK(counter(*from, "udp_tx_errors") == 0);
}

TEST_CASE("udp: a train with a cut or missing frame still arrives frame by frame") {
  // Middleware that injects faults leaves such trains behind.
  const auto from = open_port("lo");
  const auto to = open_port("lo");
  const Path path = path_between(*from, *to);
  const std::pair<uint32_t, uint16_t> frames_of[] = {{40, 0}, {40, 1}, {30, 2}, {40, 3},
                                                     {40, 5}, {50, 6}, {50, 7}, {20, 8}};
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (const auto& [length, id] : frames_of) bytes.push_back(frame_bytes(id, length));
  for (size_t k = 0; k < bytes.size(); ++k)
    frames.push_back(whole_frame(path, bytes[k], frames_of[k].second));
  REQUIRE(from->transmit(frames) == frames.size());
  const std::vector<Got> got = drain(*to, frames.size());
  REQUIRE(got.size() == frames.size());
  for (size_t k = 0; k < bytes.size(); ++k) CHECK(got[k].bytes == bytes[k]);
}

TEST_CASE("udp: several trains, lone frames and source ports in one call keep their order") {
  const auto from = open_port("lo");
  const auto to = open_port("lo");
  const Path first = path_between(*from, *to, 0xC100);
  const Path second = path_between(*from, *to, 0xC200);
  REQUIRE(first.source_port != second.source_port);
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (uint32_t k = 0; k < 200; ++k) bytes.push_back(frame_bytes(k, 64 + k % 3));
  for (uint32_t k = 0; k < 200; ++k)
    frames.push_back(whole_frame(k % 50 < 40 ? first : second, bytes[k], 0));
  REQUIRE(from->transmit(frames) == frames.size());
  const std::vector<Got> got = drain(*to, frames.size(), 7);
  REQUIRE(got.size() == frames.size());
  for (uint32_t k = 0; k < 200; ++k) {
    REQUIRE(got[k].bytes == bytes[k]);
    CHECK(got[k].path.source_port == (k % 50 < 40 ? first : second).source_port);
  }
}

TEST_CASE("udp: class and ECN bits are set per frame and read (C-AV-95: class)") {
  for (const char* where : {"lo", "::1"}) {
    if (std::string(where) == "::1" && !has_ipv6_loopback())
      WEFT_SKIP("udp ECN over IPv6", "this machine has no ::1");
    const auto from = open_port(where);
    const auto to = open_port(where);
    const uint32_t qpn = to->qpn_range().first;
    Path path = path_between(*from, *to);
    path.traffic_class = 0xB8 | 3;  // the frame's own ECN bits win
    path.hop_limit = 9;
    const Bytes bytes = frame_bytes(1, 40, qpn);
    // Long enough that the socket takes over a class that stays.
    for (uint32_t k = 0; k < 60; ++k) {
      TxFrame frame = whole_frame(path, bytes);
      frame.ecn = static_cast<uint8_t>(k < 20 ? k % 4 : k < 50 ? 2 : 0);
      REQUIRE(from->transmit({&frame, 1}) == 1);
      const std::vector<Got> got = drain(*to, 1);
      REQUIRE(got.size() == 1);
      CHECK(got[0].ecn == frame.ecn);
      CHECK(got[0].path.traffic_class == (0xB8 | frame.ecn));
    }
  }
}

TEST_CASE("udp: every port on lo has an address of its own") {
  std::vector<std::unique_ptr<Port>> ports;
  std::set<Gid> addresses;
  for (int i = 0; i < 20; ++i) {
    ports.push_back(open_port(i % 2 ? "lo" : ""));
    const Gid gid = ports.back()->address();
    CHECK(gid.is_ipv4());
    CHECK(gid.bytes[12] == 127);
    addresses.insert(gid);
    CHECK(ports.back()->qpn_range().count > 0xFFFF00);
  }
  CHECK(addresses.size() == 20);
}

TEST_CASE("udp: a loopback literal is just that address, shared or not") {
  const Gid address = Gid::from_ipv4(127, 77, 3, 9);
  {
    const auto port = open_port("127.77.3.9"), second = open_port("127.77.3.9");
    CHECK(port->address() == address);
    CHECK(second->address() == address);
    CHECK(port->qpn_range().first != second->qpn_range().first);
    REQUIRE_FALSE(port::open_udp_port({"127.77.3.9", {{"shared", "0"}}}).ok());
  }
  const auto port = open_port("127.77.3.9", {{"shared", "0"}});
  CHECK(port->address() == address);
  CHECK(port->qpn_range().count > 0xFFFF00);
  const auto again = port::open_udp_port({"127.77.3.9", {}});
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().code == Code::address_in_use);
  CHECK(again.error().message.find("127.77.3.9") != std::string::npos);
  CHECK(again.error().message.find("process " + std::to_string(::getpid()) + " (") !=
        std::string::npos);
}

TEST_CASE("udp: a bad address or option says what would be right") {
  const auto nowhere = port::open_udp_port({"nosuch0", {}});
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().code == Code::not_found);
  CHECK(nowhere.error().message.find("lo 127.0.0.1") != std::string::npos);
  const auto foreign = port::open_udp_port({"203.0.113.77", {}});
  REQUIRE_FALSE(foreign.ok());
  CHECK(foreign.error().code == Code::not_found);
  for (const auto& [name, value] : Keys{{"gsso", "1"}, {"gso", "2"}, {"batch", "x"}, {"gro", ""}}) {
    const auto bad = port::open_udp_port({"lo", {{name, value}}});
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.error().code == Code::invalid_argument);
    CHECK(bad.error().message.find("gso=0..1") != std::string::npos);
  }
}

TEST_CASE("udp: 1,000 flows get at least 900 source ports of 0xC000..0xFFFF (C-AV-96)") {
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit before = files;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 2048);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  if (files.rlim_cur < 1100) WEFT_SKIP("udp source ports", "fewer than 1,100 open files allowed");
  const auto port = open_port("lo", {{"ports", "1024"}});
  std::set<uint16_t> distinct;
  uint32_t wanted = 1;
  for (int i = 0; i < 1000; ++i) {
    wanted = wanted * 1664525 + 1013904223;
    const auto want = static_cast<uint16_t>(0xC000 | (wanted >> 18));
    const uint16_t got = port->source_port(want, 0);
    CHECK(got >= 0xC000);
    CHECK(port->source_port(want, 0) == got);  // stable
    distinct.insert(got);
  }
  CHECK(distinct.size() >= 900);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("udp: a full pool of source ports names one that works") {
  const auto from = open_port("lo", {{"ports", "4"}});
  const auto to = open_port("lo");
  std::set<uint16_t> distinct;
  for (uint32_t i = 0; i < 64; ++i) {
    const Path path = path_between(*from, *to, static_cast<uint16_t>(0xC000 + i * 97));
    distinct.insert(path.source_port);
    const Bytes bytes = frame_bytes(i, 32);
    const TxFrame frame = whole_frame(path, bytes);
    REQUIRE(from->transmit({&frame, 1}) == 1);
    const std::vector<Got> got = drain(*to, 1);
    REQUIRE(got.size() == 1);
    CHECK(got[0].path.source_port == path.source_port);
  }
  CHECK(distinct.size() == 4);
  Path path = path_between(*from, *to);
  path.source_port = 0xFFFE;  // not requested, and the pool is full
  const Bytes bytes = frame_bytes(0, 32);
  const TxFrame frame = whole_frame(path, bytes);
  CHECK(from->transmit({&frame, 1}) == 1);
  CHECK(counter(*from, "udp_tx_foreign_port") == 1);
}

TEST_CASE("udp: frames that the kernel refuses are dropped and counted, the others sent") {
  const auto from = open_port("lo");
  const auto to = open_port("lo");
  const Path good = path_between(*from, *to);
  Path bad = good;
  bad.destination = Gid::from_ipv4(255, 255, 255, 255);  // a broadcast needs a permission
  const Bytes bytes = frame_bytes(3, 48);
  const TxFrame frames[3] = {whole_frame(good, bytes), whole_frame(bad, bytes),
                             whole_frame(good, bytes)};
  CHECK(from->transmit(frames) == 3);
  CHECK(counter(*from, "udp_tx_errors") == 1);
  CHECK(drain(*to, 2).size() == 2);
}

TEST_CASE("udp: a port does not sleep on frames that it holds") {
  const auto from = open_port("lo");
  const auto to = open_port("lo");
  if (from->capabilities().train_frames == 1) WEFT_SKIP("udp sleep", "no UDP_SEGMENT here");
  const Path path = path_between(*from, *to);
  Train train = make_train(path, {4, 40, 40, 0}, 0x10);
  REQUIRE(from->transmit(train.frames) == 4);
  Frame frames[3];
  std::vector<pollfd> waits;
  size_t first = 0;
  while ((first = to->receive(frames)) == 0) to->release({frames, 0});
  CHECK(first == 3);
  to->release({frames, first});
  CHECK_FALSE(to->prepare_wait(waits, false));
  CHECK(to->receive(frames) == 1);
  to->release({frames, 1});
  CHECK(to->prepare_wait(waits, false));
  CHECK(waits.size() == 1);
  to->finish_wait();
  CHECK_FALSE(to->prepare_wait(waits, true));  // nothing is blocked: transmit again
}

TEST_CASE("udp: capabilities say what sockets can and cannot do") {
  const auto port = open_port("lo");
  const transport::Capabilities& can = port->capabilities();
  CHECK(can.active_mtu == 4096);
  CHECK(can.integrity_bits == 16);
  CHECK(can.gather);
  CHECK(can.ecn);
  CHECK_FALSE(can.lossless);
  CHECK(can.in_flight_limit >= 32768);
  CHECK(open_port("lo", {{"gso", "0"}})->capabilities().train_frames == 1);
  CHECK(open_port("lo", {{"rcvbuf", "65536"}})->capabilities().in_flight_limit == 49152);
}
