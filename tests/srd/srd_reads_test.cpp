// SPDX-License-Identifier: BSD-3-Clause
// READs and atomics: more than a peer takes at once are not slower than those that it takes.
#include <cstring>

#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

// Virtual time for `total` requests with `depth` of them in flight.
Duration time_for(Opcode opcode, uint32_t total, uint32_t depth, uint64_t& refusals) {
  SrdOptions o;
  o.qp.max_send_wr = 8192;
  SrdTwo t(o);
  const Sge local = t.a.sge(0, 8);
  uint32_t posted = 0, done = 0;
  const auto post = [&] {
    while (posted < total && posted - done < depth) {
      SendRequest r = t.request(opcode, posted++, {&local, 1}, 8);
      r.compare_add = 1;
      REQUIRE(t.a.post(t.b, r));
    }
  };
  post();
  const Instant begin = t.world.network.now();
  REQUIRE(t.world.run_until([&] {
    for (const Completion& c : t.a.sent()) {
      REQUIRE(c.status == Status::success);
      ++done;
    }
    post();
    return done == total;
  }));
  refusals = t.a.count(Count::rx_naks);
  if (opcode == Opcode::fetch_add) CHECK(t.b.word(8) == total);
  return t.world.network.now() - begin;
}

}  // namespace

TEST_CASE("4,096 READs or atomics in flight are as fast as 128, and none is refused") {
  for (const Opcode opcode : {Opcode::read, Opcode::fetch_add}) {
    constexpr uint32_t kTotal = 20'000;
    uint64_t refused_of_few = 0, refused_of_many = 0;
    const Duration few = time_for(opcode, kTotal, 128, refused_of_few);
    const Duration many = time_for(opcode, kTotal, 4096, refused_of_many);
    INFO(few.us() << " us with 128, " << many.us() << " us with 4,096 in flight");
    CHECK(many * 9 <= few * 10);
    CHECK(refused_of_few == 0);
    CHECK(refused_of_many == 0);
  }
}

TEST_CASE("READs that wait for others end with their queue pair") {
  SrdOptions o;
  o.qp.max_send_wr = 8192;
  SrdTwo t(o);
  const Sge local = t.a.sge(0, 8);
  for (uint64_t id = 0; id < 1000; ++id)
    REQUIRE(t.a.post(t.b, t.request(Opcode::read, id, {&local, 1})));
  t.world.run_for(Duration::from_us(5));
  t.a.fail();
  std::vector<Completion> all = t.a.sent();
  REQUIRE(t.world.run_until([&] {
    for (const Completion& c : t.a.sent()) all.push_back(c);
    return all.size() == 1000;
  }));
  t.a.ready();
  REQUIRE(t.a.post(t.b, t.request(Opcode::read, 1000, {&local, 1})));
  REQUIRE(t.world.run_until([&] {
    for (const Completion& c : t.a.sent()) all.push_back(c);
    return all.size() == 1001;
  }));
  CHECK(all.back().status == Status::success);
}
