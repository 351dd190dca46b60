// SPDX-License-Identifier: BSD-3-Clause
// One of 64 queue pairs whose completions are not polled: its queue overruns, it fails, and the
// others go on as if it was not there.
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kConnections = 64, kBytes = 4096, kOutstanding = 4, kStalledEntries = 8;

// SENDs over 64 connections, each with four outstanding, for 5 ms of virtual time.
struct Senders {
  World world;
  Station& a = world.add_station();
  Station& b = world.add_station();
  std::vector<std::unique_ptr<Endpoint>> from, to;
  const bool polls_first;
  uint64_t of_others = 0;  // bytes received

  explicit Senders(bool polls_first) : polls_first(polls_first) {
    world.cable(a, b, {.rate = Rate::from_gbps(10)});
    for (uint32_t i = 0; i < kConnections; ++i) {
      from.push_back(std::make_unique<Endpoint>(a));
      const bool stalled = i == 0 && !polls_first;
      to.push_back(
          std::make_unique<Endpoint>(b, transport::QpConfig{}, stalled ? kStalledEntries : 4096));
      world.connect(*from[i], *to[i]);
      for (uint32_t n = 0; n < kOutstanding; ++n) post_receive(i), post_send(i);
      if (stalled)  // more than its completions have room for
        for (uint32_t n = 0; n < 2 * kStalledEntries; ++n) post_receive(i);
    }
    a.driver().after_turn([this](Instant) { on_sent(); });
    b.driver().after_turn([this](Instant) { on_received(); });
    world.run_for(Duration::from_ms(5));
  }

  void post_receive(uint32_t i) { REQUIRE(to[i]->recv(1, {b.sge(i * kBytes, kBytes)})); }
  void post_send(uint32_t i) {
    const Sge sge = a.sge(i * kBytes, kBytes);
    SendRequest r;
    r.opcode = Opcode::send;
    r.sges = {&sge, 1};
    REQUIRE(from[i]->send(r));
  }
  void on_sent() {
    for (uint32_t i = 0; i < kConnections; ++i)
      for (const Completion& c : from[i]->sent()) {
        REQUIRE((i == 0 || c.status == Status::success));
        if (c.status == Status::success) post_send(i);
      }
  }
  void on_received() {
    for (uint32_t i = polls_first ? 0 : 1; i < kConnections; ++i)
      for (const Completion& c : to[i]->received()) {
        REQUIRE(c.status == Status::success);
        if (i != 0) of_others += c.byte_count;
        post_receive(i);
      }
  }
};

TEST_CASE("completions that are not polled cost the other queue pairs nothing, threat:A21") {
  const Senders all(true), stalled(false);
  REQUIRE(all.of_others > 63u * 10 * kBytes);
  CHECK(double(stalled.of_others) >= 0.98 * double(all.of_others));
  CHECK(stalled.to[0]->qp().state == QpState::err);
  CHECK(stalled.b.count(Count::cq_overruns) >= 1);
  CHECK(stalled.to[0]->received().size() == kStalledEntries);  // no more memory than it had
  for (uint32_t i = 1; i < kConnections; ++i) {
    CHECK(stalled.to[i]->qp().state == QpState::rts);
    CHECK(stalled.from[i]->qp().state == QpState::rts);
  }
  CHECK(all.b.count(Count::cq_overruns) == 0);
}

}  // namespace
}  // namespace weft::test
