// SPDX-License-Identifier: BSD-3-Clause
// RCCC: what a sender may do with its credit, and whom a receiver grants how much and when.
#include "lib/congestion/rccc.hpp"
#include "lib/congestion/registry.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

Preset rccc_preset(const char* name) {
  const Result<Preset> preset =
      make_preset(name, {.line = Rate::from_gbps(100), .rtt = Duration{14'022'720}, .network = {}});
  REQUIRE(preset);
  return *preset;
}

TEST_CASE("a credited sender begins with 1.5 BDP and loses the rest at the receiver's first word") {
  for (const char* name : {"rccc", "nscc+rccc"}) {
    INFO(name);
    const Preset preset = rccc_preset(name);
    Controller sender;
    sender.start(preset);
    CHECK(sender.credit(preset) == 262'926);
    sender.on_sent(preset, 4150, Instant{1});
    CHECK(sender.credit(preset) == 262'926 - 4150);
    sender.on_ack(preset, {.now = Instant{2}, .newly_acked = 4150, .packet_bytes = 4086});
    CHECK(sender.credit(preset) == 0);
    // The last packet may overdraw; what is owed is paid from the next grant.
    sender.on_credit(preset, {.now = Instant{3}, .bytes = 1024});
    sender.on_sent(preset, 4150, Instant{4});
    CHECK(sender.credit(preset) == 1024 - 4150);
    sender.on_credit(preset, {.now = Instant{5}, .bytes = 16384});
    CHECK(sender.credit(preset) == 1024 - 4150 + 16384);
    sender.on_credit(preset, {.now = Instant{6}, .bytes = 1'000'000});
    CHECK(sender.credit(preset) == 262'926);
  }
}

TEST_CASE("an RTO does not end speculation, a NAK and a grant do") {
  const Preset preset = rccc_preset("rccc");
  Controller sender;
  sender.start(preset);
  sender.on_loss(preset, {.now = Instant{1}, .bytes = 4150, .reason = Loss::Reason::timeout});
  CHECK(sender.credit(preset) == 262'926);
  Controller other = sender;
  sender.on_loss(preset, {.now = Instant{1}, .bytes = 4150, .reason = Loss::Reason::trimmed});
  CHECK(sender.credit(preset) == 0);
  other.on_credit(preset, {.now = Instant{1}, .bytes = 256});
  CHECK(other.credit(preset) == 256);
}

TEST_CASE("eqds begins with 64 packets whatever the network, and is granted one at a time") {
  for (const int64_t us : {1, 14, 1000}) {
    const Result<Preset> preset = make_preset(
        "eqds", {.line = Rate::from_gbps(100), .rtt = Duration::from_us(us), .network = {}});
    REQUIRE(preset);
    Controller sender;
    sender.start(*preset);
    CHECK(sender.window() == kNoWindow);
    CHECK(sender.credit(*preset) == 64 * 4150);
    sender.on_credit(*preset, {.now = Instant{1}, .bytes = 4096});
    CHECK(sender.credit(*preset) == 4096);
    sender.on_credit(*preset, {.now = Instant{2}, .bytes = 1'000'000});
    CHECK(sender.credit(*preset) == 64 * 4150);
    const CreditPacer::Rules rules = credit_rules(*preset);
    CHECK(rules.grant_bytes == 4096);
    CHECK(rules.most_bytes == 64 * 4150);
    CHECK(rules.bits_per_second == 99e9);
  }
}

TEST_CASE("other controllers need no credit") {
  const Preset preset = rccc_preset("nscc");
  Controller sender;
  sender.start(preset);
  CHECK(sender.credit(preset) == kNoCreditNeeded);
}

TEST_CASE("grants are round robin over the senders that request credit, up to what they request") {
  const CreditPacer::Rules rules = credit_rules(rccc_preset("rccc"));
  CHECK(rules.grant_bytes == 16384);
  CreditPacer pacer(rules);
  const uint32_t a = pacer.add();
  const uint32_t b = pacer.add();
  CHECK(!pacer.grant());
  pacer.request_credit(a, 100);
  pacer.request_credit(b, 64);
  pacer.request_credit(a, 50);  // requests never decrease
  const auto next = [&](uint32_t sender, uint32_t total, int64_t ps) {
    const std::optional<CreditPacer::Grant> grant = pacer.grant();
    REQUIRE(grant);
    CHECK(grant->sender == sender);
    CHECK(grant->total == total);
    CHECK(grant->next.ps == ps);
  };
  const auto time_ps = [](int64_t units) {
    return static_cast<int64_t>(double(units) * 256 * 8 * 1e12 / 99e9);
  };
  next(a, 64, time_ps(64));
  next(b, 64, time_ps(64));
  next(a, 100, time_ps(36));
  // Idle senders get more than they request, round robin, up to 1.5 BDP ahead.
  next(b, 128, time_ps(64));
  next(a, 164, time_ps(64));
  // A request goes first; one that was granted already costs a short turn.
  pacer.request_credit(b, 120);
  next(b, 128, time_ps(4));
}

TEST_CASE("idle senders are granted a bounded credit ahead, and those that are done none") {
  CreditPacer pacer(credit_rules(rccc_preset("rccc")));
  const uint32_t idle = pacer.add();
  const uint32_t done = pacer.add();
  pacer.request_credit(idle, 10);
  pacer.request_credit(done, 10);
  uint32_t most = 0;
  int count = 0;
  for (; count < 100; ++count) {
    const std::optional<CreditPacer::Grant> grant = pacer.grant();
    if (!grant) break;
    if (grant->sender == done) {
      CHECK(grant->total == 10);
      pacer.remove(done);
    } else {
      most = grant->total;
    }
  }
  CHECK(count < 100);
  CHECK(most > 262'926 / kCreditUnit);
  CHECK(most < 262'926 / kCreditUnit + 10 + 64 + 1);
}

TEST_CASE("recycled sender numbers are reused, and queues do not grow") {
  CreditPacer pacer(credit_rules(rccc_preset("rccc")));
  for (uint32_t round = 0; round < 1000; ++round) {
    const uint32_t sender = pacer.add();
    CHECK(sender < 3);
    for (uint32_t total = 10; total < 100; total += 10) {
      pacer.request_credit(sender, total);
      REQUIRE(pacer.grant());
    }
    pacer.recycle(sender);
    pacer.request_credit(sender, 1000);  // ignored
    while (pacer.grant()) {
    }
  }
  const uint32_t removed = pacer.add();
  pacer.remove(removed);
  CHECK(pacer.add() != removed);
}

TEST_CASE("a stream of more than 2^32 units goes on") {
  CreditPacer pacer(credit_rules(rccc_preset("rccc")));
  const uint32_t sender = pacer.add();
  uint32_t granted = 0;
  for (uint64_t total = 0; total < (uint64_t{3} << 32); total += uint64_t{1} << 29) {
    pacer.request_credit(sender, granted + 40);
    const std::optional<CreditPacer::Grant> grant = pacer.grant();
    REQUIRE(grant);
    CHECK(static_cast<int32_t>(grant->total - granted) >= 40);
    granted = grant->total;
    for (uint32_t jump = 0; jump < (1u << 29); jump += 1u << 28)
      pacer.request_credit(sender, granted + jump);
  }
}

TEST_CASE("a sender with a packet to retransmit is granted without a request") {
  CreditPacer pacer(credit_rules(rccc_preset("rccc")));
  const uint32_t sender = pacer.add();
  pacer.ask(sender);
  pacer.ask(sender);
  const std::optional<CreditPacer::Grant> grant = pacer.grant();
  REQUIRE(grant);
  CHECK(grant->total == 0);
}

}  // namespace
}  // namespace weft::congestion
