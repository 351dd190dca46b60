// SPDX-License-Identifier: BSD-3-Clause
// The af_xdp port on a veth pair in a namespace: what it writes is what the other end reads, what
// is not its own stays the kernel's, nothing is left behind by a process that is killed, and what
// it cannot open it explains. Whole protocols over it: tests/conformance.
// ctest: serial
// link: port_af_packet
#include "providers/port/af_xdp/af_xdp_port.hpp"

#include <cstdlib>

#include "providers/port/af_packet/af_packet_port.hpp"
#include "tests/ports/af_xdp/af_xdp_support.hpp"

using namespace raw_port_test;

namespace {

Result<std::unique_ptr<Port>> open_xdp(const std::string& where, const std::string& address = {},
                                       Keys keys = {}) {
  if (!address.empty()) keys.emplace_back("address", address);
  return port::open_af_xdp_port({where, keys});
}

// Until `to` receives from `from`, which resolves its MAC address first.
void introduce(Port& from, Port& to) {
  const Path path = path_between(from, to);
  const Bytes bytes = frame_bytes(0, 32);
  const TxFrame frame[1] = {whole_frame(path, bytes)};
  REQUIRE(from.transmit(frame) == 1);  // it waits in the port for the answer
  for (int i = 0; i < 2'000'000; ++i) {
    transport::Frame some[4];
    if (const size_t count = to.receive(some)) return to.release({some, count});
    from.release({some, from.receive(some)});
  }
  FAIL("nothing came");
}

}  // namespace

TEST_CASE("af_xdp: says which mode and which way of waiting are in force") {
  WEFT_NEEDS_VETH("af_xdp: says which mode and which way of waiting are in force");
  const std::string mode = GENERATE("native", "generic");
  const auto a = need(open_xdp("w0", "10.79.0.1", {{"mode", mode}}));
  const auto b = need(open_xdp("w1", "10.79.0.2", {{"mode", mode}, {"busy_poll", "20"}}));
  CHECK(a->capabilities().active_mtu == 1024);
  CHECK(counter(*a, "af_xdp_generic") == (mode == "generic"));
  CHECK(counter(*a, "af_xdp_busy_poll") == 0);
  CHECK(counter(*b, "af_xdp_busy_poll") == 1);
  introduce(*a, *b);
  introduce(*b, *a);
}

// Frames of 4 KiB of payload lie in two buffers each, short ones between them in one.
TEST_CASE("af_xdp: frames longer than a umem frame use several") {
  WEFT_NEEDS_VETH("af_xdp: frames longer than a umem frame use several");
  REQUIRE(std::system("ip link set w0 mtu 4500 && ip link set w1 mtu 4500") == 0);
  const std::string mode = GENERATE("native", "generic");
  const auto [near, far] =
      GENERATE(std::pair("10.79.0.1", "10.79.0.2"), std::pair("fd00::1", "fd00::2"));
  // A kernel without chains opens no native mode on an interface of such an MTU.
  if (const auto tried = need(open_xdp("w0", near, {{"mode", "generic"}}));
      counter(*tried, "af_xdp_chains") == 0) {
    CHECK(tried->capabilities().active_mtu == 2048);
    WEFT_SKIP("af_xdp: frames longer than a umem frame use several",
              "this kernel has no XDP_USE_SG (6.6)");
  }
  const auto a = need(open_xdp("w0", near, {{"mode", mode}}));
  const auto b = need(open_xdp("w1", far, {{"mode", mode}}));
  CHECK(a->capabilities().active_mtu == 4096);
  introduce(*a, *b);
  const Path path = path_between(*a, *b);
  const uint32_t lengths[] = {4156, 64, 3840 - 42, 3840 - 41, 4096 - 42, 4096 - 41, 4156, 1000};
  uint64_t wrong = 0;
  for (uint32_t sent = 0; sent < 6000; sent += 60) {  // all buffers go round
    std::vector<Bytes> bytes;
    for (uint32_t i = 0; i < 60; ++i) bytes.push_back(frame_bytes(sent + i, lengths[i % 8]));
    std::vector<TxFrame> frames;
    for (const Bytes& each : bytes) frames.push_back(whole_frame(path, each));
    for (size_t taken = 0; taken < frames.size();)
      taken += a->transmit(std::span(frames).subspan(taken));
    const std::vector<Got> got = drain(*b, 60);
    REQUIRE(got.size() == 60);
    for (uint32_t i = 0; i < 60; ++i) wrong += got[i].bytes != bytes[i];
  }
  CHECK(wrong == 0);
  CHECK(counter(*b, "af_xdp_rx_dropped") == 0);
  CHECK(counter(*b, "af_xdp_rx_no_buffer") == 0);
}

