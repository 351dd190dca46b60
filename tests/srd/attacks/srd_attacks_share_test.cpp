// SPDX-License-Identifier: BSD-3-Clause
// Peers that take more than their share: repeated acknowledgements, and credit that was not
// granted.
#include "tests/srd/srd_star.hpp"
#include "tests/srd/srd_wiretap.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

// All others WRITE to station 0 all the time.
struct Contest {
  explicit Contest(SrdOptions o) : star(o) {
    for (uint32_t i = 1; i < o.stations; ++i) {
      for (int k = 0; k < 100; ++k) post(i);
      star[i].life().after_turn = [this, i] {
        for (const Completion& c : star[i].sent())
          if (c.status == Status::success) post(i);
      };
    }
  }
  static SrdOptions options(const char* controller, uint32_t senders) {
    SrdOptions o = controlled(controller);
    o.stations = senders + 1;
    o.config.paths = 8;
    o.memory = kBytes;
    return o;
  }
  void post(uint32_t from) { REQUIRE(star[from].write(star[0], kBytes)); }
  void run_for(Duration d) { star.network.events().run_until(star.network.now() + d); }
  // What station 0 sends to station 1 comes as `change` makes it, `copies` times.
  void lie(int copies, const std::function<void(wire::SrdBase&)>& change) {
    star[0].life().tap->filter = [this, copies, change](const SentFrame& frame) {
      if (frame.path.destination != star[1].host().address() ||
          frame.opcode() != static_cast<uint8_t>(wire::SrdOpcode::acknowledge))
        return true;
      for (int i = 0; i < copies; ++i) star[1].inject(forged(frame, change));
      return false;
    };
  }
  // Bytes that station 0 has executed of each.
  std::map<Gid, uint64_t> executed() {
    std::map<Gid, uint64_t> bytes;
    for (uint32_t i = 0; i < star[0].engine().peer_count(); ++i)
      bytes[star[0].engine().peer(i)->address] = star[0].engine().peer(i)->rx.received_bytes;
    return bytes;
  }
  // Of station 1: payload executed, in parts of what is fair of the link.
  double share() {
    const Gid first = star[1].host().address();
    constexpr Duration kSpan = Duration::from_ms(5);
    const uint64_t before = executed()[first];
    run_for(kSpan);
    const double fair = kStarMbps * 1e6 / 8 * static_cast<double>(kSpan.ps) / 1e12 /
                        (static_cast<double>(star.stations.size()) - 1);
    return static_cast<double>(executed()[first] - before) / fair;
  }

  static constexpr uint32_t kBytes = 65536;
  SrdStar star;
};

void nothing(wire::SrdBase&) {}

}  // namespace

TEST_CASE("a sender acknowledged 64 times gets no larger share of a link, threat:A09") {
  for (const char* controller : {"nscc", "rccc"}) {
    INFO(controller);
    double shares[2];
    for (const int copies : {1, 64}) {
      Contest c(Contest::options(controller, 4));
      c.lie(copies, nothing);
      c.run_for(Duration::from_ms(3));
      shares[copies != 1] = c.share();
    }
    std::printf("%s: acknowledged once %.3f of what is fair, 64 times %.3f\n", controller,
                shares[0], shares[1]);
    CHECK(shares[1] <= 1.05 * std::max(1.0, shares[0]));
  }
}

// Its packets still fill the link: policing takes the gain, not the harm.
TEST_CASE("a sender that exceeds its credit gains nothing, threat:A16") {
  for (const bool polices : {true, false}) {
    INFO(polices);
    SrdOptions o = Contest::options("rccc", 8);
    o.config.police_credit = polices;
    Contest c(o);
    c.run_for(Duration::from_ms(1));
    CHECK(c.star[0].count(Count::rx_over_credit) == 0);
    uint32_t extra = 0;
    c.lie(1, [&](wire::SrdBase& base) {
      auto& ack = *reinterpret_cast<wire::SrdAck*>(&base + 1);
      ack.granted = ack.granted + (extra += 1024);  // a quarter of a megabyte each time
    });
    c.run_for(Duration::from_ms(2));
    const double share = c.share();
    std::printf("policing %d: the one that cheats has %.2f of what is fair\n", polices, share);
    CHECK((share <= 1.25) == polices);
    CHECK((c.star[0].count(Count::rx_over_credit) > 0) == polices);
  }
}

TEST_CASE("policing drops nothing of senders within their credit, threat:A16") {
  SrdOptions o = Contest::options("rccc", 8);
  o.config.police_credit = true;
  o.faults.loss = 10'000;
  Contest c(o);
  c.run_for(Duration::from_ms(20));
  CHECK(c.star[0].count(Count::rx_over_credit) == 0);
}
