// SPDX-License-Identifier: BSD-3-Clause
// Properties of the opcode table that every row must have.
#include <set>
#include <string>
#include <string_view>

#include "lib/wire/opcode.hpp"
#include "tests/support/catch.hpp"

using namespace weft::wire;

namespace {

const OpcodeInfo& at(int opcode) { return opcode_info(static_cast<uint8_t>(opcode)); }

}  // namespace

TEST_CASE(
    "the table has 25 RC, 25 XRC, 12 UC, 2 UD opcodes, CNP and one of weft's, each with a name of "
    "its own C-HDR-1") {
  int rc = 0, xrc = 0, uc = 0, ud = 0, cnp = 0;
  std::set<std::string_view> names;
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = at(opcode);
    if (!info.known()) {
      CHECK(info.name.empty());
      CHECK(info.op_class == OpClass::unknown);
      continue;
    }
    names.insert(info.name);
    rc += info.op_class == OpClass::rc;
    xrc += info.op_class == OpClass::xrc;
    uc += info.op_class == OpClass::uc;
    ud += info.op_class == OpClass::ud;
    cnp += info.op_class == OpClass::cnp;
  }
  CHECK(rc == 25 + 1);
  CHECK(xrc == 25);
  CHECK(uc == 12);
  CHECK(ud == 2);
  CHECK(cnp == 1);
  CHECK(names.size() == 66);
}

TEST_CASE("the class is the upper three bits, and RD is not known C-HDR-9 C-HDR-5") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    INFO("opcode " << opcode);
    const OpcodeInfo& info = at(opcode);
    if (opcode == kRcSelectiveAcknowledge) continue;  // of the range of manufacturers
    if (info.known()) CHECK(static_cast<int>(info.op_class) == (opcode & 0xE0));
    const int top = opcode & 0xE0;
    if (top == 0x40 || top == 0xC0 || top == 0xE0) CHECK_FALSE(info.known());
  }
}

TEST_CASE("header lengths are BTH plus the extended headers C-HDR-6") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& i = at(opcode);
    if (!i.known()) continue;
    INFO(i.name);
    const int extended = 16 * i.reth + 4 * i.aeth + 28 * i.atomic_eth + 8 * i.atomic_ack_eth +
                         4 * i.imm + 4 * i.ieth + 8 * i.deth + 4 * i.feth + 4 * i.xrceth +
                         8 * i.sack;
    CHECK(i.header_length == 12 + extended + (opcode == kCnp ? 16 : 0));
  }
}

TEST_CASE("SEND and WRITE have the same form in RC and UC") {
  for (int opcode = 0; opcode <= 0x0B; ++opcode) {
    const OpcodeInfo &rc = at(opcode), &uc = at(opcode + 0x20);
    INFO(rc.name);
    CHECK(rc.name.substr(3) == uc.name.substr(3));
    CHECK(rc.operation == uc.operation);
    CHECK(rc.place == uc.place);
    CHECK(rc.header_length == uc.header_length);
  }
}

TEST_CASE("XRC has the form of RC, and XRCETH in its requests C-HDR-6") {
  for (int opcode = 0; opcode < 0x20; ++opcode) {
    const OpcodeInfo &rc = at(opcode), &xrc = at(opcode + 0xA0);
    INFO(rc.name);
    CHECK(rc.known() == xrc.known());
    if (!rc.known()) continue;
    CHECK(in_class(OpClass::xrc, static_cast<RcOpcode>(opcode)) == opcode + 0xA0);
    CHECK(xrc.name == "X" + std::string(rc.name));
    CHECK(rc.operation == xrc.operation);
    CHECK(rc.place == xrc.place);
    CHECK(rc.payload == xrc.payload);
    CHECK(xrc.xrceth == !rc.response());
    CHECK(xrc.header_length == rc.header_length + (xrc.xrceth ? 4 : 0));
  }
}

TEST_CASE("names, places and headers agree") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& i = at(opcode);
    if (!i.known()) continue;
    INFO(i.name);
    const auto says = [&](std::string_view word) {
      return i.name.find(word) != std::string_view::npos;
    };
    CHECK(says("First") == (i.place == Place::first));
    CHECK(says("Middle") == (i.place == Place::middle));
    CHECK(says("Last") == (i.place == Place::last));
    CHECK(says("Immediate") == i.imm);
    CHECK(says("Invalidate") == i.ieth);
    CHECK(i.reth == (i.operation == Operation::read_request || i.effect() ||
                     (i.operation == Operation::write && i.starts_message())));
    CHECK(i.deth == (i.op_class == OpClass::ud));
    CHECK(i.xrceth == (i.op_class == OpClass::xrc && !i.response()));
    CHECK(i.atomic_eth ==
          (i.operation == Operation::compare_swap || i.operation == Operation::fetch_add));
    CHECK(i.aeth == (i.response() && i.place != Place::middle));
    CHECK(i.payload == (i.operation == Operation::send || i.operation == Operation::write ||
                        i.operation == Operation::read_response ||
                        i.operation == Operation::atomic_write || i.sack));
    CHECK(i.feth == (i.operation == Operation::flush));
  }
}
