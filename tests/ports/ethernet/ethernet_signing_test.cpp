// SPDX-License-Identifier: BSD-3-Clause
// Frames whose ICRC the builder leaves to the port: they leave as the builder would have signed
// them.
#include <vector>

#include "lib/transport/frame_builder.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/icrc.hpp"
#include "providers/port/ethernet/frame_copy.hpp"
#include "providers/port/ethernet/framing.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::transport;

namespace {

using Bytes = std::vector<std::byte>;

Path path_between_two() {
  Path path;
  path.source.bytes[15] = 1;
  path.destination.bytes[15] = 2;
  return path;
}

// A WRITE of `pieces` as it leaves the builder; it lives in `frame`.
void build(FrameBuilder& builder, const Path& path, const std::vector<Bytes>& pieces,
           std::span<TxFrame> frame) {
  uint32_t length = 0;
  for (const Bytes& piece : pieces) length += static_cast<uint32_t>(piece.size());
  builder.begin_burst(frame);
  std::byte* at = builder.start(path, wire::kBthLength + sizeof(wire::Reth), length);
  at = wire::emit_bth(
      at, {.opcode = wire::kRcWriteOnly, .pad = builder.pad_for(length), .dest = QpNum{7}});
  wire::emit_reth(at, 4096, RKey{5}, length);
  for (const Bytes& piece : pieces)
    REQUIRE(builder.add_payload(piece.data(), static_cast<uint32_t>(piece.size()), true));
  builder.finish();
}

Bytes written(const TxFrame& frame) {
  Bytes bytes(frame.length());
  const std::byte* const end = port::ethernet::write_transport(bytes.data(), frame);
  REQUIRE(end == bytes.data() + bytes.size());
  return bytes;
}

bool verifies(const Path& path, const Bytes& bytes) {
  const wire::OuterHeader outer{&path.source, &path.destination, path.source_port,
                                path.destination_port, 0};
  return wire::icrc_verify(outer, bytes.data(), static_cast<uint32_t>(bytes.size()));
}

}  // namespace

TEST_CASE("a port that signs sends the bytes that the builder would have signed") {
  Capabilities c;
  c.gather = true;
  FrameBuilder staging(c);
  c.signs = true;
  FrameBuilder leaving(c);
  const Path path = path_between_two();
  const std::vector<size_t> lengths = GENERATE(values<std::vector<size_t>>(
      {{8}, {255}, {256}, {1023}, {4093}, {4096}, {100, 3000}, {300, 1, 2}}));
  std::vector<Bytes> pieces;
  for (const size_t length : lengths)
    pieces.emplace_back(length, static_cast<std::byte>(length + pieces.size()));
  TxFrame staged[1], left[1];
  build(staging, path, pieces, staged);
  build(leaving, path, pieces, left);
  CHECK(staged[0].span_count == 0);
  CHECK(left[0].signs == (left[0].span_count != 0));
  CHECK(left[0].signs == (lengths.size() > 1 || lengths[0] >= 256));
  CHECK(left[0].length() == staged[0].length());
  CHECK(leaving.bytes() == left[0].length());
  const Bytes bytes = written(left[0]);
  CHECK(bytes == written(staged[0]));
  CHECK(verifies(path, bytes));
  const auto copy = port::ethernet::FrameCopy::of(left[0]);
  REQUIRE(copy);
  CHECK(copy->bytes == bytes);
  CHECK_FALSE(copy->to_send().signs);
}

TEST_CASE("the ICRC of a port that signs fits what leaves, though the memory has changed since") {
  Capabilities c;
  c.gather = c.signs = true;
  FrameBuilder builder(c);
  const Path path = path_between_two();
  std::vector<Bytes> pieces{Bytes(2000, std::byte{3})};
  TxFrame frame[1];
  build(builder, path, pieces, frame);
  pieces[0][1000] = std::byte{4};
  const Bytes bytes = written(frame[0]);
  CHECK(bytes[28 + 1000] == std::byte{4});
  CHECK(verifies(path, bytes));
}

TEST_CASE("a port that signs writes zero for the ICRC where none is wanted") {
  Capabilities c;
  c.gather = c.signs = true;
  FrameBuilder builder(c);
  builder.disable_icrc();
  const std::vector<Bytes> pieces{Bytes(2000, std::byte{3})};
  TxFrame frame[1];
  build(builder, path_between_two(), pieces, frame);
  const Bytes bytes = written(frame[0]);
  CHECK(Bytes(bytes.end() - 4, bytes.end()) == Bytes(4));
}
