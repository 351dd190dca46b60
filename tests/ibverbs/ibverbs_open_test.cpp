// SPDX-License-Identifier: BSD-3-Clause
// Opening a device of the provider ibverbs where there is none: each message says what is wrong and
// what to do. With a device: tests/interop/ibverbs_test.py.
#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

Error refused(const std::string& spec) {
  const Result<Device> device = Device::open(spec);
  if (device) FAIL(spec << " was opened");
  return device.error();
}

bool mentions(const Error& error, const char* text) {
  INFO(error.message);
  const bool found = error.message.find(text) != std::string::npos;
  CHECK(found);
  return found;
}

TEST_CASE("a missing libibverbs is named, with the package that has it") {
  const Error error = refused("ibverbs:rxe0,library=/nowhere/libibverbs.so.1");
  CHECK(error.code == Code::not_found);
  CHECK(mentions(error, "/nowhere/libibverbs.so.1"));
  CHECK(mentions(error, "apt-get install libibverbs1"));
}

TEST_CASE("SRD without libefa: it is named, with the package that has it") {
  const Error missing = refused("ibverbs:efa_0,srd,efa_library=/nowhere/libefa.so.1");
  CHECK(missing.code == Code::not_found);
  CHECK(mentions(missing, "/nowhere/libefa.so.1"));
  CHECK(mentions(missing, "apt-get install ibverbs-providers"));
  const Error other = refused("ibverbs:efa_0,srd,efa_library=libc.so.6");
  CHECK(other.code == Code::not_supported);
  CHECK(mentions(other, "libc.so.6 has no efadv_"));
}

TEST_CASE("a library that is not libibverbs is refused") {
  const Error error = refused("ibverbs:rxe0,library=libc.so.6");
  CHECK(error.code == Code::not_supported);
  CHECK(mentions(error, "libc.so.6 has no ibv_"));
}

TEST_CASE("keys and values of the device string are checked before the library") {
  CHECK(mentions(refused("ibverbs:rxe0,pcap=x"), "valid keys: port"));
  CHECK(mentions(refused("ibverbs:rxe0,port=0"), "must be 1..255"));
  CHECK(mentions(refused("ibverbs:rxe0,port=1x"), "must be 1..255"));
  CHECK(mentions(refused("ibverbs:rxe0,gid=256"), "must be 0..255"));
  CHECK(mentions(refused("ibverbs:rxe0,gid="), "must be 0..255"));
  CHECK(mentions(refused("ibverbs+udp:lo"), "ibverbs:NAME"));
  CHECK(refused("ibverbs:rxe0,port=0").code == Code::invalid_argument);
}

TEST_CASE("a device that is not there is not found, and the list says why") {
  std::error_code none;
  const bool has_devices = !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
  const Error error = refused("ibverbs:no-such-device");
  CHECK(error.code == Code::not_found);
  bool listed = false;
  for (const DeviceListing& row : list_devices()) {
    if (!row.spec.starts_with("ibverbs")) continue;
    listed = true;
    CHECK(row.usable == row.reason.empty());
    if (!has_devices) CHECK(row.reason == error.message);
  }
  CHECK(listed);
  if (!has_devices) CHECK(mentions(error, "rdma link add"));
}

}  // namespace
