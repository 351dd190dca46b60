// SPDX-License-Identifier: BSD-3-Clause
// Each MAD of the connection manager, byte by byte as IBTA 12.6 lays it out: no structure of weft
// says where a field is. (C-CM-106)
#include <initializer_list>

#include "lib/roce/cm/mad_builder.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {
namespace {

const Gid kMadLocal = Gid::from_ipv4(10, 1, 2, 3);
const Gid kMadPeer = Gid::from_ipv4(10, 4, 5, 6);

cm::Connection of_mad(bool active) {
  cm::Connection c(0x01020304, cm::State::req_sent, kMadPeer);
  c.active = active;
  c.peer_id = 0x0A0B0C0D;
  c.peer_qpn = QpNum{0x00ABCDEF};
  c.transaction = 0x1122334455667788;
  c.service_id = 0x00000000'01064713;
  return c;
}

uint64_t number(const cm::Mad& mad, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint64_t>(mad[at + i]);
  return value;
}

struct Field {
  size_t at, bytes;
  uint64_t value;
};

void has_fields(const cm::Mad& mad, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    INFO("byte " << field.at);
    CHECK(number(mad, field.at, field.bytes) == field.value);
  }
}

void is_at(const cm::Mad& mad, size_t at, const Gid& gid) {
  for (size_t i = 0; i < gid.bytes.size(); ++i)
    CHECK(static_cast<uint8_t>(mad[at + i]) == gid.bytes[i]);
}

cm::Offer offer() {
  return {.qpn = QpNum{0x00123456},
          .psn = Psn{0x00FEDCBA},
          .responder_resources = 5,
          .initiator_depth = 9,
          .rnr_retry = 6,
          .ece = {},
          .path_mtu = 2048,
          .retry_count = 3,
          .ack_timeout = 17,
          .traffic_class = 0x68,
          .hop_limit = 33,
          .source_port = 0xC123,
          .private_data = {}};
}

}  // namespace

TEST_CASE("a REQ, byte by byte") {
  const std::array<std::byte, 2> data{std::byte{0xD1}, std::byte{0xD2}};
  cm::Offer o = offer();
  o.private_data = data;
  const cm::Mad mad = make_req(of_mad(true), o, kMadLocal, {21, 13});
  has_fields(mad, {{8, 8, 0x1122334455667788},
                   {16, 2, 0x0010},
                   {24, 4, 0x01020304},
                   {32, 8, 0x01064713},
                   {40, 8, 0x0000FFFF0A010203},  // the low half of the address, for the GUID
                   {56, 3, 0x123456},
                   {59, 1, 5},
                   {63, 1, 9},
                   {67, 1, 21 << 3 | 0 << 1 | 1},  // response time-out, RC, flow control
                   {68, 3, 0xFEDCBA},
                   {71, 1, 21 << 3 | 3},  // response time-out, retry count
                   {72, 2, 0xFFFF},
                   {74, 1, 4 << 4 | 6},  // MTU of 2048, RNR retries
                   {75, 1, 13 << 4},     // CM retries, no SRQ
                   {76, 4, 0xFFFFFFFF},  // LIDs of the primary path
                   {112, 4, 3},          // no flow label, 10 Gb/s
                   {116, 1, 0x68},
                   {117, 1, 33},
                   {119, 1, 17 << 3},  // ACK time-out
                   {120, 4, 0},        // no alternate path
                   {124, 8, 0},
                   {140, 8, 0},
                   {164, 1, 0},     // version of the IP header of rdma_cm
                   {165, 1, 0x40},  // IPv4
                   {166, 2, 0xC123},
                   {180, 4, 0x0A010203},
                   {196, 4, 0x0A040506},
                   {200, 2, 0xD1D2}});
  is_at(mad, 80, kMadLocal);
  is_at(mad, 96, kMadPeer);
}

