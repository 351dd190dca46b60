// SPDX-License-Identifier: BSD-3-Clause
// Regions that are not simply memory under its own address: under another one, zero-based, null, on
// demand, and regions that change while they are registered.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/conformance/steps.hpp"
#include "tests/support/pages.hpp"

namespace weft::regions_test {
namespace {

using namespace test;

constexpr uint64_t kElsewhere = 0x5A00'0000'0000;  // no memory of a process
constexpr size_t kSize = 4 * 4096;

SendRequest to(Opcode opcode, const Sge& local, uint64_t address, RKey key) {
  return {.id = 1,
          .opcode = opcode,
          .sges = {&local, 1},
          .remote_address = address,
          .rkey = key,
          .compare_add = 5};
}

// A refused access ends a connection of RC, so each takes a pair of its own.
Status outcome(Pair& p, const SendRequest& request) {
  REQUIRE(p.qa.post_send(request));
  return p.next(p.a).status;
}

bool is_refusal(Wire wire, Status status) {
  if (is_srd(wire) && status == Status::remote_operation_error) return true;
  return status == Status::remote_access_error;
}

// Memory of the far side, registered under `iova` (or as `how` says).
struct Far {
  explicit Far(const Side& side) : pages(kSize / kPage), side(side) {}
  void enter(uint64_t iova, Access access = Access::all) {
    Result<MemoryRegion> made = side.pd.register_memory_iova(pages.at, kSize, iova, access);
    if (!made) FAIL(made.error().message);
    region = *made;
  }
  std::span<std::byte> bytes(size_t offset, size_t length) const {
    return {pages.at + offset, length};
  }
  Pages pages;
  const Side& side;
  MemoryRegion region;
};

void under_another_address(Wire wire) {
  for (const uint64_t iova : {kElsewhere, uint64_t{0}, uint64_t{0} - kSize}) {
    Pair p(wire);
    if (!p.b.device.attributes().has_iova) return;
    Far far(p.b);
    far.enter(iova);
    CHECK(far.region.iova() == iova);
    CHECK(far.region.address() == far.pages.at);
    const Buffer near(p.a, kSize);
    fill(near.bytes(), 1);
    const Sge out = near.sge(0, 5000), in = near.sge(8192, 5000), word = near.sge(0, 8);
    const RKey key = far.region.rkey();
    CHECK(outcome(p, to(Opcode::write, out, iova + 3, key)) == Status::success);
    CHECK(equal(far.bytes(3, 5000), near.bytes(0, 5000)));
    CHECK(outcome(p, to(Opcode::read, in, iova + 3, key)) == Status::success);
    CHECK(equal(near.bytes(8192, 5000), far.bytes(3, 5000)));
    if (p.a.device.attributes().has_atomics) {
      uint64_t before = 0, after = 0;
      std::memcpy(&before, far.pages.at + 16, 8);
      CHECK(outcome(p, to(Opcode::fetch_add, word, iova + 16, key)) == Status::success);
      std::memcpy(&after, far.pages.at + 16, 8);
      CHECK(after == before + 5);
    }
    const Sge last = near.sge(0, 1);
    CHECK(outcome(p, to(Opcode::write, last, iova + kSize - 1, key)) == Status::success);
  }
}
WEFT_ON_EACH_PORT_AND_SRD(under_another_address, "a peer names a region by its iova")

void bounds_of_iova(Wire wire) {
  for (int which = 0; which < 3; ++which) {
    Pair p(wire);
    if (!p.b.device.attributes().has_iova) return;
    Far far(p.b);
    far.enter(kElsewhere);
    const uint64_t wrong[] = {kElsewhere - 1, kElsewhere + kSize - 7,
                              reinterpret_cast<uintptr_t>(far.pages.at)};
    const Buffer near(p.a, 8);
    const Sge out = near.sge(0, 8);
    INFO("address " << wrong[which]);
    CHECK(is_refusal(wire, outcome(p, to(Opcode::write, out, wrong[which], far.region.rkey()))));
  }
}
WEFT_ON_EACH_PORT_AND_SRD(bounds_of_iova, "outside of its iova a region is not accessible")

// The region is the source and the destination of our own requests.
void entries_of_iova(Wire wire) {
  Pair p(wire);
  if (!p.a.device.attributes().has_iova) return;
  Far own(p.a);
  own.enter(kElsewhere);
  const Buffer far(p.b, kSize);
  fill(own.bytes(0, kSize), 3);
  const Sge out = own.region.sge(100, 3000), in = own.region.sge(8000, 3000);
  CHECK(reinterpret_cast<uint64_t>(out.address) == kElsewhere + 100);
  CHECK(outcome(p, to(Opcode::write, out, far.address(), far.region.rkey())) == Status::success);
  CHECK(equal(far.bytes(0, 3000), own.bytes(100, 3000)));
  CHECK(outcome(p, to(Opcode::read, in, far.address(), far.region.rkey())) == Status::success);
  CHECK(equal(own.bytes(8000, 3000), far.bytes(0, 3000)));
}
WEFT_ON_EACH_PORT_AND_SRD(entries_of_iova, "entries name a region by its iova")

void zero_based(Wire wire) {
  Pair p(wire);
  if (!p.b.device.attributes().has_iova) return;
  const Buffer near(p.a, kSize);
  Pages pages(4);
  const Result<MemoryRegion> region =
      p.b.pd.register_memory(pages.at, pages.size, Access::all | Access::zero_based);
  if (!region) FAIL(region.error().message);
  CHECK(region->iova() == 0);
  fill(near.bytes(), 4);
  const Sge out = near.sge(0, 64);
  CHECK(outcome(p, to(Opcode::write, out, 40, region->rkey())) == Status::success);
  CHECK(equal({pages.at + 40, 64}, near.bytes(0, 64)));
  const Result<MemoryRegion> both =
      p.b.pd.register_memory_iova(pages.at, pages.size, 8, Access::all | Access::zero_based);
  CHECK(both.error().code == Code::invalid_argument);
  CHECK(p.b.pd.register_memory_iova(pages.at, 16, UINT64_MAX - 14, Access::all).error().code ==
        Code::invalid_argument);
}
WEFT_ON_EACH_PORT_AND_SRD(zero_based, "addresses of a zero-based region begin at 0")

// A window on a region with an iova has addresses of that kind, too.
void window_on_iova(Wire wire) {
  Pair p(wire);
  Far far(p.b);
  far.enter(kElsewhere, Access::all | Access::window_bind);
  const MemoryWindow window = *p.b.pd.memory_window(WindowType::one, p.b.engine);
  const WindowBind bind{&window, &far.region, reinterpret_cast<void*>(kElsewhere + 64), 64,
                        Access::remote_write};
  REQUIRE(p.qb.post_send({.id = 9, .opcode = Opcode::bind_window, .bind = &bind}));
  REQUIRE(p.next(p.b).status == Status::success);
  const Buffer near(p.a, 64);
  fill(near.bytes(), 5);
  const Sge out = near.sge(0, 32);
  CHECK(outcome(p, to(Opcode::write, out, kElsewhere + 96, window.rkey())) == Status::success);
  CHECK(equal(far.bytes(96, 32), near.bytes(0, 32)));
  Result<void> changed = far.region.reregister({.access = Access::none});
  CHECK(changed.error().code == Code::busy);
  CHECK(is_refusal(wire, outcome(p, to(Opcode::write, out, kElsewhere + 97, window.rkey()))));
}
WEFT_ON_OUR_PORTS(window_on_iova, "a window is bound by the iova of its region (C-OPS-88)")

void null_region(Wire wire) {
  Pair p(wire);
  const Result<MemoryRegion> null = p.a.pd.null_region();
  if (!p.a.device.attributes().has_null_region) {
    CHECK(null.error().code == Code::not_supported);
    return;
  }
  if (!null) FAIL(null.error().message);
  CHECK(null->rkey() == RKey{});
  const Buffer near(p.a, kSize), far(p.b, kSize);
  fill(far.bytes(), 6);
  fill(near.bytes(), 7);
  // In the middle of two entries of memory: 100 bytes there, 3,000 nowhere, 100 there.
  const Sge entries[] = {near.sge(0, 100), null->sge(0x7777, 3000), near.sge(100, 100)};
  SendRequest request = to(Opcode::read, entries[0], far.address(), far.region.rkey());
  request.sges = entries;
  CHECK(outcome(p, request) == Status::success);
  CHECK(equal(near.bytes(0, 100), far.bytes(0, 100)));
  CHECK(equal(near.bytes(100, 100), far.bytes(3100, 100)));
  request.opcode = Opcode::write;
  request.remote_address = far.address(8192);
  CHECK(outcome(p, request) == Status::success);  // what was read into it is not in it
  const auto zeros = far.bytes(8192 + 100, 3000);
  CHECK(std::all_of(zeros.begin(), zeros.end(), [](std::byte b) { return b == std::byte{}; }));
  CHECK(equal(far.bytes(8192 + 3100, 100), near.bytes(100, 100)));
}
WEFT_ON_EACH_PORT_AND_SRD(null_region, "a null region reads as zero and takes what is written")

void null_receive(Wire wire) {
  Pair p(wire);
  if (!p.b.device.attributes().has_null_region) return;
  const MemoryRegion null = *p.b.pd.null_region();
  const Buffer near(p.a, kSize), far(p.b, 64);
  fill(near.bytes(), 8);
  const Sge in[] = {far.sge(0, 32), null.sge(0, 5000), far.sge(32, 32)};
  REQUIRE(p.qb.post_recv({.id = 2, .sges = in}));
  const Sge out = near.sge(0, 5064);
  CHECK(outcome(p, to(Opcode::send, out, 0, {})) == Status::success);
  CHECK(p.next(p.b).byte_count == 5064);
  CHECK(equal(far.bytes(0, 32), near.bytes(0, 32)));
  CHECK(equal(far.bytes(32, 32), near.bytes(5032, 32)));
}
WEFT_ON_EACH_PORT_AND_SRD(null_receive, "a receive leaves out what a null region takes")

// Its key is valid for no peer, not even if one knows the lkey.
void null_is_local(Wire wire) {
  Pair p(wire);
  const MemoryRegion null = *p.b.pd.null_region();
  const Buffer near(p.a, 8);
  const Sge out = near.sge(0, 8);
  CHECK(is_refusal(wire, outcome(p, to(Opcode::write, out, 0, RKey{null.lkey().value}))));
}
WEFT_ON_OUR_PORTS(null_is_local, "a null region is for local entries only")
WEFT_ON_SRD_PORTS(null_is_local, "a null region is for local entries only")

void moves(Wire wire) {
  Pair p(wire);
  Far first(p.b);
  const Pages second(kSize / kPage);
  first.enter(kElsewhere);
  const RKey key = first.region.rkey();
  const Buffer near(p.a, kSize);
  const Sge out = near.sge(0, kSize);
  fill(near.bytes(), 1);
  CHECK(outcome(p, to(Opcode::write, out, kElsewhere, key)) == Status::success);
  MemoryRegion copy = first.region;
  const Result<void> moved = first.region.reregister(
      {.translation = Reregistration::Translation{second.at, second.size, kElsewhere + 4096}});
  if (!moved) FAIL(moved.error().message);
  CHECK(first.region.rkey() == key);
  CHECK(copy.address() == second.at);
  CHECK(copy.iova() == kElsewhere + 4096);
  fill(near.bytes(), 2);
  CHECK(outcome(p, to(Opcode::write, out, kElsewhere + 4096, key)) == Status::success);
  CHECK(equal({second.at, kSize}, near.bytes()));
  fill(near.bytes(), 1);
  CHECK(equal(first.bytes(0, kSize), near.bytes()));  // untouched by the second
  CHECK(is_refusal(wire, outcome(p, to(Opcode::write, out, kElsewhere, key))));
}
WEFT_ON_OUR_PORTS(moves, "reregister() moves a region to other memory under the same keys")
WEFT_ON_SRD_PORTS(moves, "reregister() moves a region to other memory under the same keys")

void other_rights(Wire wire) {
  Pair p(wire);
  Buffer far(p.b, 64);
  const Buffer near(p.a, 64);
  const Sge out = near.sge(0, 8);
  const SendRequest read = to(Opcode::read, out, far.address(), far.region.rkey());
  const SendRequest write = to(Opcode::write, out, far.address(), far.region.rkey());
  REQUIRE(far.region.reregister({.access = Access::remote_read}));
  CHECK(outcome(p, read) == Status::success);
  CHECK(far.region.reregister({.access = Access::remote_write}).error().code ==
        Code::invalid_argument);
  CHECK(outcome(p, read) == Status::success);  // as before
  CHECK(is_refusal(wire, outcome(p, write)));
}
WEFT_ON_OUR_PORTS(other_rights, "reregister() changes the rights of a region")
WEFT_ON_SRD_PORTS(other_rights, "reregister() changes the rights of a region")

void other_domain(Wire wire) {
  Pair p(wire);
  Buffer far(p.b, 64);
  const Buffer near(p.a, 64);
  const Sge out = near.sge(0, 8);
  const SendRequest write = to(Opcode::write, out, far.address(), far.region.rkey());
  const ProtectionDomain second = *p.b.device.protection_domain();
  CHECK(far.region.reregister({.domain = &p.a.pd}).error().code == Code::invalid_argument);
  CHECK(outcome(p, write) == Status::success);
  REQUIRE(far.region.reregister({.domain = &second}));
  REQUIRE(far.region.reregister({.domain = &p.b.pd}));
  CHECK(outcome(p, write) == Status::success);
  REQUIRE(far.region.reregister({.domain = &second}));
  CHECK(is_refusal(wire, outcome(p, write)));
}
WEFT_ON_OUR_PORTS(other_domain, "reregister() changes the domain of a region")
WEFT_ON_SRD_PORTS(other_domain, "reregister() changes the domain of a region")

TEST_CASE("a region that cannot change as asked stays as it was") {
  const Side side(device_string(Wire::udp));
  Buffer memory(side, 64);
  Pages pages(2);
  pages.unmap(1);
  const Reregistration beyond{.translation = Reregistration::Translation{pages.at, pages.size, 0}};
  CHECK(memory.region.reregister(beyond).error().code == Code::permission_denied);
  CHECK(memory.region
            .reregister({.translation = Reregistration::Translation{pages.at, 2, UINT64_MAX}})
            .error()
            .code == Code::invalid_argument);
  CHECK(memory.region.address() == memory.at());
  MemoryRegion null = *side.pd.null_region();
  CHECK(null.reregister({.access = Access::none}).error().code == Code::not_supported);
}

// Pages that come and go.
void on_demand(Wire wire) {
  const Access access = Access::all | Access::on_demand;
  for (const Opcode opcode : {Opcode::write, Opcode::read}) {
    Pair p(wire, {.walk = {.timeout = 12}});
    Pages pages(2);
    REQUIRE(mprotect(pages.at, pages.size, PROT_NONE) == 0);
    const Result<MemoryRegion> region = p.b.pd.register_memory(pages.at, pages.size, access);
    if (!region) FAIL(region.error().message);
    const Buffer near(p.a, 64);
    const Sge local = near.sge(0, 64);
    REQUIRE(mprotect(pages.at, pages.size, PROT_READ | PROT_WRITE) == 0);
    const uint64_t at = reinterpret_cast<uintptr_t>(pages.at) + kPage - 32;
    CHECK(outcome(p, to(opcode, local, at, region->rkey())) == Status::success);
    pages.protect(1, PROT_NONE);
    CHECK(is_refusal(wire, outcome(p, to(opcode, local, at, region->rkey()))));
  }
}
WEFT_ON_OUR_PORTS(on_demand, "memory of a region on demand is looked at when it is accessed")
WEFT_ON_SRD_PORTS(on_demand, "memory of a region on demand is looked at when it is accessed")

// Local and remote, in any memory of the process, without a crash where there is none.
void whole_address_space(Wire wire) {
  const Access access = Access::all | Access::on_demand;
  Pair p(wire, {.walk = {.timeout = 12}});
  const Result<MemoryRegion> far = p.b.pd.register_memory(nullptr, SIZE_MAX, access);
  const Result<MemoryRegion> near = p.a.pd.register_memory(nullptr, SIZE_MAX, access);
  if (!far) FAIL(far.error().message);
  if (!near) FAIL(near.error().message);
  std::vector<std::byte> source(20'000), target(20'000);
  fill(source, 9);
  const Sge out{source.data(), 20'000, near->lkey()};
  const auto there = reinterpret_cast<uintptr_t>(target.data());
  CHECK(outcome(p, to(Opcode::write, out, there, far->rkey())) == Status::success);
  CHECK(equal(source, target));
}
WEFT_ON_OUR_PORTS(whole_address_space, "the whole address space can be one region")
WEFT_ON_SRD_PORTS(whole_address_space, "the whole address space can be one region")

// Where there is no page, or where none can be.
void no_page(Wire wire) {
  const Access access = Access::all | Access::on_demand;
  for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::fetch_add})
    for (const uint64_t address : {uint64_t{0}, uint64_t{1} << 47, UINT64_MAX - 4095}) {
      Pair p(wire, {.walk = {.timeout = 12}});
      const MemoryRegion far = *p.b.pd.register_memory(nullptr, SIZE_MAX, access);
      const Buffer near(p.a, 8);
      const Sge local = near.sge(0, 8);
      const Status status = outcome(p, to(opcode, local, address, far.rkey()));
      INFO("opcode " << int(opcode) << " address " << address << ": " << name(status));
      CHECK(is_refusal(wire, status));
    }
}
WEFT_ON_OUR_PORTS(no_page, "an access without a page in the whole address space is an error")
WEFT_ON_SRD_PORTS(no_page, "an access without a page in the whole address space is an error")

// Short ones are copied into the packet, long ones may be gathered by the kernel or pulled by the
// peer.
void unmapped_source(Wire wire) {
  for (const uint32_t size : {8u, 40'000u})
    for (const uint64_t address : {uint64_t{4096}, uint64_t{1} << 60}) {
      Pair p(wire, {.walk = {.timeout = 12}});
      const MemoryRegion near =
          *p.a.pd.register_memory(nullptr, SIZE_MAX, Access::local_write | Access::on_demand);
      const Buffer far(p.b, 40'000);
      const Sge out{reinterpret_cast<void*>(address), size, near.lkey()};
      const Status status = outcome(p, to(Opcode::write, out, far.address(), far.region.rkey()));
      INFO(size << " bytes at " << address << ": " << name(status));
      CHECK(status == Status::local_protection_error);
    }
}
WEFT_ON_OUR_PORTS(unmapped_source, "a request from unmapped memory fails")

TEST_CASE("what on_demand does not go with is refused") {
  const Side side(device_string(Wire::udp));
  const auto code = [&](void* at, size_t size, Access access) {
    return side.pd.register_memory(at, size, access | Access::on_demand).error().code;
  };
  CHECK(code(nullptr, SIZE_MAX, Access::flush_persistent) == Code::invalid_argument);
  CHECK(code(reinterpret_cast<void*>(8), SIZE_MAX, Access::none) == Code::invalid_argument);
  CHECK(code(nullptr, SIZE_MAX, Access::remote_write) == Code::invalid_argument);
}

}  // namespace
}  // namespace weft::regions_test
