// SPDX-License-Identifier: BSD-3-Clause
// Parsing of device strings, and those that are refused.
#include "lib/verbs/device_spec.hpp"
#include "tests/support/catch.hpp"

namespace weft::verbs {
namespace {

TEST_CASE("a device string has a provider, a port, a place and keys") {
  const Result<DeviceSpec> spec = parse_device_spec("roce+udp:10.0.0.1,cc=swift,fault.loss=0.01");
  REQUIRE(spec);
  CHECK(spec->provider == "roce");
  CHECK(spec->port == "udp");
  CHECK(spec->where == "10.0.0.1");
  REQUIRE(spec->options.size() == 2);
  CHECK(spec->options[0] == std::pair<std::string, std::string>("cc", "swift"));
  CHECK(spec->options[1] == std::pair<std::string, std::string>("fault.loss", "0.01"));
}

TEST_CASE("srd is a key without a value, no other is") {
  const Result<DeviceSpec> efa = parse_device_spec("ibverbs:efa_0,srd");
  REQUIRE(efa);
  REQUIRE(efa->options.size() == 1);
  CHECK(efa->options[0] == std::pair<std::string, std::string>("srd", "1"));
  for (const char* const wrong :
       {"roce+udp:lo,pcap", "roce+udp:lo,fault.loss", "roce+udp:lo,=1", "roce+udp:lo,,cc=swift"}) {
    INFO(wrong);
    const Result<DeviceSpec> refused = parse_device_spec(wrong);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::invalid_argument);
    CHECK(refused.error().message.find("is not key=value") != std::string::npos);
  }
}

}  // namespace
}  // namespace weft::verbs
