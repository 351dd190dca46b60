// SPDX-License-Identifier: BSD-3-Clause
// Memory windows through the public API: the memory that a window gives access to, the queue pairs
// that may use it, and what unbinds it. b owns the memory and binds, a is the requester.
#include <cstring>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

constexpr uint64_t kBind = 71, kVisit = 72;
constexpr size_t kFrom = 64, kSize = 128;  // the part of the region that windows show
constexpr Access kShared = Access::all | Access::window_bind;
constexpr Access kBoth = Access::remote_write | Access::remote_read;

struct Windows {
  explicit Windows(Wire wire, WindowType type, Access access = kShared)
      : p(wire),
        near(p.a, 256),
        far(p.b, 256, access),
        window(*p.b.pd.memory_window(type, p.b.engine)) {
    fill(near.bytes(), 7);
  }

  WindowBind part(Access access, size_t from = kFrom, size_t size = kSize) const {
    return {&window, &far.region, far.at(from), size, access};
  }
  RKey wanted() const { return window.type() == WindowType::two ? window.next_key() : RKey{}; }
  Status bind(const WindowBind& what) {
    REQUIRE(p.qb.post_send(
        {.id = kBind, .opcode = Opcode::bind_window, .rkey = wanted(), .bind = &what}));
    const Completion c = p.next(p.b);
    CHECK(c.id == kBind);
    if (c.status == Status::success) CHECK(c.type == WorkType::bind_window);
    return c.status;
  }
  void show(Access access = kBoth) { REQUIRE(bind(part(access)) == Status::success); }
  Status visit(Opcode opcode, uint64_t address, uint32_t size, RKey key) {
    const Sge local = near.sge(0, size);
    REQUIRE(p.qa.post_send({.id = kVisit,
                            .opcode = opcode,
                            .sges = {&local, 1},
                            .remote_address = address,
                            .rkey = key}));
    return p.next(p.a).status;
  }
  Status write(size_t offset, uint32_t size) {
    return visit(Opcode::write, far.address(offset), size, window.rkey());
  }

  Pair p;
  Buffer near, far;
  MemoryWindow window;
};

constexpr WindowType kTypes[] = {WindowType::one, WindowType::two};

void shows(Wire wire) {
  for (const WindowType type : kTypes) {
    Windows w(wire, type);
    w.show();
    CHECK(w.window.rkey().value >> 8 == w.window.number());
    CHECK(w.window.rkey().value != w.far.region.rkey().value);
    CHECK(w.write(kFrom, kSize) == Status::success);
    CHECK(equal(w.near.bytes(0, kSize), w.far.bytes(kFrom, kSize)));
    std::memset(w.near.at(), 0, kSize);
    REQUIRE(w.visit(Opcode::read, w.far.address(kFrom + 8), 8, w.window.rkey()) == Status::success);
    CHECK(equal(w.near.bytes(0, 8), w.far.bytes(kFrom + 8, 8)));
    if (is_rxe(w.p.b)) continue;  // it looks at the bounds of the region only
    CHECK(w.write(kFrom + kSize - 7, 8) == Status::remote_access_error);
  }
}
WEFT_ON_EACH_PORT(shows, "a window shows a part of a region under its own key (C-OPS-88)")

void rights(Wire wire) {
  for (const WindowType type : kTypes) {
    for (const bool below : {false, true}) {
      Windows w(wire, type);
      w.show(Access::remote_read);
      if (below && is_rxe(w.p.b)) continue;
      if (below)
        CHECK(w.visit(Opcode::read, w.far.address(kFrom - 1), 1, w.window.rkey()) ==
              Status::remote_access_error);
      else
        CHECK(w.write(kFrom, 1) == Status::remote_access_error);
    }
  }
}
WEFT_ON_SHARED_PORTS(rights, "a window gives its own rights, not the region's (C-OPS-88)")

