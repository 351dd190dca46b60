// SPDX-License-Identifier: BSD-3-Clause
// A posted request or receive: what libfabric is asked for, and what is known of its outcome.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "providers/libfabric/fabric.hpp"
#include "weft/wr.hpp"

namespace weft::libfabric {

class Qp;

inline constexpr uint32_t kMaxSge = 4;      // of every provider of libfabric that was seen
inline constexpr uint32_t kMaxInline = 64;  // bytes that a request keeps until it completes

struct Request {
  fi_context2 context{};  // first: libfabric returns its address
  Qp* qp = nullptr;
  uint64_t id = 0;
  Opcode opcode = Opcode::send;
  SendFlags flags = SendFlags::none;
  bool receive = false;
  bool outstanding = false;  // posted and without a completion
  bool finished = false;     // its outcome is known; completions of sends keep their order
  uint8_t issued = 0;        // operations of libfabric that were posted ..
  uint8_t pending = 0;       // .. and have no entry yet
  Status status = Status::success;
  uint16_t vendor_error = 0;
  uint32_t imm = 0;
  uint32_t length = 0;
  uint32_t sges = 0;
  std::array<iovec, kMaxSge> memory{};
  std::array<void*, kMaxSge> descriptors{};
  uint64_t remote_address = 0;
  uint64_t rkey = 0;
  uint64_t compare_add = 0, swap = 0;
  uint64_t sequence = 0;  // of receives: in which order they were posted
  std::array<std::byte, kMaxInline> inline_data;
};
static_assert(offsetof(Request, context) == 0);

// What libfabric says of an operation.
struct Outcome {
  Status status = Status::success;
  uint32_t length = 0;
  uint64_t flags = 0;
  uint64_t data = 0;  // immediate data of a receive, as `immediate_of` made it
  uint16_t error = 0;
};

// 64 bits that travel with a SEND: immediate data, and in the upper half kPlain or, of a WRITE with
// immediate data, its length. Such a WRITE is followed by an empty SEND, which takes the receive.
inline constexpr uint32_t kPlain = UINT32_MAX;
constexpr uint64_t immediate_of(uint32_t imm, uint32_t upper) noexcept {
  return uint64_t{upper} << 32 | imm;
}

// The status for an error number of a completion of libfabric.
Status status_of(int error) noexcept;

// How many operations of libfabric a request is.
uint8_t operations_of(const Request& request) noexcept;

// Posts the next operation of `request` to `endpoint`, for the peer. 0, -FI_EAGAIN (later), or
// another error.
int issue(Request& request, fid_ep& endpoint, fi_addr_t peer, uint64_t confirmation) noexcept;

}  // namespace weft::libfabric
