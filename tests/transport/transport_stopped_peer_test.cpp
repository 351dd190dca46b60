// SPDX-License-Identifier: BSD-3-Clause
// A stopped peer is told from a dead one by how far it has read, and peers that are gone are handed
// on in order.
#include "lib/transport/lost_peers.hpp"
#include "lib/transport/stopped_peer.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::transport;
using Verdict = StoppedPeer::Verdict;

TEST_CASE("a peer that has read all it was sent, and does not answer, is dead") {
  StoppedPeer peer;
  CHECK(peer.look(1, std::nullopt) == Verdict::dead);
  CHECK(peer.look(1, 7) == Verdict::stopped);
  CHECK(peer.look(1, std::nullopt) == Verdict::dead);
}

TEST_CASE(
    "a peer that reads nothing is stopped, however long, and once it goes on it has one chance") {
  StoppedPeer peer;
  for (int i = 0; i < 1000; ++i) CHECK(peer.look(1, 7) == Verdict::stopped);
  CHECK(peer.look(1, 8) == Verdict::went_on);
  CHECK(peer.look(1, 9) == Verdict::dead);
  CHECK(peer.look(1, 9) == Verdict::dead);
}

TEST_CASE("after progress a peer may be stopped again") {
  StoppedPeer peer;
  CHECK(peer.look(1, 7) == Verdict::stopped);
  CHECK(peer.look(1, 8) == Verdict::went_on);
  CHECK(peer.look(2, 9) == Verdict::stopped);
  CHECK(peer.look(2, 9) == Verdict::stopped);
}

TEST_CASE("lost peers are taken in order, and more than fit are not noted") {
  LostPeers lost;
  CHECK(lost.empty());
  for (uint8_t i = 0; i < LostPeers::kMost + 3; ++i)
    lost.add({.address = Gid::from_ipv4(10, 0, 0, i), .sign = PeerSign::process_ended});
  for (uint8_t i = 0; i < LostPeers::kMost; ++i)
    CHECK(lost.take().address == Gid::from_ipv4(10, 0, 0, i));
  CHECK(lost.empty());
  lost.add({.address = Gid::from_ipv4(10, 0, 0, 9), .sign = PeerSign::device_closed});
  CHECK(lost.take().sign == PeerSign::device_closed);
}

TEST_CASE("a lost peer covers the queue pairs of its device, by one way") {
  const Gid here = Gid::from_ipv4(10, 0, 0, 1), there = Gid::from_ipv4(10, 0, 0, 2);
  const LostPeer one{.address = here, .slot = 3, .in_memory = true};
  CHECK(one.covers(here, QpNum{0x030001}, true));
  CHECK(!one.covers(there, QpNum{0x030001}, true));
  CHECK(!one.covers(here, QpNum{0x040001}, true));
  CHECK(!one.covers(here, QpNum{0x030001}, false));
  const LostPeer all{.address = here};
  CHECK(all.covers(here, QpNum{0x030001}, false));
  CHECK(all.covers(here, QpNum{0x040001}, false));
  CHECK(!all.covers(here, QpNum{0x040001}, true));
}