void before_binding(Wire wire) {
  for (const WindowType type : kTypes) {
    Windows w(wire, type);
    CHECK(w.write(kFrom, 1) == Status::remote_access_error);
  }
}
WEFT_ON_SHARED_PORTS(before_binding, "a window that is not bound shows nothing (C-OPS-88)")

void rebinds(Wire wire) {
  Windows w(wire, WindowType::one);
  w.show();
  const RKey first = w.window.rkey();
  w.show(Access::remote_write);
  CHECK(w.window.rkey().value != first.value);
  CHECK(w.write(kFrom, 8) == Status::success);
  CHECK(w.visit(Opcode::write, w.far.address(kFrom), 8, first) == Status::remote_access_error);
}
WEFT_ON_SHARED_PORTS(rebinds, "a type 1 window bound again has another key (C-OPS-88)")

void unbinds(Wire wire) {
  Windows w(wire, WindowType::one);
  w.show();
  const WindowBind nothing{&w.window, &w.far.region, w.far.at(), 0, Access::none};
  REQUIRE(w.bind(nothing) == Status::success);
  CHECK(w.write(kFrom, 8) == Status::remote_access_error);
}
WEFT_ON_SHARED_PORTS(unbinds, "a type 1 window bound to nothing shows nothing (C-OPS-88)")

// A second pair of queue pairs in the same domains.
void other_queue_pair(Wire wire) {
  for (const WindowType type : kTypes) {
    Windows w(wire, type);
    const QueuePair from = w.p.a.queue_pair(), to = w.p.b.queue_pair();
    connect(from, to);
    w.show();
    const Sge local = w.near.sge(0, 8);
    REQUIRE(from.post_send({.opcode = Opcode::write,
                            .sges = {&local, 1},
                            .remote_address = w.far.address(kFrom),
                            .rkey = w.window.rkey()}));
    CHECK(w.p.next(w.p.a).status ==
          (type == WindowType::one ? Status::success : Status::remote_access_error));
  }
}
WEFT_ON_SHARED_PORTS(other_queue_pair, "type 1 is for a domain, type 2 for a queue pair (C-OPS-88)")

void peer_invalidates(Wire wire) {
  Windows w(wire, WindowType::two);
  for (int round = 0; round < 3; ++round) {
    w.show();
    REQUIRE(w.write(kFrom, 8) == Status::success);
    REQUIRE(w.p.qb.post_recv({.id = 1}));
    REQUIRE(
        w.p.qa.post_send({.opcode = Opcode::send_with_invalidate, .invalidate = w.window.rkey()}));
    const Completion c = w.p.next(w.p.b);
    CHECK(c.status == Status::success);
    if (!is_rxe(w.p.b)) {  // it gives another flag, that of the kernel's own interface
      CHECK(has(c.flags, CompletionFlags::with_invalidate));
      CHECK(c.imm_or_key == w.window.rkey().value);
    }
    REQUIRE(w.p.next(w.p.a).status == Status::success);
  }
  CHECK(w.write(kFrom, 8) == Status::remote_access_error);
}
WEFT_ON_EACH_PORT(peer_invalidates, "a SEND with invalidate ends a type 2 window (C-OPS-73)")

void invalidates(Wire wire) {
  Windows w(wire, WindowType::two);
  w.show();
  REQUIRE(w.p.qb.post_send(
      {.id = 5, .opcode = Opcode::local_invalidate, .invalidate = w.window.rkey()}));
  const Completion c = w.p.next(w.p.b);
  CHECK(c.status == Status::success);
  CHECK(c.type == WorkType::local_invalidate);
  w.show();
  CHECK(w.write(kFrom, 8) == Status::success);
  REQUIRE(w.p.qb.post_send({.opcode = Opcode::local_invalidate, .invalidate = w.window.rkey()}));
  REQUIRE(w.p.next(w.p.b).status == Status::success);
  CHECK(w.write(kFrom, 8) == Status::remote_access_error);
}
WEFT_ON_EACH_PORT(invalidates, "a local invalidate ends a type 2 window (C-OPS-88)")

