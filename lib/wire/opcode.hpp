// SPDX-License-Identifier: BSD-3-Clause
// The one opcode table (IBTA table 38): for each of the 256 BTH opcodes its name, class, operation,
// place in the message, the extended headers that follow the BTH, and whether payload may follow.
// Parser, engine, tests and scripts all read this table; adding an opcode is adding a row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::wire {

enum class OpClass : uint8_t {
  rc = 0x00,
  uc = 0x20,
  ud = 0x60,
  cnp = 0x80,
  xrc = 0xA0,  // IBTA, annex XRC
  unknown = 0xFF,
};

enum class Operation : uint8_t {
  none,
  send,
  write,
  read_request,
  read_response,
  acknowledge,
  atomic_acknowledge,
  compare_swap,
  fetch_add,
  atomic_write,
  flush,
  cnp,
};

// Place of a packet in its message.
enum class Place : uint8_t { first, middle, last, only };

struct OpcodeInfo {
  std::string_view name;  // "RC RDMA WRITE Only", empty for a reserved opcode
  OpClass op_class = OpClass::unknown;
  Operation operation = Operation::none;
  Place place = Place::only;
  bool reth = false, aeth = false, atomic_eth = false, atomic_ack_eth = false;
  bool imm = false, ieth = false, deth = false, feth = false, xrceth = false, sack = false;
  bool payload = false;       // may carry payload
  uint8_t header_length = 0;  // BTH and all extended headers, bytes; 0 for a reserved opcode
  bool known() const { return header_length != 0; }
  // Answered by a READ response without payload.
  bool effect() const {
    return operation == Operation::atomic_write || operation == Operation::flush;
  }
  bool starts_message() const { return place == Place::first || place == Place::only; }
  bool ends_message() const { return place == Place::last || place == Place::only; }
  bool response() const {
    return operation == Operation::read_response || operation == Operation::acknowledge ||
           operation == Operation::atomic_acknowledge;
  }
};

inline constexpr size_t kBthLength = 12;
inline constexpr size_t kIcrcLength = 4;

enum RcOpcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0A,
  kRcWriteOnlyImm = 0x0B,
  kRcReadRequest = 0x0C,
  kRcReadResponseFirst = 0x0D,
  kRcReadResponseMiddle = 0x0E,
  kRcReadResponseLast = 0x0F,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInv = 0x16,
  kRcSendOnlyInv = 0x17,
  kRcFlush = 0x1C,
  kRcAtomicWrite = 0x1D,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
  kRcSelectiveAcknowledge = 0xC0,  // weft's, of the manufacturers' range: SACK.md
};

// The same operation and place in another class: each has the order of RC.
constexpr uint8_t in_class(OpClass service, RcOpcode opcode) {
  return static_cast<uint8_t>(opcode + static_cast<uint8_t>(service));
}

