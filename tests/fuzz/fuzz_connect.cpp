// SPDX-License-Identifier: BSD-3-Clause
// What connect() and Listener read from a peer that may be anyone: headers, hellos, reasons. No
// crash; what is accepted is within the bounds of its fields and is written again as it was read.
// The first byte selects the header of the input alone, or how far it is repaired: with a magic, a
// version, a kind and a length that fit, so that the fields behind them are reached.
#include <algorithm>
#include <cstring>

#include "lib/verbs/connect_wire.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::verbs;
using fuzz::require;

namespace {

void check_hello(std::span<const std::byte> body) {
  const Result<Hello> hello = parse_hello(body);
  if (!hello) return require(!hello.error().message.empty(), "a reason");
  require(hello->qpn.value >= 2 && hello->qpn.value < Psn::kMask, "a number of a queue pair");
  require(hello->psn.value <= Psn::kMask, "a PSN");
  require(is_path_mtu(hello->service, hello->path_mtu), "a path MTU");
  require(hello->private_data.size() <= kMaxPrivateData, "private data");
  const std::vector<std::byte> again = emit_hello(*hello);
  const std::span<const std::byte> written = std::span(again).subspan(sizeof(MessageHeader));
  // Behind the end of the name anything may stand.
  const size_t named = offsetof(HelloBody, transport) + hello->transport.size();
  require(written.size() == body.size() &&
              std::equal(written.begin(), written.begin() + static_cast<ptrdiff_t>(named),
                         body.begin()) &&
              std::equal(written.begin() + sizeof(HelloBody), written.end(),
                         body.begin() + sizeof(HelloBody)),
          "the same hello");
  require(transports_match(hello->transport, hello->transport), "of its own kind");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in{data, size};
  const auto repair = in.take<uint8_t>();
  if (in.left < sizeof(MessageHeader)) return 0;
  auto header = in.take<MessageHeader>();
  const auto body = std::as_bytes(std::span(in.at, in.left));
  if ((repair & 1) != 0) header.magic = kConnectMagic;
  if ((repair & 2) != 0) header.version = kConnectVersion;
  if ((repair & 4) != 0) header.zero = 0, header.kind = static_cast<uint8_t>(1 + header.kind % 3);
  if ((repair & 8) != 0) header.length = static_cast<uint32_t>(body.size());
  const Result<size_t> length = check_header(header);
  if (!length) {
    require(!length.error().message.empty(), "a reason");
    return 0;
  }
  require(*length + sizeof header <= kMaxMessage, "a message is bounded before it is read");
  if (*length != body.size()) return 0;
  if (static_cast<MessageKind>(header.kind) == MessageKind::hello) {
    check_hello(body);
  } else {
    const std::string text = parse_reject(body);
    require(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
            "a reason can be printed");
  }
  return 0;
}
