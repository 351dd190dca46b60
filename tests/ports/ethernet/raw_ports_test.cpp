// SPDX-License-Identifier: BSD-3-Clause
// What holds for every port that sees whole Ethernet frames, on a veth pair in a namespace or on
// shared memory: each header is as it was sent, what is not for the port is left out, frames to
// itself and to its groups come back, neighbours are found, followed and given up. What only one of
// them has: af_packet_port_test.cpp, af_xdp_port_test.cpp and the dpdk tests beside this one.
// ctest: serial
// program: own
#include <filesystem>

#include "providers/software/ports.hpp"
#include "tests/ports/ethernet/raw_port_support.hpp"

using namespace raw_port_test;

namespace {

// Ends 0 and 1 of the wire.
struct AfPacket {
  static constexpr const char* kPort = "af_packet";
  std::string where(int end) const { return end == 0 ? "w0" : "w1"; }
  Keys keys(int) const { return {}; }
};

struct AfXdp : AfPacket {
  static constexpr const char* kPort = "af_xdp";
};

struct AfXdpGeneric : AfXdp {
  Keys keys(int) const { return {{"mode", "generic"}}; }
};

struct DpdkAfPacket {
  static constexpr const char* kPort = "dpdk";
  std::string where(int) const { return "net_af_packet"; }
  Keys keys(int end) const { return {{"huge", "0"}, {"iface", end == 0 ? "w0" : "w1"}}; }
};

std::string make_folder() {
  char name[] = "/tmp/weft-raw-XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  return name;
}

// The first end is the server.
struct DpdkMemif {
  static constexpr const char* kPort = "dpdk";
  const std::string folder = make_folder();
  ~DpdkMemif() { std::filesystem::remove_all(folder); }
  std::string where(int) const { return "net_memif"; }
  Keys keys(int) const { return {{"huge", "0"}, {"socket", folder + "/s"}}; }
};

// Why the port cannot be opened by this program at all; empty: it can.
template <class Kind>
std::string lacks() {
  const software::PortKind* const kind = software::find_port(Kind::kPort);
  if (kind == nullptr || kind->missing.empty()) return {};
  return "built without " + std::string(kind->missing);
}

template <class Kind>
struct Wired {
  Veth veth;
  Kind kind;

  std::unique_ptr<Port> open(int end, const std::string& address, const Keys& more = {}) const {
    Keys keys = kind.keys(end);
    keys.emplace_back("address", address);
    keys.insert(keys.end(), more.begin(), more.end());
    auto port = software::find_port(Kind::kPort)->open({.where = kind.where(end), .options = keys});
    INFO((port ? "" : port.error().message));
    REQUIRE(port.ok());
    return std::move(*port);
  }
  uint64_t counted(const Port& port, const char* name) const {
    return counter(port, std::string(Kind::kPort) + "_" + name);
  }
};

// What has come to `to` when there are as many, or after a second or two; `other` lives meanwhile.
std::vector<Got> gather(Port& to, size_t count, Port& other) {
  std::vector<Got> result;
  for (int i = 0; i < 2000 && result.size() < count; ++i) {
    Frame frames[64];
    size_t n = 0;
    for (int turns = 0; turns < 100 && n == 0; ++turns) n = to.receive(frames);
    for (size_t k = 0; k < n; ++k)
      result.push_back({Bytes(frames[k].bytes, frames[k].bytes + frames[k].length), *frames[k].path,
                        frames[k].ip_id, frames[k].ip_id_known, frames[k].ecn});
    to.release({frames, n});
    turn(other, 10);
    if (n == 0) usleep(500);
  }
  return result;
}

void send(Port& from, const Path& path, const Bytes& bytes, uint16_t id = 0) {
  const TxFrame frame[1] = {whole_frame(path, bytes, id)};
  REQUIRE(from.transmit(frame) == 1);
}

// Until `to` receives from `from`, which resolves its MAC address first.
void introduce(Port& from, Port& to) {
  const Bytes bytes = frame_bytes(0, 32);
  const Path path = path_between(from, to);
  send(from, path, bytes);
  REQUIRE(gather(to, 1, from).size() == 1);
}

void check_frames(Port& a, Port& b) {
  Path path = path_between(a, b, 0xDEAF);
  path.traffic_class = 0x68;
  path.hop_limit = 33;
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (uint32_t i = 0; i < 60; ++i) bytes.push_back(frame_bytes(i, 16 + i * 17));
  for (uint32_t i = 0; i < 60; ++i) {
    frames.push_back(whole_frame(path, bytes[i], static_cast<uint16_t>(i)));
    frames.back().ecn = i % 4;
  }
  REQUIRE(a.transmit(frames) == 60);
  const std::vector<Got> got = gather(b, 60, a);
  REQUIRE(got.size() == 60);
  for (uint32_t i = 0; i < 60; ++i) {
    CHECK(got[i].bytes == bytes[i]);
    CHECK((got[i].ip_id_known && (got[i].ip_id == i || !a.address().is_ipv4())));
    CHECK(got[i].ecn == i % 4);
    CHECK(got[i].path.source == a.address());
    CHECK(got[i].path.destination == b.address());
    CHECK(got[i].path.source_port == 0xDEAF);
    CHECK(got[i].path.hop_limit == 33);
    CHECK(got[i].path.traffic_class == (0x68 | i % 4));
  }
}

}  // namespace

