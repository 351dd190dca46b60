// SPDX-License-Identifier: BSD-3-Clause
// A device with objects on each of several engines, and control over the socket that the kernel
// delivers packets to.
#pragma once

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/conformance/fixture.hpp"

namespace weft::test {

inline constexpr const char* kTwo = "roce+udp:lo,engines=2";

// A device with a completion queue and a queue pair on each engine, and memory for all.
struct EngineNode {
  explicit EngineNode(const std::string& spec, QpType type = QpType::rc)
      : device(*Device::open(spec)),
        pd(*device.protection_domain()),
        memory(pd, 4096, Access::all) {
    for (uint32_t i = 0; i < device.attributes().engines; ++i) {
      cqs.push_back(*device.completion_queue({.engine = i}));
      qps.push_back(*pd.queue_pair({.type = type, .send_cq = cqs[i], .recv_cq = cqs[i]}));
    }
  }
  // WRITEs 8 bytes with a queue pair to `offset` of `to`; what became of it.
  Status write(size_t engine, const EngineNode& to, size_t offset) const {
    return write(engine, to.memory.address(offset), to.memory.region.rkey());
  }
  Status write(size_t engine, uint64_t address, RKey rkey) const {
    const Sge local = memory.sge(0, 8);
    REQUIRE(qps[engine].post_send(
        {.opcode = Opcode::write, .sges = {&local, 1}, .remote_address = address, .rkey = rkey}));
    Completion c;
    REQUIRE(cqs[engine].wait({&c, 1}, Duration::from_s(20)) == 1);
    return c.status;
  }
  uint64_t counter(std::string_view wanted) const {
    for (const Counter& counter : device.counters())
      if (counter.name == wanted) return counter.value;
    FAIL("no counter " << wanted);
    return 0;
  }

  Device device;
  ProtectionDomain pd;
  Buffer memory;
  std::vector<CompletionQueue> cqs;
  std::vector<QueuePair> qps;
};

// Joins the two sockets of a device as the third, and has the kernel bring each packet where `code`
// says (0, 1, 2). Closed, the program stays, and the order of the other two.
inline int steer(const Device& device, std::vector<sock_filter> code) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(4791);
  std::memcpy(&at.sin_addr, device.attributes().gid.bytes.data() + 12, 4);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  const sock_fprog program = {static_cast<uint16_t>(code.size()), code.data()};
  REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0);
  return fd;
}

inline constexpr uint32_t kTopByteOfQpn = 5;  // of a packet: 1 or 2, and 0 in that of queue pair 1

}  // namespace weft::test
