// SPDX-License-Identifier: BSD-3-Clause
// Handles and messages of the plug-in of NCCL, which any process may send: no crash, and what is
// accepted is written again as it was read. The first byte selects what the rest is.
#include <algorithm>
#include <cstring>

#include "lib/adapters/nccl/messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::nccl;
using fuzz::require;

namespace {

void read_handle(std::span<const std::byte> bytes) {
  const uint64_t number = connection_number(bytes);
  const Result<Handle> handle = parse_handle(bytes);
  if (!handle) {
    require(!handle.error().message.empty(), "a reason");
    return;
  }
  std::vector<std::byte> again(bytes.size());
  emit_handle(*handle, again);
  set_connection_number(again, number);
  require(std::equal(again.begin(), again.begin() + kHandleBytes, bytes.begin()),
          "the same handle");
}

void read_hello(std::span<const std::byte> body) {
  const Result<Hello> hello = parse_hello(body);
  if (!hello) return;
  require(!hello->lanes.empty() && hello->lanes.size() <= kMaxLanes, "lanes");
  (void)check_peer(*hello, *hello);
  const std::vector<std::byte> once = emit_hello(*hello);
  const auto rest = std::span(once).subspan(kMessageHeader);
  const Result<MessageHeader> header = parse_header(once);
  require(header && header->length == rest.size(), "a header");
  const Result<Hello> again = parse_hello(rest);
  require(again && emit_hello(*again) == once, "the same hello");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 4) {
    case 0:
      read_handle(bytes);
      break;
    case 1:
      read_hello(bytes);
      break;
    case 2:
      (void)parse_header(bytes);
      break;
    default:
      (void)parse_reject(bytes);
      (void)parse_goodbye(bytes);
      (void)parse_nonce(bytes);
  }
  return 0;
}
