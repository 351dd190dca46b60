// SPDX-License-Identifier: BSD-3-Clause
// See connect_tcp.hpp.
#include "lib/verbs/connect_tcp.hpp"

#include <cstring>

#include "lib/base/check.hpp"

namespace weft::verbs {

Result<MessageKind> Channel::receive() {
  MessageHeader header;
  if (const Result<void> have = stream_.fill(sizeof header); !have) return have.error();
  std::memcpy(&header, stream_.received().data(), sizeof header);
  const Result<size_t> length = check_header(header);
  if (!length) return length.error();
  if (const Result<void> have = stream_.fill(sizeof header + *length); !have) return have.error();
  body_size_ = *length;
  const MessageKind kind = static_cast<MessageKind>(header.kind);
  if (kind == MessageKind::reject)
    return Error{Code::disconnected, "the peer refused: " + parse_reject(body())};
  return kind;
}

std::span<const std::byte> Channel::body() const noexcept {
  WEFT_DCHECK(stream_.received().size() >= sizeof(MessageHeader) + body_size_);
  const std::string_view body = stream_.received().substr(sizeof(MessageHeader), body_size_);
  return std::as_bytes(std::span(body.data(), body.size()));
}

void Channel::reject(std::string_view why) { verbs::reject(stream_, why); }

void reject(crypto::Stream& stream, std::string_view why) {
  if (stream.established()) (void)stream.queue(emit_reject(why));
  stream.end();
}

}  // namespace weft::verbs
