// SPDX-License-Identifier: BSD-3-Clause
// Names of enumeration values, and addresses as text.
#include <set>
#include <string>

#include "tests/support/catch.hpp"
#include "weft/cq.hpp"
#include "weft/device.hpp"
#include "weft/types.hpp"
#include "weft/wr.hpp"

using namespace weft;

namespace {

// All values from 0 to `last` have names of their own, and the one behind it has none.
template <class E>
void check_names(E last) {
  std::set<std::string_view> names;
  const int end = static_cast<int>(last) + 1;
  for (int i = 0; i < end; ++i) names.insert(name(static_cast<E>(i)));
  CHECK(names.size() == static_cast<size_t>(end));
  CHECK(names.count("unknown") == 0);
  CHECK(name(static_cast<E>(end)) == "unknown");
}

}  // namespace

TEST_CASE("every enumerator of the public API has a unique name") {
  check_names(Code::canceled);
  check_names(QpType::xrc_target);
  check_names(QpState::err);
  check_names(Status::fatal);
  check_names(EventType::gid_change);
  CHECK(name(Code::would_block) == "would_block");
  CHECK(name(Status::rnr_retry_exceeded) == "rnr_retry_exceeded");
}

TEST_CASE("addresses are parsed from their own text") {
  for (const char* text : {"127.0.0.2", "10.255.0.1", "0.0.0.0", "255.255.255.255", "::", "::1",
                           "fe80::abcd", "2001:db8::1:2", "2001:db8:1:2:3:4:5:6"}) {
    const auto gid = parse_gid(text);
    REQUIRE(gid);
    CHECK(to_string(*gid) == text);
  }
  CHECK(*parse_gid("::ffff:10.0.0.1") == Gid::from_ipv4(10, 0, 0, 1));
  CHECK(to_string(Gid::from_ipv4(127, 0, 0, 2)) == "127.0.0.2");
}

TEST_CASE("an invalid address is refused with an error that quotes it") {
  const std::string with_zero("10.0.0.1\0x", 10);
  for (const std::string& text :
       {std::string(), std::string("10.0.0"), std::string("10.0.0.256"), std::string("[::1]"),
        std::string("fe80::1%lo"), std::string("localhost"), with_zero}) {
    const auto gid = parse_gid(text);
    REQUIRE_FALSE(gid);
    CHECK(gid.error().code == Code::invalid_argument);
    CHECK(gid.error().message.find(text) != std::string::npos);
  }
}