#define WEFT_RAW_PORTS AfPacket, AfXdp, AfXdpGeneric, DpdkAfPacket
#define WEFT_NEEDS(wired)                                            \
  if (const std::string lack = lacks<TestType>(); !lack.empty())     \
    WEFT_SKIP(Catch::getResultCapture().getCurrentTestName(), lack); \
  const Wired<TestType> wired;                                       \
  if (!wired.veth.there)                                             \
  WEFT_SKIP(Catch::getResultCapture().getCurrentTestName(), "a network namespace needs root")

TEMPLATE_TEST_CASE("raw port: frames arrive with every header as sent (C-AV-95, C-HDR-8)", "",
                   WEFT_RAW_PORTS, DpdkMemif) {
  WEFT_NEEDS(wired);
  const auto [near, far] =
      GENERATE(std::pair("10.79.0.1", "10.79.0.2"), std::pair("fd00::1", "fd00::2"));
  const auto a = wired.open(0, near), b = wired.open(1, far);
  CHECK(a->capabilities().integrity_bits == 32);
  CHECK(a->capabilities().ecn);
  introduce(*a, *b);
  check_frames(*a, *b);
  check_frames(*b, *a);
  CHECK(wired.counted(*b, "rx_malformed") == 0);
}

TEMPLATE_TEST_CASE("raw port: frames for other addresses are dropped", "", WEFT_RAW_PORTS,
                   DpdkMemif) {
  WEFT_NEEDS(wired);
  const auto a = wired.open(0, "10.79.0.1"), b = wired.open(1, "10.79.0.2");
  introduce(*a, *b);
  const Bytes bytes = frame_bytes(3, 500);
  Path other_port = path_between(*a, *b), other_group = other_port;
  other_port.destination_port = 4793;
  other_group.destination = Gid::from_ipv4(239, 1, 2, 3);
  const uint64_t before = wired.counted(*b, "rx_frames");
  send(*a, other_port, bytes);
  send(*a, other_group, bytes);
  const Path path = path_between(*a, *b);
  send(*a, path, bytes);
  const auto arrived = gather(*b, 1, *a);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].path.destination_port == path.destination_port);
  CHECK(arrived[0].path.destination == path.destination);
  turn(*b, 1000);
  CHECK(wired.counted(*b, "rx_frames") == before + 1);
  CHECK(wired.counted(*b, "rx_malformed") == 0);
}

TEMPLATE_TEST_CASE("raw port: a frame to its own address comes back", "", WEFT_RAW_PORTS,
                   DpdkMemif) {
  WEFT_NEEDS(wired);
  const auto port = wired.open(0, "10.79.0.1");
  const Bytes bytes = frame_bytes(3, 500);
  const Path path = path_between(*port, *port);
  send(*port, path, bytes, 7);
  const std::vector<Got> got = gather(*port, 1, *port);
  REQUIRE(got.size() == 1);
  CHECK(got[0].bytes == bytes);
  CHECK(got[0].ip_id == 7);
}

