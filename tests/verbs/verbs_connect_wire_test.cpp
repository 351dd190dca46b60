// SPDX-License-Identifier: BSD-3-Clause
// The connection messages: a message is parsed as it was emitted, and every invalid field is
// refused.
#include <cstring>

#include "lib/verbs/connect_wire.hpp"
#include "tests/support/catch.hpp"

namespace weft::verbs {
namespace {

Hello sample() {
  Hello hello;
  hello.gid = Gid::from_ipv4(127, 0, 0, 2);
  hello.qpn = {0x123456};
  hello.psn = {0xABCDEF};
  hello.path_mtu = 4096;
  hello.max_rd_atomic = 16;
  hello.service = QpType::ud;
  hello.capabilities = 0x8001;
  hello.transport = "roce+udp";
  hello.private_data = {std::byte{1}, std::byte{2}, std::byte{3}};
  return hello;
}

MessageHeader header_of(const std::vector<std::byte>& message) {
  MessageHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

std::span<const std::byte> body_of(const std::vector<std::byte>& message) {
  return std::span(message).subspan(sizeof(MessageHeader));
}

// The hello with one byte of its body changed.
Result<Hello> with_byte(size_t offset, uint8_t value) {
  std::vector<std::byte> message = emit_hello(sample());
  message[sizeof(MessageHeader) + offset] = std::byte{value};
  return parse_hello(body_of(message));
}

TEST_CASE("a hello is parsed as it was emitted") {
  const std::vector<std::byte> message = emit_hello(sample());
  const Result<size_t> length = check_header(header_of(message));
  REQUIRE(length);
  CHECK(*length == message.size() - sizeof(MessageHeader));
  const Result<Hello> hello = parse_hello(body_of(message));
  REQUIRE(hello);
  CHECK(hello->gid == sample().gid);
  CHECK(hello->qpn == sample().qpn);
  CHECK(hello->psn == sample().psn);
  CHECK(hello->path_mtu == 4096);
  CHECK(hello->max_rd_atomic == 16);
  CHECK(hello->service == QpType::ud);
  CHECK(hello->capabilities == 0x8001);
  CHECK(hello->transport == "roce+udp");
  CHECK(hello->private_data == sample().private_data);
}

TEST_CASE("a hello has exactly these bytes") {
  // The layout is the protocol: a change needs a new version.
  const std::vector<std::byte> message = emit_hello(sample());
  const uint8_t expected[] = {
      'W', 'E',  'F',  'T',  0, 3, 1,    0,    0,   0, 0,    51, 0,   0,    0,    0,
      0,   0,    0,    0,    0, 0, 0xFF, 0xFF, 127, 0, 0,    2,  0,   0x12, 0x34, 0x56,
      0,   0xAB, 0xCD, 0xEF, 0, 0, 16,   0,    16,  2, 0x80, 1,  'r', 'o',  'c',  'e',
      '+', 'u',  'd',  'p',  0, 0, 0,    0,    0,   0, 0,    0,  1,   2,    3};
  REQUIRE(message.size() == sizeof expected);
  CHECK(std::memcmp(message.data(), expected, sizeof expected) == 0);
}

TEST_CASE("a wrong header is refused") {
  const MessageHeader good = header_of(emit_hello(sample()));
  MessageHeader h = good;
  h.magic = 0x47455420;  // "GET "
  CHECK_FALSE(check_header(h));
  h = good;
  h.version = 1;
  CHECK(check_header(h).error().code == Code::not_supported);
  for (const int kind : {0, 4, 255}) {
    h = good;
    h.kind = static_cast<uint8_t>(kind);
    CHECK_FALSE(check_header(h));
  }
  h = good;
  h.zero = 1;
  CHECK_FALSE(check_header(h));
  for (const uint32_t length : {0u, 47u, 48u + 4097u, 0xFFFFFFFFu}) {
    h = good;
    h.length = length;
    CHECK_FALSE(check_header(h));
  }
  h = header_of(emit_ready());
  CHECK(check_header(h));
  h.length = 1;
  CHECK_FALSE(check_header(h));
  h = header_of(emit_reject("no"));
  CHECK(check_header(h));
  h.length = kMaxRejectText + 1;
  CHECK_FALSE(check_header(h));
}

TEST_CASE("every field of a hello is checked") {
  CHECK(with_byte(47, 0));          // unchanged
  CHECK_FALSE(with_byte(16, 1));    // QPN of more than 24 bits
  CHECK_FALSE(with_byte(20, 1));    // PSN of more than 24 bits
  CHECK_FALSE(with_byte(26, 0));    // MTU 0
  CHECK_FALSE(with_byte(26, 17));   // MTU 4352
  CHECK(with_byte(26, 32));         // MTU 8192: ports over memory
  CHECK_FALSE(with_byte(24, 1));    // MTU 16 MiB and some
  CHECK(with_byte(29, 3));          // SRD
  CHECK(with_byte(29, 5));          // XRC
  CHECK_FALSE(with_byte(29, 6));    // no such service
  CHECK(with_byte(30, 0xFF));       // capabilities that we do not know
  CHECK_FALSE(with_byte(32, 0));    // no transport
  CHECK_FALSE(with_byte(33, '"'));  // not a name
  Hello hello = sample();
  for (const uint32_t qpn : {0u, 1u, 0xFFFFFFu}) {  // management and multicast
    hello.qpn = {qpn};
    CHECK_FALSE(parse_hello(body_of(emit_hello(hello))));
  }
  hello = sample();
  hello.gid = {};
  CHECK_FALSE(parse_hello(body_of(emit_hello(hello))));
  hello = sample();
  hello.private_data.resize(kMaxPrivateData);
  CHECK(parse_hello(body_of(emit_hello(hello))));
  hello.private_data.resize(kMaxPrivateData + 1);
  CHECK_FALSE(parse_hello(body_of(emit_hello(hello))));
  CHECK_FALSE(parse_hello({}));
}

TEST_CASE("the text of a reject is shown without control characters") {
  const std::vector<std::byte> message = emit_reject("bad\x1b[31m\n");
  CHECK(parse_reject(body_of(message)) == "bad?[31m?");
  CHECK(body_of(emit_reject(std::string(1000, 'x'))).size() == kMaxRejectText);
}

TEST_CASE("ports of one host and providers of libfabric match only their own kind") {
  CHECK(transports_match("roce+udp", "roce+udp"));
  CHECK(transports_match("roce+udp", "roce+dpdk"));
  CHECK(transports_match("roce+shm", "roce+shm"));
  CHECK_FALSE(transports_match("roce+shm", "roce+udp"));
  CHECK_FALSE(transports_match("roce+udp", "roce+sim"));
  CHECK(transports_match("libfabric+tcp+of", "libfabric+tcp+of"));
  CHECK_FALSE(transports_match("libfabric+tcp+of", "libfabric+socket"));
  CHECK_FALSE(transports_match("roce+udp", "libfabric+tcp+of"));
}

}  // namespace
}  // namespace weft::verbs
