// SPDX-License-Identifier: BSD-3-Clause
// The device of a new group whose ranks have lost rails. 198.51.100.0/24 is for documentation (RFC
// 5737): no host has it.
#include <filesystem>
#include <thread>

#include "lib/collective/team/remaining_rails.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

using Order = std::vector<size_t>;

TEST_CASE("a rail that one rank has lost is used by none") {
  CHECK(rail_order({"11", "11"}, 0) == Order{0, 1});
  for (const uint32_t rank : {0U, 1U, 2U}) {
    INFO("rank " << rank);
    CHECK(rail_order({"101", "111", "011"}, rank) == Order{2});
    CHECK(rail_order({"11011", "10111", "01111"}, rank) == Order{3, 4});
  }
  CHECK(rail_order({"11", "1"}, 0) == Order{0, 1});  // a rank that never had more
  CHECK(rail_order({"11", "1"}, 1) == Order{0});
  CHECK(rail_order({"101", "11"}, 0) == Order{0, 2});
  CHECK(rail_order({"101", "11"}, 1) == Order{0});
  CHECK(rail_order({"10", "01"}, 1) == Order{1});  // no common rail: unchanged
  CHECK(rail_order({"00", "11"}, 0).empty());
}

TEST_CASE("reordered rails leave the rest of the device string unchanged") {
  const std::string device = "srd+udp:10.0.0.1,patience_ms=50,rails=10.0.1.1+[fd00::1],paths=4";
  CHECK(with_rails(device, {"10.0.1.1"}) == "srd+udp:10.0.1.1,patience_ms=50,paths=4");
  CHECK(with_rails(device, {"fd00::1", "10.0.0.1"}) ==
        "srd+udp:[fd00::1],patience_ms=50,paths=4,rails=10.0.0.1");
  CHECK(with_rails("srd+udp:10.0.0.1", {"10.0.0.2", "10.0.0.3"}) ==
        "srd+udp:10.0.0.2,rails=10.0.0.3");
}

// The devices that the ranks open.
std::vector<std::string> left_of(const std::vector<std::string>& devices) {
  char directory[] = "/tmp/weft-rails-XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  std::vector<std::string> left(devices.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < devices.size(); ++rank)
    threads.emplace_back([&, rank] {
      const auto store = std::move(*Store::open(std::string("file:") + directory, false));
      const Result<std::string> device =
          device_with_remaining_rails(*store, "group", rank, static_cast<uint32_t>(devices.size()),
                                      devices[rank], Duration::from_s(10));
      left[rank] = device ? *device : device.error().message;
    });
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(directory);
  return left;
}

using Devices = std::vector<std::string>;

TEST_CASE("ranks that have lost different rails use the same ones, in the same order") {
  CHECK(left_of({"srd+udp:127.0.6.1,rails=127.0.7.1+127.0.8.1+127.0.9.1",
                 "srd+udp:198.51.100.2,rails=127.0.7.2+127.0.8.2+127.0.9.2,paths=6",
                 "srd+udp:127.0.6.3,rails=127.0.7.3+198.51.100.3+127.0.9.3"}) ==
        Devices{"srd+udp:127.0.7.1,rails=127.0.9.1", "srd+udp:127.0.7.2,paths=6,rails=127.0.9.2",
                "srd+udp:127.0.7.3,rails=127.0.9.3"});
}

TEST_CASE("a device with all of its rails, with none left, or without rails is unchanged") {
  const Devices devices = {"srd+udp:127.0.7.1,rails=127.0.8.1", "srd+udp:127.0.7.2"};
  CHECK(left_of(devices) == devices);
  const Devices gone = {"srd+udp:198.51.100.1,rails=198.51.100.2", "srd+shm:x"};
  CHECK(left_of(gone) == gone);
  const Devices roce = {"roce+udp:198.51.100.1", ""};
  CHECK(left_of(roce) == roce);
}

}  // namespace
}  // namespace weft::collective