TEST_CASE("af_xdp: umem frames are reused: many more packets than frames") {
  WEFT_NEEDS_VETH("af_xdp: umem frames are reused: many more packets than frames");
  const auto a = need(open_xdp("w0", "10.79.0.1"));
  const auto b = need(open_xdp("w1", "10.79.0.2"));
  introduce(*a, *b);
  const Path path = path_between(*a, *b);
  uint32_t received = 0;
  for (uint32_t sent = 0; sent < 20'000; sent += 50) {
    std::vector<Bytes> bytes;
    std::vector<TxFrame> frames;
    for (uint32_t i = 0; i < 50; ++i) bytes.push_back(frame_bytes(sent + i, 64));
    for (uint32_t i = 0; i < 50; ++i) frames.push_back(whole_frame(path, bytes[i]));
    REQUIRE(a->transmit(frames) == 50);
    const std::vector<Got> got = drain(*b, 50);
    REQUIRE(got.size() == 50);
    for (uint32_t i = 0; i < 50; ++i) received += got[i].bytes == bytes[i];
  }
  CHECK(received == 20'000);
}

TEST_CASE("af_xdp: GSO packets and partial checksums of the udp port arrive as frames") {
  WEFT_NEEDS_VETH("af_xdp: GSO packets and partial checksums of the udp port arrive as frames");
  const auto xdp = need(open_xdp("w1", "10.79.0.2"));
  const auto udp = open_port("10.79.0.9");
  const uint32_t most = udp->capabilities().train_frames;
  if (most < 20) WEFT_SKIP("af_xdp: trains", "this kernel has no UDP_SEGMENT");
  const Path path = path_between(*udp, *xdp);
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (uint32_t i = 0; i < 40; ++i) bytes.push_back(frame_bytes(i, i % 20 == 19 ? 36 : 1040));
  for (uint32_t i = 0; i < 40; ++i)
    frames.push_back(whole_frame(path, bytes[i], static_cast<uint16_t>(i % 20)));
  REQUIRE(udp->transmit(frames) == 40);
  const std::vector<Got> got = drain(*xdp, 40);
  REQUIRE(got.size() == 40);
  for (uint32_t i = 0; i < 40; ++i) {
    CHECK(got[i].bytes == bytes[i]);
    CHECK(got[i].ip_id == i % 20);
  }
}

TEST_CASE("af_xdp: frames to another address or UDP port pass to the kernel") {
  WEFT_NEEDS_VETH("af_xdp: frames to another address or UDP port pass to the kernel");
  const auto kernel = open_port("10.79.0.9");
  const auto xdp = need(open_xdp("w0", "10.79.0.1"));
  const auto raw = need(port::open_af_packet_port({"w1", {{"address", "10.79.0.2"}}}));
  introduce(*raw, *xdp);
  introduce(*raw, *kernel);
  const Bytes bytes = frame_bytes(3, 500);
  Path other = path_between(*raw, *xdp);
  other.destination_port = 4793;
  const TxFrame to_other_port[1] = {whole_frame(other, bytes)};
  const Path own = path_between(*raw, *xdp);
  const TxFrame to_xdp[1] = {whole_frame(own, bytes)};
  const uint64_t before = counter(*xdp, "af_xdp_rx_frames");
  REQUIRE(raw->transmit(to_other_port) == 1);
  REQUIRE(raw->transmit(to_xdp) == 1);
  CHECK(drain(*xdp, 1).size() == 1);
  CHECK(drain(*xdp, 0).empty());
  CHECK(counter(*xdp, "af_xdp_rx_frames") == before + 1);
  CHECK(counter(*xdp, "af_xdp_rx_foreign") == 0);
}

TEST_CASE("af_xdp: a process that is killed leaves nothing on the interface") {
  WEFT_NEEDS_VETH("af_xdp: a process that is killed leaves nothing on the interface");
  Child child([] { return open_xdp("w0"); });
  CHECK(has_program("w0"));
  CHECK(open_xdp("w0").error().code == Code::address_in_use);
  child.kill();
  CHECK(loses_its_program("w0"));
  (void)need(open_xdp("w0"));
}

TEST_CASE("af_xdp: an interface that is deleted while in use") {
  WEFT_NEEDS_VETH("af_xdp: an interface that is deleted while in use");
  const auto a = need(open_xdp("w0", "10.79.0.1"));
  const auto b = need(open_xdp("w1", "10.79.0.2"));
  introduce(*a, *b);
  REQUIRE(std::system("ip link del w0") == 0);
  const Path path = path_between(*a, *b);
  const Bytes bytes = frame_bytes(1, 64);
  const TxFrame frame[1] = {whole_frame(path, bytes)};
  for (int i = 0; i < 5000; ++i) (void)a->transmit(frame);  // more than there are buffers
  int at_once = 0;                                          // a sleeper would spin
  for (int i = 0; i < 10; ++i) {
    std::vector<pollfd> waits;
    if (a->prepare_wait(waits, false)) {
      at_once += ::poll(waits.data(), waits.size(), 20) != 0;
      a->finish_wait();
    }
  }
  CHECK(at_once <= 3);
}

TEST_CASE("af_xdp: errors name what is wrong with an interface") {
  WEFT_NEEDS_VETH("af_xdp: errors name what is wrong with an interface");
  CHECK(open_xdp("nothing").error().code == Code::not_found);
  CHECK(open_xdp("nothing").error().message == "af_xdp: there is no interface nothing");
  CHECK(open_xdp("").error().code == Code::invalid_argument);
  CHECK(open_xdp("w0", "no address").error().code == Code::invalid_argument);
  CHECK(open_xdp("w0", {}, {{"mode", "fast"}}).error().message.find("mode=auto|native|generic") !=
        std::string::npos);
  CHECK(open_xdp("w0", {}, {{"queue", "7"}}).error().code == Code::invalid_argument);
  CHECK(open_xdp("lo").error().code == Code::not_supported);
  REQUIRE(std::system("ip link set w1 down") == 0);
  CHECK(open_xdp("w1", "10.79.0.2").error().code == Code::not_found);
  REQUIRE(std::system("ip link add q0 numrxqueues 2 type veth peer name q1 && "
                      "ip link set q0 up && ip addr add 10.78.0.9/24 dev q0") == 0);
  const auto many = open_xdp("q0");
  REQUIRE_FALSE(many.ok());
  CHECK(many.error().message.find("ethtool -L q0 combined 1") != std::string::npos);
}

TEST_CASE("af_xdp: a probe attaches nothing, and says what opening would say") {
  WEFT_NEEDS_VETH("af_xdp: a probe attaches nothing, and says what opening would say");
  const auto port = need(open_xdp("w0"));
  CHECK(port::probe_af_xdp_port({"w0", {}}).ok());  // opening again would be refused
  CHECK(port::probe_af_xdp_port({"nothing", {}}).error().message ==
        "af_xdp: there is no interface nothing");
  CHECK(std::system("ip link show w1 | grep -q xdp") != 0);
}

TEST_CASE("af_xdp: says which privileges it needs") {
  WEFT_NEEDS_VETH("af_xdp: says which privileges it needs");
  int answer[2];
  REQUIRE(::pipe(answer) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const auto port = open_xdp("w0");
    const std::string text = port ? "opened" : port.error().message;
    (void)!::write(answer[1], text.data(), text.size());
    ::_exit(port || port.error().code != Code::permission_denied);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  char text[512] = {};
  REQUIRE(::read(answer[0], text, sizeof text - 1) > 0);
  INFO(text);
  CHECK(status == 0);
  CHECK(std::string(text).find("CAP_BPF: run as root; roce+udp needs no privilege") !=
        std::string::npos);
  ::close(answer[0]);
  ::close(answer[1]);
}