// Type 1 windows are bound again, never invalidated; a key of another window cannot be used.
void may_not_invalidate(Wire wire) {
  for (const bool wrong_key : {false, true}) {
    Windows w(wire, WindowType::one);
    w.show();
    const RKey key = wrong_key ? RKey{w.window.rkey().value ^ 0x100} : w.window.rkey();
    REQUIRE(w.p.qb.post_send({.opcode = Opcode::local_invalidate, .invalidate = key}));
    CHECK(w.p.next(w.p.b).status == Status::mw_bind_error);
    CHECK(w.p.qb.state() == QpState::err);
  }
}
WEFT_ON_OUR_PORTS(may_not_invalidate, "what may not be invalidated is an error (C-OPS-88)")

void zero_based(Wire wire) {
  Windows w(wire, WindowType::two);
  w.show(kBoth | Access::zero_based);
  CHECK(w.visit(Opcode::write, 16, 8, w.window.rkey()) == Status::success);
  CHECK(equal(w.near.bytes(0, 8), w.far.bytes(kFrom + 16, 8)));
  if (is_rxe(w.p.b)) return;
  CHECK(w.visit(Opcode::write, kSize - 7, 8, w.window.rkey()) == Status::remote_access_error);
}
WEFT_ON_EACH_PORT(zero_based, "addresses of a zero-based window begin at 0 (C-OPS-88)")

void crooked_atomic(Wire wire) {
  Windows w(wire, WindowType::two);
  const WindowBind odd = w.part(Access::remote_atomic | Access::zero_based, kFrom + 4, kSize - 8);
  REQUIRE(w.bind(odd) == Status::success);
  CHECK(w.visit(Opcode::fetch_add, 8, 8, w.window.rkey()) == Status::remote_invalid_request);
}
WEFT_ON_OUR_PORTS(crooked_atomic, "an atomic in a crooked window is refused (C-NAK-38)")

void window_refused(Wire wire, WindowType type, Access region, const WindowBind& change) {
  Windows w(wire, type, region);
  WindowBind bind = w.part(change.access);
  if (change.size != 0) bind.size = change.size;
  CHECK(w.bind(bind) == Status::mw_bind_error);
  CHECK(w.p.qb.state() == QpState::err);
}

void bad_bindings(Wire wire) {
  for (const WindowType type : kTypes) {
    window_refused(wire, type, Access::all, {.access = Access::remote_read});
    window_refused(wire, type, Access::window_bind, {.access = Access::remote_write});
    window_refused(wire, type, kShared, {.size = 256 - kFrom + 1, .access = Access::remote_read});
  }
  Windows twice(wire, WindowType::two);
  twice.show();
  CHECK(twice.bind(twice.part(kBoth)) == Status::mw_bind_error);
}
WEFT_ON_SHARED_PORTS(bad_bindings,
                     "an invalid binding completes with an error, in order (C-OPS-88)")

void window_other_domain(Wire wire) {
  for (const WindowType type : kTypes) {
    Windows w(wire, type);
    const Result<ProtectionDomain> domain = w.p.b.device.protection_domain();
    const Buffer foreign(*domain, 256, kShared);
    CHECK(w.bind({&w.window, &foreign.region, foreign.at(), 8, kBoth}) == Status::mw_bind_error);
  }
  for (const WindowType type : kTypes) {
    Windows w(wire, type);
    const Result<ProtectionDomain> domain = w.p.b.device.protection_domain();
    const Result<MemoryWindow> window = domain->memory_window(type, w.p.b.engine);
    REQUIRE(window);
    const WindowBind bind{&*window, &w.far.region, w.far.at(), 8, kBoth};
    REQUIRE(w.p.qb.post_send(
        {.opcode = Opcode::bind_window, .rkey = window->next_key(), .bind = &bind}));
    CHECK(w.p.next(w.p.b).status == Status::mw_bind_error);
  }
}
WEFT_ON_OUR_PORTS(window_other_domain,
                  "window, region and queue pair are of one domain (threat:A05)")