TEST_CASE("a REQ of UC, of XRC and with a shared receive queue") {
  cm::Offer o = offer();
  o.transport = cm::Transport::uc;
  has_fields(make_req(of_mad(true), o, kMadLocal, {21, 13}), {{67, 1, 21 << 3 | 1 << 1 | 1}});
  o.transport = cm::Transport::extended;
  has_fields(make_req(of_mad(true), o, kMadLocal, {21, 13}),
             {{67, 1, 21 << 3 | 3 << 1 | 1}, {75, 1, 13 << 4 | 1}});
  o.transport = cm::Transport::rc;
  o.shared_receives = true;
  has_fields(make_req(of_mad(true), o, kMadLocal, {21, 13}), {{75, 1, 13 << 4 | 1 << 3}});
  CHECK(cm::transport_of(QpType::uc) == cm::Transport::uc);
  CHECK(cm::transport_of(QpType::rc) == cm::Transport::rc);
  CHECK(cm::transport_of(QpType::xrc_initiator) == cm::Transport::extended);
  cm::Req req{};
  req.response_transport = 1 << 1;
  CHECK(cm::type_of_acceptor(req) == QpType::uc);
  req.response_transport = 3 << 1;
  CHECK(cm::type_of_acceptor(req) == QpType::xrc_target);
  req.response_transport = 0;
  CHECK(cm::type_of_acceptor(req) == QpType::rc);
}

TEST_CASE("a REP, byte by byte") {
  const cm::Mad mad = make_rep(of_mad(false), offer(), kMadLocal);
  has_fields(mad, {{16, 2, 0x0013},
                   {24, 4, 0x01020304},
                   {28, 4, 0x0A0B0C0D},
                   {36, 3, 0x123456},
                   {40, 3, 0},  // no EE context
                   {44, 3, 0xFEDCBA},
                   {48, 1, 5},
                   {49, 1, 9},
                   {50, 1, 1},       // flow control; no failover was asked for
                   {51, 1, 6 << 5},  // RNR retries, no SRQ
                   {52, 8, 0x0000FFFF0A010203}});
  cm::Offer o = offer();
  o.transport = cm::Transport::extended;
  has_fields(make_rep(of_mad(false), o, kMadLocal),
             {{36, 3, 0}, {40, 3, 0x123456}, {51, 1, 6 << 5 | 1 << 4}});
}

TEST_CASE("REJ, MRA, RTU, DREQ, DREP and APR, byte by byte") {
  const cm::Connection c = of_mad(true);
  has_fields(make_rej(c, cm::Answered::rep, cm::Reason::timeout, kMadLocal),
             {{16, 2, 0x0012},
              {24, 4, 0x01020304},
              {28, 4, 0x0A0B0C0D},
              {32, 1, 1 << 6},
              {33, 1, 8 << 1},  // bytes of additional information: the GUID
              {34, 2, 4},
              {36, 8, 0x0000FFFF0A010203}});
  has_fields(make_rej(c, cm::Answered::req, cm::Reason::consumer, kMadLocal),
             {{32, 1, 0}, {33, 1, 0}, {34, 2, 28}, {36, 8, 0}});
  has_fields(
      make_mra(c, cm::Answered::rep, 19),
      {{16, 2, 0x0011}, {24, 4, 0x01020304}, {28, 4, 0x0A0B0C0D}, {32, 2, 0x4000 | 19 << 3}});
  has_fields(make_rtu(c), {{16, 2, 0x0014}, {24, 4, 0x01020304}, {28, 4, 0x0A0B0C0D}});
  has_fields(make_dreq(c),
             {{16, 2, 0x0015}, {24, 4, 0x01020304}, {28, 4, 0x0A0B0C0D}, {32, 3, 0xABCDEF}});
  has_fields(
      cm::make_drep(0x1122334455667788, 0x01020304, 0x0A0B0C0D),
      {{8, 8, 0x1122334455667788}, {16, 2, 0x0016}, {24, 4, 0x01020304}, {28, 4, 0x0A0B0C0D}});
  has_fields(make_apr(c, 7), {{8, 8, 7}, {16, 2, 0x001A}, {28, 4, 0x0A0B0C0D}, {33, 1, 2}});
}

TEST_CASE("the IP addresses of a REQ are those of rdma_cm, version 0, IPv4 or IPv6, or none") {
  cm::Req req = cm::body_of<cm::Req>(make_req(of_mad(true), offer(), kMadLocal, {21, 13}));
  const auto addresses = cm::ip_addresses(req);
  REQUIRE(addresses);
  CHECK(addresses->source == kMadLocal);
  CHECK(addresses->destination == kMadPeer);
  CHECK(addresses->source_port == 0xC123);
  for (const int version : {0, 3, 5, 7, 15}) {
    req.private_data[1] = static_cast<std::byte>(version << 4);
    CHECK_FALSE(cm::ip_addresses(req));
  }
  req.private_data[1] = std::byte{0x60};
  CHECK(cm::ip_addresses(req));
  req.private_data[0] = std::byte{0x10};  // another version of the header
  CHECK_FALSE(cm::ip_addresses(req));
}

}  // namespace weft::test
