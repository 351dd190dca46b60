// SPDX-License-Identifier: BSD-3-Clause
// Several af_xdp devices on one interface, each on a queue of its own: roce beside srd, IPv6 beside
// IPv4, in one process or in several of which one is killed. Each gets its own frames, and the last
// leaves nothing behind.
// ctest: serial
#include <bpf/bpf.h>
#include <linux/if_link.h>

#include "providers/port/af_xdp/af_xdp_port.hpp"
#include "tests/ports/af_xdp/af_xdp_support.hpp"

using namespace raw_port_test;

namespace {

constexpr uint16_t kRoce = 4791, kSrd = 4795;

// On a veth a frame that leaves from a queue comes to the queue of the same number, as a program in
// the driver sees it; behind the driver all seem to have come to the first.
struct TwoQueues {
  Namespace own;
  bool there =
      own && std::system(
                 "ip link add w0 numrxqueues 2 numtxqueues 2 type veth peer name w1 "
                 "numrxqueues 2 numtxqueues 2 && ip link set w0 up && ip link set w1 up") == 0;
};

Result<std::unique_ptr<Port>> open_on(const char* interface, const char* queue,
                                      const std::string& address, uint16_t udp_port,
                                      const Keys& more = {}) {
  Keys keys = {{"address", address}, {"queue", queue}};
  keys.insert(keys.end(), more.begin(), more.end());
  return port::open_af_xdp_port({.where = interface, .options = keys, .udp_port = udp_port});
}

// Sends frames until as many have come, all as they were sent.
void check_that_data_moves(Port& from, Port& to, uint16_t udp_port, uint32_t count = 50) {
  Path path = path_between(from, to);
  path.destination_port = udp_port;
  uint32_t wrong = 0, come = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Bytes bytes = frame_bytes(i, 64 + i);
    const TxFrame frame[1] = {whole_frame(path, bytes)};
    REQUIRE(from.transmit(frame) == 1);
    std::vector<Got> got;
    for (int turns = 0; turns < 200'000 && got.empty(); ++turns) {
      Frame some[4];
      const size_t n = to.receive(some);
      for (size_t k = 0; k < n; ++k)
        got.push_back({Bytes(some[k].bytes, some[k].bytes + some[k].length), *some[k].path});
      to.release({some, n});
      turn(from, 1);  // the first waits for the neighbour's answer
    }
    come += got.size() == 1;
    for (const Got& one : got) wrong += one.bytes != bytes || one.path.destination_port != udp_port;
  }
  CHECK(come == count);
  CHECK(wrong == 0);
}

}  // namespace

#define WEFT_NEEDS_QUEUES(name) \
  const TwoQueues veth;         \
  if (!veth.there) WEFT_SKIP(name, "a network namespace needs root")

TEST_CASE("af_xdp: roce and srd on one interface get their own frames") {
  WEFT_NEEDS_QUEUES("af_xdp: roce and srd on one interface get their own frames");
  const auto [near, far] =
      GENERATE(std::pair("10.79.0.1", "10.79.0.2"), std::pair("fd00::1", "fd00::2"));
  auto roce = need(open_on("w0", "0", "10.79.0.1", kRoce));
  auto srd = need(open_on("w0", "1", near, kSrd));
  const auto far_roce = need(open_on("w1", "0", "10.79.0.2", kRoce));
  const auto far_srd = need(open_on("w1", "1", far, kSrd));
  for (int round = 0; round < 2; ++round) {
    check_that_data_moves(*roce, *far_roce, kRoce);
    check_that_data_moves(*far_srd, *srd, kSrd);
    check_that_data_moves(*srd, *far_srd, kSrd);
    check_that_data_moves(*far_roce, *roce, kRoce);
  }
  for (Port* const port : {roce.get(), srd.get(), far_roce.get(), far_srd.get()}) {
    CHECK(counter(*port, "af_xdp_rx_foreign") == 0);
    CHECK(counter(*port, "af_xdp_rx_malformed") == 0);
  }
  roce.reset();  // which attached the program
  CHECK(has_program("w0"));
  check_that_data_moves(*far_srd, *srd, kSrd);
  srd.reset();
  CHECK(loses_its_program("w0"));
}

TEST_CASE("af_xdp: of two processes on one interface one is killed, the other continues") {
  WEFT_NEEDS_QUEUES("af_xdp: of two processes on one interface one is killed, the other continues");
  const bool first = GENERATE(true, false);  // the one that attached the program
  const auto far = need(open_on("w1", "1", "10.79.0.2", kSrd));
  std::unique_ptr<Port> srd;
  if (!first) srd = need(open_on("w0", "1", "10.79.0.1", kSrd));
  Child child([] { return open_on("w0", "0", "10.79.0.1", kRoce); });
  if (first) srd = need(open_on("w0", "1", "10.79.0.1", kSrd));
  check_that_data_moves(*far, *srd, kSrd);
  child.kill();
  check_that_data_moves(*far, *srd, kSrd);
  check_that_data_moves(*srd, *far, kSrd);
  CHECK(has_program("w0"));
  {
    // Its place is free for another, whose address is another too.
    const auto next = need(open_on("w0", "0", "10.79.0.5", kRoce));
    const auto far_next = need(open_on("w1", "0", "10.79.0.6", kRoce));
    check_that_data_moves(*far_next, *next, kRoce);
    check_that_data_moves(*far, *srd, kSrd);
  }
  Child last([] { return open_on("w0", "0", "10.79.0.1", kRoce); });
  srd.reset();
  CHECK(has_program("w0"));
  last.kill();
  CHECK(loses_its_program("w0"));
}

TEST_CASE("af_xdp: says why a device cannot share an interface") {
  WEFT_NEEDS_QUEUES("af_xdp: says why a device cannot share an interface");
  {
    const auto first = need(open_on("w0", "0", "10.79.0.1", kRoce, {{"mode", "generic"}}));
    const auto same_queue = open_on("w0", "0", "10.79.0.1", kSrd);
    REQUIRE_FALSE(same_queue.ok());
    CHECK(same_queue.error().code == Code::address_in_use);
    CHECK(same_queue.error().message.find("af_xdp.queue=N") != std::string::npos);
    const auto other_mode = open_on("w0", "1", "10.79.0.1", kSrd, {{"mode", "native"}});
    REQUIRE_FALSE(other_mode.ok());
    CHECK(other_mode.error().code == Code::invalid_argument);
    const auto any_mode = need(open_on("w0", "1", "10.79.0.1", kSrd));
    CHECK(counter(*any_mode, "af_xdp_generic") == 1);  // as the first has it
  }
  // mov r0, XDP_PASS; exit
  const bpf_insn code[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  const int program = bpf_prog_load(BPF_PROG_TYPE_XDP, "another", "BSD", code, 2, nullptr);
  REQUIRE(program >= 0);
  const int link =
      bpf_link_create(program, static_cast<int>(if_nametoindex("w0")), BPF_XDP, nullptr);
  REQUIRE(link >= 0);
  const auto beside = open_on("w0", "0", "10.79.0.1", kRoce);
  REQUIRE_FALSE(beside.ok());
  CHECK(beside.error().code == Code::address_in_use);
  CHECK(beside.error().message.find("not ours") != std::string::npos);
  ::close(link);
  ::close(program);
  (void)need(open_on("w0", "0", "10.79.0.1", kRoce));
}
