// SPDX-License-Identifier: BSD-3-Clause
// Enhanced connection establishment: where it is in a REQ and a REP, and that only weft's answer to
// weft's offer agrees on anything.
#include "lib/roce/cm/enhanced.hpp"
#include "lib/roce/cm/mad_builder.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {
namespace {

using cm::Ece;

constexpr cm::Ece kOffer = cm::offer_of(cm::kEceSelectiveRepeat, 0xABCDEF);

cm::Connection connection(bool active) {
  cm::Connection c(7, cm::State::req_sent, Gid::from_ipv4(10, 0, 0, 2));
  c.active = active;
  return c;
}

unsigned byte(const cm::Mad& mad, size_t at) { return static_cast<unsigned>(mad[at]); }

TEST_CASE("a REQ has the vendor behind its id and the options in the attribute modifier") {
  const cm::Connection c = connection(true);
  const cm::Mad mad = make_req(c, {.qpn = QpNum{0x77}, .ece = {0x123456, 0x89ABCDEF}},
                               Gid::from_ipv4(10, 0, 0, 1), {18, 15});
  CHECK(byte(mad, 20) == 0x89);
  CHECK(byte(mad, 23) == 0xEF);
  CHECK(byte(mad, 28) == 0);
  CHECK(byte(mad, 29) == 0x12);
  CHECK(byte(mad, 30) == 0x34);
  CHECK(byte(mad, 31) == 0x56);
  CHECK(cm::ece_of_req(mad).vendor == 0x123456);
  CHECK(cm::ece_of_req(mad).options == 0x89ABCDEF);
  CHECK(cm::body_of<cm::Req>(mad).local_qpn == 0x77);
}

TEST_CASE("a REP has the vendor in three bytes, from the highest on") {
  const cm::Connection c = connection(false);
  const cm::Mad mad =
      make_rep(c, {.qpn = QpNum{0x77}, .psn = Psn{0x99}, .ece = {0x123456, 0x89ABCDEF}},
               Gid::from_ipv4(10, 0, 0, 1));
  CHECK(byte(mad, 20) == 0x89);
  CHECK(byte(mad, 24 + 15) == 0x12);
  CHECK(byte(mad, 24 + 19) == 0x34);
  CHECK(byte(mad, 24 + 23) == 0x56);
  CHECK(cm::ece_of_rep(mad).vendor == 0x123456);
  CHECK(cm::ece_of_rep(mad).options == 0x89ABCDEF);
  CHECK(cm::body_of<cm::Rep>(mad).local_qpn == 0x77);
  CHECK(cm::body_of<cm::Rep>(mad).starting_psn == 0x99);
}

TEST_CASE("without an offer nothing of it is in a REQ or REP") {
  const cm::Connection active = connection(true), passive = connection(false);
  const Gid local = Gid::from_ipv4(10, 0, 0, 1);
  const cm::Mad req = make_req(active, {.qpn = QpNum{1}}, local, {18, 15});
  const cm::Mad rep = make_rep(passive, {.qpn = QpNum{1}}, local);
  CHECK(cm::ece_of_req(req).vendor == 0);
  CHECK(cm::ece_of_req(req).options == 0);
  CHECK(cm::ece_of_rep(rep).vendor == 0);
  CHECK(cm::ece_of_rep(rep).options == 0);
  CHECK(cm::offer_of(0, 0xABCDEF).vendor == 0);
}

TEST_CASE("weft's answer to weft's offer agrees on what both have") {
  const Ece answer = cm::answer_to(kOffer, 0xFF);
  CHECK(answer.vendor == cm::kWeftVendor);
  CHECK(cm::agreed(kOffer, answer) == cm::kEceSelectiveRepeat);
  CHECK(cm::answer_to(kOffer, 0).vendor == 0);     // the acceptor has nothing of it
  CHECK(cm::answer_to(kOffer, 0x81).vendor == 0);  // or only what is not offered
  const Ece more = cm::offer_of(0xFF, 3);          // a later version of weft
  CHECK(cm::agreed(more, cm::answer_to(more, cm::kEceSelectiveRepeat)) == cm::kEceSelectiveRepeat);
}

TEST_CASE("no other peer agrees, whatever it answers") {
  CHECK(cm::agreed(kOffer, {}) == 0);
  CHECK(cm::agreed(kOffer, kOffer) == 0);                          // an echo
  CHECK(cm::agreed(kOffer, {cm::kWeftVendor, 0}) == 0);            // librdmacm without ECE
  CHECK(cm::agreed(kOffer, {cm::kWeftVendor, 0x1000'0002}) == 0);  // and with its device's bits
  CHECK(cm::agreed(kOffer, {0x15B3, cm::answer_to(kOffer, 2).options}) == 0);
  CHECK(cm::agreed({}, {cm::kWeftVendor, 0xFFFF'FF02}) == 0);     // an answer to no offer
  CHECK(cm::answer_to({0x15B3, kOffer.options}, 2).vendor == 0);  // the offer of a ConnectX
  CHECK(cm::answer_to({}, 2).vendor == 0);
  // Any change of the random bits is no answer.
  for (int bit = 8; bit < 32; ++bit) {
    Ece other = cm::answer_to(kOffer, 2);
    other.options ^= 1u << bit;
    CHECK(cm::agreed(kOffer, other) == 0);
  }
}

}  // namespace
}  // namespace weft::test
