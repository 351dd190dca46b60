// SPDX-License-Identifier: BSD-3-Clause
// Opening devices of provider libfabric: what is wrong in a device string is named, and names of
// endpoints are GIDs and numbers and back.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "providers/libfabric/endpoint_name.hpp"
#include "tests/support/catch.hpp"
#include "weft/weft.hpp"

namespace weft::libfabric {
namespace {

std::string refusal(const std::string& spec) {
  const Result<Device> device = Device::open(spec);
  return device ? "opened" : device.error().message;
}

TEST_CASE("libfabric: a wrong device string says what is wrong") {
  CHECK(refusal("libfabric").find("libfabric:tcp+ofi_rxm") != std::string::npos);
  CHECK(refusal("libfabric:weft").find("weft over libfabric over weft") != std::string::npos);
  CHECK(refusal("libfabric:weft_msg+ofi_rxm").find("open the device itself") != std::string::npos);
  CHECK(refusal("libfabric:shm,gid=1").find("valid keys: node") != std::string::npos);
  CHECK(refusal("libfabric:none").find("no provider \"none\"") != std::string::npos);
  CHECK(refusal("libfabric+udp:lo").find("no ports of weft's") != std::string::npos);
}

TEST_CASE("libfabric: what the device lacks is refused by name") {
  const Device device = *Device::open("libfabric:sockets,node=127.0.0.1");
  const CompletionQueue cq = *device.completion_queue({});
  const ProtectionDomain pd = *device.protection_domain();
  CHECK(device.attributes().gid == Gid::from_ipv4(127, 0, 0, 1));
  CHECK_FALSE(device.attributes().has_ud);
  for (const QpType type : {QpType::uc, QpType::ud, QpType::srd})
    CHECK(pd.queue_pair({.type = type, .send_cq = cq, .recv_cq = cq}).error().code ==
          Code::not_supported);
  CHECK(pd.shared_receive_queue({}).error().code == Code::not_supported);
  CHECK(pd.memory_window(WindowType::one).error().code == Code::not_supported);
  CHECK(device.completion_queue({.timestamps = true}).error().code == Code::not_supported);
  CHECK(device.xrc_domain().error().code == Code::not_supported);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size() + 1);
  std::memcpy(bytes.data(), text.c_str(), bytes.size());
  return bytes;
}

TEST_CASE("libfabric: names of endpoints become a GID and a number, and back") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(40123);
  address.sin_addr.s_addr = htonl(0x7F000005);
  std::vector<std::byte> ipv4(sizeof address);
  std::memcpy(ipv4.data(), &address, sizeof address);
  const Result<EndpointName> name = from_bytes(FI_SOCKADDR_IN, ipv4);
  REQUIRE(name);
  CHECK(name->gid == Gid::from_ipv4(127, 0, 0, 5));
  CHECK(name->number.value == 40123);
  CHECK(*to_bytes(FI_SOCKADDR_IN, *name) == ipv4);
  CHECK_FALSE(to_bytes(FI_SOCKADDR_IN6, *name));
  CHECK_FALSE(to_bytes(FI_SOCKADDR_IN, {name->gid, QpNum{0x10000}}));

  const Result<EndpointName> shm = from_bytes(FI_ADDR_STR, bytes_of("fi_shm://4711:1000:3"));
  REQUIRE(shm);
  CHECK(shm->number.value == 5);  // 0 and 1 are no numbers of queue pairs that connect
  CHECK(*to_bytes(FI_ADDR_STR, *shm) == bytes_of("fi_shm://4711:1000:3"));
  CHECK_FALSE(to_bytes(FI_ADDR_STR, *name));
  for (const char* const odd :
       {"fi_shm://", "fi_shm://1:2", "fi_shm://1:2:3:4", "fi_ns://x:1", "fi_shm://1:2:16777215"})
    CHECK_FALSE(from_bytes(FI_ADDR_STR, bytes_of(odd)));
  CHECK_FALSE(from_bytes(FI_ADDR_EFA, std::vector<std::byte>(32)));
  CHECK_FALSE(from_bytes(FI_SOCKADDR_IN, std::vector<std::byte>(4)));
}

}  // namespace
}  // namespace weft::libfabric