void region_goes(Wire wire) {
  for (const WindowType type : kTypes) {
    Windows w(wire, type);
    w.show();
    REQUIRE(w.write(kFrom, 8) == Status::success);
    const RKey key = w.window.rkey();
    w.far.region = MemoryRegion();
    CHECK(w.visit(Opcode::write, w.far.address(kFrom), 8, key) == Status::remote_access_error);
  }
}
WEFT_ON_SHARED_PORTS(region_goes, "a window on a region that goes shows nothing (C-OPS-88)")

void window_goes(Wire wire) {
  Windows w(wire, WindowType::one);
  w.show();
  const RKey key = w.window.rkey();
  w.window = MemoryWindow();
  CHECK(w.visit(Opcode::write, w.far.address(kFrom), 8, key) == Status::remote_access_error);
}
WEFT_ON_SHARED_PORTS(window_goes, "a window that is freed shows nothing (C-OPS-88)")

// Bindings among WRITEs of the binder: all complete in the order of posting, each is done once
// (twice would fail), whatever is lost and sent again; the last binding stands.
void in_order(Wire wire) {
  Windows w(wire, WindowType::two);
  const Buffer from(w.p.b, 8192), to(w.p.a, 8192);
  const Sge large = from.sge(0, 5000);
  const WindowBind bind = w.part(kBoth);
  constexpr uint64_t kRounds = 96;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const SendRequest first{.id = 4 * round,
                            .opcode = round % 2 == 0 ? Opcode::read : Opcode::write,
                            .sges = {&large, 1},
                            .remote_address = to.address(),
                            .rkey = to.region.rkey()};
    SendRequest again = first;
    again.id = 4 * round + 2;
    const SendRequest binds{
        .id = 4 * round + 1, .opcode = Opcode::bind_window, .rkey = w.wanted(), .bind = &bind};
    const SendRequest ends{
        .id = 4 * round + 3, .opcode = Opcode::local_invalidate, .invalidate = binds.rkey};
    REQUIRE(w.p.qb.post_send(std::vector{first, binds, again, ends}));
    if (round % 8 != 7) continue;
    uint64_t id = 4 * (round - 7);
    for (const Completion& c : w.p.wait(w.p.b, 32)) {
      REQUIRE(c.status == Status::success);
      REQUIRE(c.id == id++);
    }
  }
  w.show();
  CHECK(w.write(kFrom, 8) == Status::success);
}
WEFT_ON_EACH_WIRE(in_order, "bindings complete in the order of posting (C-OPS-88 C-ACK-35)")

// A request that fails right behind a binding that does not: nothing else would wake the queue.
void fails_behind(Wire wire) {
  for (const bool local : {true, false}) {
    Windows w(wire, WindowType::two);
    const WindowBind good = w.part(kBoth);
    const SendRequest first{
        .id = 1, .opcode = Opcode::bind_window, .rkey = w.wanted(), .bind = &good};
    SendRequest second{.id = 2, .opcode = Opcode::local_invalidate, .invalidate = RKey{1}};
    const Sge nowhere{w.near.at(), 8, LKey{1}};
    if (!local) second = {.id = 2, .opcode = Opcode::write, .sges = {&nowhere, 1}};
    const SendRequest third{.id = 3, .opcode = Opcode::local_invalidate, .invalidate = RKey{1}};
    REQUIRE(w.p.qb.post_send(std::vector{first, second, third}));
    const std::vector<Completion> all = w.p.wait(w.p.b, 3);
    CHECK(all[0].status == Status::success);
    CHECK(all[1].status == (local ? Status::mw_bind_error : Status::local_protection_error));
    CHECK(all[2].status == Status::flushed);
    for (uint64_t i = 0; i < 3; ++i) CHECK(all[i].id == i + 1);
  }
}
WEFT_ON_OUR_PORTS(fails_behind, "a request that fails behind a binding completes (C-STATE-62)")