namespace detail {

enum Ext : unsigned {
  kReth = 1,
  kAeth = 2,
  kAtomicEth = 4,
  kAtomicAckEth = 8,
  kImm = 16,
  kIeth = 32,
  kDeth = 64,
  kPayload = 128,
  kCnpPad = 256,
  kFeth = 512,
  kXrceth = 1024,
  kSack = 2048,
};

constexpr OpcodeInfo row(std::string_view name, OpClass c, Operation op, Place place,
                         unsigned ext) {
  OpcodeInfo i{name, c, op, place};
  i.reth = ext & kReth;
  i.aeth = ext & kAeth;
  i.atomic_eth = ext & kAtomicEth;
  i.atomic_ack_eth = ext & kAtomicAckEth;
  i.imm = ext & kImm;
  i.ieth = ext & kIeth;
  i.deth = ext & kDeth;
  i.feth = ext & kFeth;
  i.xrceth = ext & kXrceth;
  i.sack = ext & kSack;
  i.payload = ext & kPayload;
  //= roce:C-HDR-6
  i.header_length = static_cast<uint8_t>(
      kBthLength + (i.reth ? 16 : 0) + (i.aeth ? 4 : 0) + (i.atomic_eth ? 28 : 0) +
      (i.atomic_ack_eth ? 8 : 0) + (i.imm ? 4 : 0) + (i.ieth ? 4 : 0) + (i.deth ? 8 : 0) +
      (i.feth ? 4 : 0) + (i.xrceth ? 4 : 0) + (i.sack ? 8 : 0) + (ext & kCnpPad ? 16 : 0));
  return i;
}

// The rows that RC, UC and XRC share: SEND and WRITE. `ext`: the headers of all requests.
constexpr void messages(std::array<OpcodeInfo, 256>& t, OpClass c, unsigned ext,
                        const std::string_view (&n)[12]) {
  using enum Operation;
  using enum Place;
  const unsigned b = static_cast<unsigned>(c);
  ext |= kPayload;
  t[b + 0x00] = row(n[0], c, send, first, ext);
  t[b + 0x01] = row(n[1], c, send, middle, ext);
  t[b + 0x02] = row(n[2], c, send, last, ext);
  t[b + 0x03] = row(n[3], c, send, last, ext | kImm);
  t[b + 0x04] = row(n[4], c, send, only, ext);
  t[b + 0x05] = row(n[5], c, send, only, ext | kImm);
  t[b + 0x06] = row(n[6], c, write, first, ext | kReth);
  t[b + 0x07] = row(n[7], c, write, middle, ext);
  t[b + 0x08] = row(n[8], c, write, last, ext);
  t[b + 0x09] = row(n[9], c, write, last, ext | kImm);
  t[b + 0x0A] = row(n[10], c, write, only, ext | kReth);
  t[b + 0x0B] = row(n[11], c, write, only, ext | kReth | kImm);
}

// Those that RC and XRC share besides: what is answered, and the answers.
constexpr void answered(std::array<OpcodeInfo, 256>& t, OpClass c, unsigned ext,
                        const std::string_view (&n)[13]) {
  using enum Operation;
  using enum Place;
  const unsigned b = static_cast<unsigned>(c);
  t[b + 0x0C] = row(n[0], c, read_request, only, ext | kReth);
  t[b + 0x0D] = row(n[1], c, read_response, first, kAeth | kPayload);
  t[b + 0x0E] = row(n[2], c, read_response, middle, kPayload);
  t[b + 0x0F] = row(n[3], c, read_response, last, kAeth | kPayload);
  t[b + 0x10] = row(n[4], c, read_response, only, kAeth | kPayload);
  t[b + 0x11] = row(n[5], c, acknowledge, only, kAeth);
  t[b + 0x12] = row(n[6], c, atomic_acknowledge, only, kAeth | kAtomicAckEth);
  t[b + 0x13] = row(n[7], c, compare_swap, only, ext | kAtomicEth);
  t[b + 0x14] = row(n[8], c, fetch_add, only, ext | kAtomicEth);
  t[b + 0x16] = row(n[9], c, send, last, ext | kPayload | kIeth);
  t[b + 0x17] = row(n[10], c, send, only, ext | kPayload | kIeth);
  t[b + 0x1C] = row(n[11], c, flush, only, ext | kFeth | kReth);
  t[b + 0x1D] = row(n[12], c, atomic_write, only, ext | kReth | kPayload);
}

// The names of a class, from its own.
#define WEFT_MESSAGE_NAMES(c)                                                              \
  {                                                                                        \
    c " SEND First", c " SEND Middle", c " SEND Last", c " SEND Last with Immediate",      \
        c " SEND Only", c " SEND Only with Immediate", c " RDMA WRITE First",              \
        c " RDMA WRITE Middle", c " RDMA WRITE Last", c " RDMA WRITE Last with Immediate", \
        c " RDMA WRITE Only", c " RDMA WRITE Only with Immediate"                          \
  }
#define WEFT_ANSWERED_NAMES(c)                                                                \
  {                                                                                           \
    c " RDMA READ Request", c " RDMA READ Response First", c " RDMA READ Response Middle",    \
        c " RDMA READ Response Last", c " RDMA READ Response Only", c " Acknowledge",         \
        c " ATOMIC Acknowledge", c " CmpSwap", c " FetchAdd", c " SEND Last with Invalidate", \
        c " SEND Only with Invalidate", c " FLUSH", c " ATOMIC WRITE"                         \
  }

constexpr std::array<OpcodeInfo, 256> make_table() {
  using enum Operation;
  using enum Place;
  std::array<OpcodeInfo, 256> t{};
  messages(t, OpClass::rc, 0, WEFT_MESSAGE_NAMES("RC"));
  answered(t, OpClass::rc, 0, WEFT_ANSWERED_NAMES("RC"));
  messages(t, OpClass::uc, 0, WEFT_MESSAGE_NAMES("UC"));
  messages(t, OpClass::xrc, kXrceth, WEFT_MESSAGE_NAMES("XRC"));
  answered(t, OpClass::xrc, kXrceth, WEFT_ANSWERED_NAMES("XRC"));
  t[0x64] = row("UD SEND Only", OpClass::ud, send, only, kPayload | kDeth);
  t[0x65] = row("UD SEND Only with Immediate", OpClass::ud, send, only, kPayload | kDeth | kImm);
  t[kCnp] = row("CNP", OpClass::cnp, cnp, only, kCnpPad);
  t[kRcSelectiveAcknowledge] =
      row("RC Selective Acknowledge", OpClass::rc, acknowledge, only, kAeth | kSack | kPayload);
  return t;
}
#undef WEFT_MESSAGE_NAMES
#undef WEFT_ANSWERED_NAMES

inline constexpr std::array<OpcodeInfo, 256> kTable = make_table();

}  // namespace detail

constexpr const OpcodeInfo& opcode_info(uint8_t opcode) { return detail::kTable[opcode]; }

}  // namespace weft::wire
