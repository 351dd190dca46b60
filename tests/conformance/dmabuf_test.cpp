// SPDX-License-Identifier: BSD-3-Clause
// dma-bufs: registered by descriptor, written and read by a peer. The buffer is a real dma-buf
// where this machine has /dev/udmabuf (which makes them of a memfd), else the memfd itself: `roce`
// and `srd` take whatever can be mapped. A device that has none says so.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/conformance/srd_nodes.hpp"

namespace weft::test {
namespace {

constexpr size_t kPages = 16, kPage = 4096, kDmaBufSize = kPages * kPage;

// Memory without an address, a look at it, and the descriptor that is registered.
struct SharedBuffer {
  int memory = memfd_create("weft-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int buffer = -1;
  std::byte* seen = nullptr;

  SharedBuffer() {
    REQUIRE(ftruncate(memory, kDmaBufSize) == 0);
    REQUIRE(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    seen = static_cast<std::byte*>(
        mmap(nullptr, kDmaBufSize, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
    REQUIRE(seen != MAP_FAILED);
    const int maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    udmabuf_create wanted{};
    wanted.memfd = static_cast<uint32_t>(memory);
    wanted.flags = UDMABUF_FLAGS_CLOEXEC;
    wanted.size = kDmaBufSize;
    if (maker >= 0) buffer = ioctl(maker, UDMABUF_CREATE, &wanted);
    if (maker >= 0) close(maker);
    std::printf("dma-buf: %s\n", buffer >= 0 ? "of /dev/udmabuf" : "a memfd in its place");
    if (buffer < 0) buffer = dup(memory);
  }
  SharedBuffer(const SharedBuffer&) = delete;
  ~SharedBuffer() {
    munmap(seen, kDmaBufSize);
    close(memory);
    close(buffer);
  }
};

bool is_refused(const ProtectionDomain& pd) {
  if (pd.device().attributes().has_dmabuf) return false;
  const SharedBuffer shared;
  const Error error = pd.register_dmabuf(shared.buffer, 0, kDmaBufSize, Access::all).error();
  CHECK(error.code == Code::not_supported);
  CHECK(error.message.find("DeviceAttributes::has_dmabuf") != std::string::npos);
  return true;
}

// A WRITE into the buffer, and a READ of another part of it.
void there_and_back(Pair& p) {
  SharedBuffer shared;
  Result<MemoryRegion> made =
      p.b.pd.register_dmabuf(shared.buffer, kPage, kDmaBufSize - kPage, Access::all);
  if (!made) FAIL(made.error().message);
  close(shared.buffer);
  shared.buffer = -1;
  const MemoryRegion region = *made;
  const Buffer memory(p.a, 2 * kPage);
  fill(memory.bytes(0, kPage), 11);
  fill({shared.seen + 5 * kPage, kPage}, 12);
  const Sge out = memory.sge(0, kPage), in = memory.sge(kPage, kPage);
  const auto base = reinterpret_cast<uint64_t>(region.address());
  REQUIRE(p.qa.post_send({.id = 1,
                          .opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = base + kPage,
                          .rkey = region.rkey()}));
  REQUIRE(p.qa.post_send({.id = 2,
                          .opcode = Opcode::read,
                          .sges = {&in, 1},
                          .remote_address = base + 4 * kPage,
                          .rkey = region.rkey()}));
  for (const Completion& c : p.wait(p.a, 2)) CHECK(c.status == Status::success);
  CHECK(equal({shared.seen + 2 * kPage, kPage}, memory.bytes(0, kPage)));
  CHECK(equal({shared.seen + 5 * kPage, kPage}, memory.bytes(kPage, kPage)));
}

void written_and_read(Wire wire) {
  Pair p(wire);
  if (!is_refused(p.b.pd)) there_and_back(p);
}
WEFT_ON_SHARED_PORTS(written_and_read, "a peer writes and reads a dma-buf, or there are none")

// Under an address that has nothing to do with where it is mapped, from a byte inside of a page on.
void at_an_address(Wire wire) {
  Pair p(wire);
  if (is_refused(p.b.pd)) return;
  const SharedBuffer shared;
  constexpr uint64_t kAt = 0x7700'0000'0064;
  const Result<MemoryRegion> region = p.b.pd.register_dmabuf(
      shared.buffer, kPage + 100, kPage, Access::all, reinterpret_cast<void*>(kAt));
  if (!region) FAIL(region.error().message);
  CHECK(region->iova() == kAt);
  const Buffer memory(p.a, 256);
  fill(memory.bytes(), 14);
  const Sge out = memory.sge(0, 256);
  REQUIRE(p.qa.post_send({.id = 1,
                          .opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = kAt + 28,
                          .rkey = region->rkey()}));
  CHECK(p.next(p.a).status == Status::success);
  CHECK(equal({shared.seen + kPage + 128, 256}, memory.bytes()));
}
WEFT_ON_WIRES(at_an_address, "a peer names a dma-buf by the address it was registered at",
              our_ports)
WEFT_ON_SRD_PORTS(at_an_address, "a peer names a dma-buf by the address it was registered at")

// As the source and the destination of our own requests, by an entry of the region.
void own_memory(Wire wire) {
  Two two(wire);
  const SharedBuffer shared;
  const MemoryRegion region =
      *two.a.side.pd.register_dmabuf(shared.buffer, 0, kDmaBufSize, Access::local_write);
  fill({shared.seen, kPage}, 13);
  const Sge out = region.sge(0, kPage);
  CHECK(two.finish(two.request(Opcode::write, 1, {&out, 1}, 0)).status == Status::success);
  CHECK(equal({shared.seen, kPage}, two.b.memory.bytes(0, kPage)));
  const Sge in = region.sge(kPage, kPage);
  CHECK(two.finish(two.request(Opcode::read, 2, {&in, 1}, 0)).status == Status::success);
  CHECK(equal({shared.seen + kPage, kPage}, two.b.memory.bytes(0, kPage)));
}
WEFT_ON_SHARED_SRD(own_memory, "requests name a dma-buf by its region")

// The mapping goes with the region, not before, and the descriptor need not stay.
TEST_CASE("a mapping of a dma-buf ends with its region") {
  const auto mappings = [] {
    size_t count = 0;
    char line[512];
    std::FILE* const maps = std::fopen("/proc/self/maps", "r");
    while (std::fgets(line, sizeof line, maps) != nullptr)
      count +=
          std::strstr(line, "weft-dmabuf") != nullptr || std::strstr(line, "dmabuf:") != nullptr;
    std::fclose(maps);
    return count;
  };
  const Side side(device_string(Wire::udp));
  const SharedBuffer shared;
  const size_t before = mappings();
  {
    const MemoryRegion region =
        *side.pd.register_dmabuf(shared.buffer, 0, kDmaBufSize, Access::all);
    const MemoryRegion copy = region;
    CHECK(mappings() > before);
    CHECK(region.size() == kDmaBufSize);
  }
  CHECK(mappings() == before);
}

TEST_CASE("the position of a file is left where it was") {
  const Side side(device_string(Wire::udp));
  const SharedBuffer shared;
  REQUIRE(lseek(shared.memory, 7, SEEK_SET) == 7);
  REQUIRE(side.pd.register_dmabuf(shared.memory, 0, kDmaBufSize, Access::all));
  CHECK(lseek(shared.memory, 0, SEEK_CUR) == 7);
}

TEST_CASE("what is no dma-buf, or not in it, is refused with the reason") {
  const Side side(device_string(Wire::udp));
  const SharedBuffer shared;
  const auto refusal = [&](int fd, uint64_t offset, size_t size, void* at = nullptr) {
    const Result<MemoryRegion> made =
        side.pd.register_dmabuf(fd, offset, size, Access::local_write, at);
    REQUIRE_FALSE(made);
    return made.error();
  };
  CHECK(refusal(-1, 0, kDmaBufSize).message.find("no open descriptor") != std::string::npos);
  CHECK(refusal(shared.buffer, kPage, kDmaBufSize)
            .message.find("are not in a buffer of 65536 bytes") != std::string::npos);
  CHECK(refusal(shared.buffer, UINT64_MAX, 1).code == Code::invalid_argument);
  CHECK(refusal(shared.buffer, 0, 0).code == Code::invalid_argument);
  CHECK(refusal(shared.buffer, 1, 10, reinterpret_cast<void*>(UINTPTR_MAX - 2)).code ==
        Code::invalid_argument);
  CHECK(side.pd.register_dmabuf(shared.buffer, 0, kPage, Access::on_demand).error().code ==
        Code::invalid_argument);
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  CHECK(refusal(pipes[0], 0, kDmaBufSize).code == Code::invalid_argument);
  close(pipes[0]);
  close(pipes[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(shared.memory);
  const int reading = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(refusal(reading, 0, kDmaBufSize).code == Code::permission_denied);
  CHECK(side.pd.register_dmabuf(reading, 0, kDmaBufSize, Access::none));
  close(reading);
}

}  // namespace
}  // namespace weft::test