void other_region(Wire wire) {
  Windows w(wire, WindowType::one);
  w.show();
  const Buffer second(w.p.b, 256, kShared);
  const WindowBind there{&w.window, &second.region, second.at(), 64, kBoth};
  REQUIRE(w.bind(there) == Status::success);
  w.far.region = MemoryRegion();  // to which it was bound before
  CHECK(w.visit(Opcode::write, second.address(), 8, w.window.rkey()) == Status::success);
  REQUIRE(w.bind(there) == Status::success);
}
WEFT_ON_SHARED_PORTS(other_region, "a window outlives a region that it was bound to (C-OPS-88)")

void queue_pair_goes(Wire wire) {
  Windows w(wire, WindowType::two);
  const QueuePair from = w.p.a.queue_pair(), to = w.p.b.queue_pair();
  connect(from, to);
  w.show();
  REQUIRE(w.p.qb.modify({.state = QpState::reset}));
  const WindowBind again = w.part(kBoth);
  REQUIRE(to.post_send({.opcode = Opcode::bind_window, .rkey = w.wanted(), .bind = &again}));
  CHECK(w.p.next(w.p.b).status == Status::success);
}
WEFT_ON_OUR_PORTS(queue_pair_goes, "a reset ends what a queue pair has bound (C-STATE-66)")

// That the fence holds it back is seen in virtual time: sim_local_work_test.
void fenced(Wire wire) {
  Windows w(wire, WindowType::two);
  const Buffer from(w.p.a, 1 << 16), to(w.p.b, 1 << 16);
  const Sge large = to.sge(0, 1 << 16);
  w.show();
  const SendRequest read{.id = 1,
                         .opcode = Opcode::read,
                         .sges = {&large, 1},
                         .remote_address = from.address(),
                         .rkey = from.region.rkey()};
  const SendRequest ends{.id = 2,
                         .opcode = Opcode::local_invalidate,
                         .flags = SendFlags::signaled | SendFlags::fence,
                         .invalidate = w.window.rkey()};
  REQUIRE(w.p.qb.post_send(std::vector{read, ends}));
  CHECK(w.p.next(w.p.b).id == 1);
  CHECK(w.p.next(w.p.b).id == 2);
  CHECK(w.write(kFrom, 8) == Status::remote_access_error);
}
WEFT_ON_EACH_PORT(fenced, "a READ and a fenced invalidate complete in order (C-OPS-88)")

void wrong_posts(Wire wire) {
  Windows w(wire, WindowType::two);
  const WindowBind good = w.part(kBoth);
  const auto refusal = [&](const SendRequest& request) {
    const PostStatus status = w.p.qb.post_send(request);
    CHECK(status.code == Code::invalid_argument);
    return std::string(status.reason == nullptr ? "" : status.reason);
  };
  CHECK(refusal({.opcode = Opcode::bind_window}).find("SendRequest::bind") != std::string::npos);
  CHECK(refusal({.opcode = Opcode::bind_window, .rkey = RKey{1}, .bind = &good}).find("next_key") !=
        std::string::npos);
  const WindowBind nowhere{&w.window, nullptr, nullptr, 8, kBoth};
  CHECK(refusal({.opcode = Opcode::bind_window, .rkey = w.wanted(), .bind = &nowhere})
            .find("region") != std::string::npos);
  const Sge sge = w.near.sge(0, 8);
  CHECK(refusal({.opcode = Opcode::local_invalidate, .sges = {&sge, 1}}).find("no scatter") !=
        std::string::npos);
  CHECK(w.bind(good) == Status::success);  // nothing was lost
}
WEFT_ON_SHARED_PORTS(wrong_posts, "a bind that makes no sense is refused at post (C-OPS-88)")

void none_on_srd(Wire wire) {
  const Side side(device_string(wire));
  CHECK(side.pd.memory_window(WindowType::one).error().code == Code::not_supported);
}
WEFT_ON_WIRE(none_on_srd, "srd has no memory windows", srd_udp)

}  // namespace
}  // namespace weft