// w0 has the kernel's address too, which af_xdp joins groups with.
TEMPLATE_TEST_CASE("raw port: frames of the groups that were joined (C-OPS-87)", "", WEFT_RAW_PORTS,
                   DpdkMemif) {
  WEFT_NEEDS(wired);
  const auto a = wired.open(0, "10.79.0.9"), b = wired.open(1, "10.79.0.2");
  const Bytes bytes = frame_bytes(3, 500);
  const Gid ours = Gid::from_ipv4(239, 129, 2, 3), twin = Gid::from_ipv4(239, 1, 2, 3);
  const auto send_to = [&](Port& from, const Gid& group) {
    Path path = path_between(from, from);
    path.destination = group;
    send(from, path, bytes);
  };
  REQUIRE(a->join(ours).ok());
  send_to(*b, twin);  // the same Ethernet address, another group
  send_to(*b, ours);
  const std::vector<Got> got = gather(*a, 1, *b);
  REQUIRE(got.size() == 1);
  CHECK(got[0].bytes == bytes);
  CHECK(got[0].path.destination == ours);
  CHECK(got[0].path.source == b->address());
  CHECK(wired.counted(*a, "rx_foreign") >= 1);
  send_to(*a, twin);  // it is no member itself
  send_to(*a, ours);
  const std::vector<Got> looped = gather(*a, 1, *b);
  REQUIRE(looped.size() == 1);
  CHECK(looped[0].path.destination == ours);
  a->leave(ours);
  send_to(*b, ours);
  send_to(*a, ours);
  const uint64_t before = wired.counted(*a, "rx_frames");
  turn(*a, 1000);
  CHECK(wired.counted(*a, "rx_frames") == before);
}

// No host has 10.79.0.77.
TEMPLATE_TEST_CASE("raw port: a neighbour that does not answer blocks no other", "", WEFT_RAW_PORTS,
                   DpdkMemif) {
  WEFT_NEEDS(wired);
  const auto a = wired.open(0, "10.79.0.1"), b = wired.open(1, "10.79.0.2");
  introduce(*a, *b);
  const Path there = path_between(*a, *b);
  Path absent = there;
  absent.destination = *parse_gid("10.79.0.77");
  const Bytes bytes = frame_bytes(5, 100);
  const TxFrame frames[3] = {whole_frame(absent, bytes), whole_frame(there, bytes),
                             whole_frame(absent, bytes)};
  CHECK(a->transmit(frames) == 3);
  CHECK(gather(*b, 1, *a).size() == 1);
  for (int i = 0; i < 1000 && wired.counted(*a, "tx_no_neighbour") < 2; ++i) {
    turn(*a, 10);
    usleep(1000);
  }
  CHECK(wired.counted(*a, "tx_no_neighbour") == 2);
}

TEMPLATE_TEST_CASE("raw port: a neighbour that moves is followed, a silent one asked for again", "",
                   WEFT_RAW_PORTS) {
  WEFT_NEEDS(wired);
  const auto port = wired.open(1, "10.79.0.2");
  follows_a_neighbour_that_moves(*port);
}

TEMPLATE_TEST_CASE("raw port: a frame that lies about its length is counted (C-EVT-110)", "",
                   WEFT_RAW_PORTS) {
  WEFT_NEEDS(wired);
  const auto port = wired.open(1, "10.79.0.2");
  Wire wire("w0");
  const Bytes frame = frame_that_lies();
  wire.put(frame);
  wire.put(frame);
  for (int i = 0; i < 1000 && wired.counted(*port, "rx_malformed") < 2; ++i) {
    turn(*port, 10);
    usleep(1000);
  }
  CHECK(wired.counted(*port, "rx_malformed") == 2);
}

// ---- VLAN

// The kernel takes the tag off before a veth delivers the frame, so this is for memif.
TEMPLATE_TEST_CASE("raw port: frames of its VLAN only", "", DpdkMemif) {
  WEFT_NEEDS(wired);
  const Bytes bytes = frame_bytes(3, 500);
  const auto a = wired.open(0, "10.79.0.1", {{"vlan", "5"}});
  {
    const auto same = wired.open(1, "10.79.0.2", {{"vlan", "5"}});
    introduce(*a, *same);
    check_frames(*a, *same);
    check_frames(*same, *a);
    const Path path = path_between(*a, *same);
    send(*a, path, bytes);
    const std::vector<Got> got = gather(*same, 1, *a);
    REQUIRE(got.size() == 1);
    CHECK(got[0].path.vlan == 5);
  }
  // To the address of this MAC that everybody takes, the device being promiscuous.
  for (const char* const vlan : {"0", "6"}) {
    const auto other =
        wired.open(1, "10.79.0.3", {{"vlan", vlan}, {"neighbour", "10.79.0.1@02:00:00:00:00:01"}});
    const uint64_t before = wired.counted(*a, "rx_foreign");
    const Path path = path_between(*other, *a);
    for (int i = 0; i < 1000 && wired.counted(*a, "rx_foreign") == before; ++i) {
      send(*other, path, bytes);
      turn(*a, 10);
      turn(*other, 10);
      usleep(1000);
    }
    CHECK(wired.counted(*a, "rx_foreign") > before);
  }
}
