// SPDX-License-Identifier: BSD-3-Clause
// ATOMIC WRITE and FLUSH through the public API, over every port.
#include <string>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

void effects(Wire wire) {
  Pair p(wire, {.walk = {.psn_a = {0xFFFFFC}}});
  const Buffer near(p.a, 64), far(p.b, 64, Access::all | Access::flush_global);
  SendRequest request{.id = 1,
                      .opcode = Opcode::atomic_write,
                      .remote_address = far.address(8),
                      .rkey = far.region.rkey()};
  if (!p.a.device.attributes().has_flush) {
    const PostStatus posted = p.qa.post_send(request);
    CHECK(posted.code == Code::invalid_argument);
    CHECK(std::string(posted.reason).find("ATOMIC WRITE") != std::string::npos);
    return;
  }
  const Sge out = near.sge(0, 8);
  for (uint64_t i = 1; i <= 200; ++i) {
    near.word(0) = ~i;
    request.opcode = Opcode::atomic_write;
    request.swap = i;
    SendRequest flush = request;
    flush.id = 3;
    flush.opcode = Opcode::flush;
    flush.flush = {.whole_region = i % 2 == 0, .length = 24};
    SendRequest write = request;
    write.id = 2;
    write.opcode = Opcode::write;
    write.sges = {&out, 1};
    write.remote_address = far.address(16);
    const SendRequest three[] = {request, write, flush};
    REQUIRE(p.qa.post_send(three));
    require_success(p.next(p.a), 1, WorkType::atomic_write, 8);
    require_success(p.next(p.a), 2, WorkType::write, 8);
    require_success(p.next(p.a), 3, WorkType::flush, 0);
    REQUIRE(far.word(8) == i);
    REQUIRE(far.word(16) == ~i);
  }
  CHECK(far.word(0) == 0);
  CHECK(far.word(24) == 0);
}
WEFT_ON_EACH_WIRE_AND_SRD(effects, "ATOMIC WRITE and FLUSH, where there are any (C-OPS-93)")

void flush_without_right(Wire wire) {
  Pair p(wire);
  if (!p.a.device.attributes().has_flush) return;
  const Buffer far(p.b, 64);
  const SendRequest flush{.id = 1,
                          .opcode = Opcode::flush,
                          .remote_address = far.address(0),
                          .rkey = far.region.rkey(),
                          .flush = {.length = 8}};
  REQUIRE(p.qa.post_send(flush));
  CHECK(p.next(p.a).status == Status::remote_access_error);
}
WEFT_ON_EACH_WIRE(flush_without_right, "FLUSH of a region without that right fails (C-NAK-39)")

}  // namespace
}  // namespace weft
