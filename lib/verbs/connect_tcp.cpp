// SPDX-License-Identifier: BSD-3-Clause
// See connect_tcp.hpp. Sends never raise SIGPIPE; receives never read beyond one message.
#include "lib/verbs/connect_tcp.hpp"

#include <cerrno>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::verbs {

void Channel::queue(std::vector<std::byte> message) {
  WEFT_DCHECK(sent_ <= out_.size() && message.size() <= kMaxMessage);
  if (flushed()) {
    out_ = std::move(message);
    sent_ = 0;
  } else {
    out_.insert(out_.end(), message.begin(), message.end());
  }
}

Result<void> Channel::flush() {
  while (!flushed()) {
    const ssize_t n = send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Error{Code::would_block, "waiting to send to the peer"};
    } else if (n < 0 && errno != EINTR) {
      return base::socket_error(errno, "lost the connection while it was set up");
    }
  }
  return {};
}

Result<void> Channel::fill(size_t wanted) {
  WEFT_DCHECK(wanted <= in_.size() && received_ <= in_.size());
  while (received_ < wanted) {
    const ssize_t n = recv(fd(), in_.data() + received_, wanted - received_, 0);
    if (n > 0) {
      received_ += static_cast<size_t>(n);
    } else if (n == 0) {
      return Error{Code::disconnected, "the peer closed the connection while it was set up"};
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Error{Code::would_block, "waiting for the peer"};
    } else if (errno != EINTR) {
      return base::socket_error(errno, "lost the connection while it was set up");
    }
  }
  return {};
}

Result<MessageKind> Channel::receive() {
  if (const Result<void> have = fill(sizeof(MessageHeader)); !have) return have.error();
  MessageHeader header;
  std::memcpy(&header, in_.data(), sizeof header);
  const Result<size_t> length = check_header(header);
  if (!length) return length.error();
  if (const Result<void> have = fill(sizeof header + *length); !have) return have.error();
  const MessageKind kind = static_cast<MessageKind>(header.kind);
  if (kind == MessageKind::reject)
    return Error{Code::disconnected, "the peer refused: " + parse_reject(body())};
  return kind;
}

std::span<const std::byte> Channel::body() const noexcept {
  WEFT_DCHECK(received_ >= sizeof(MessageHeader));
  return {in_.data() + sizeof(MessageHeader), received_ - sizeof(MessageHeader)};
}

void Channel::reject(std::string_view why) {
  if (fd() < 0) return;
  queue(emit_reject(why));
  (void)flush();
  // Closing with unread bytes would send a reset that can overtake the text.
  shutdown(fd(), SHUT_WR);
  for (int i = 0; i < 16; ++i)
    if (recv(fd(), in_.data(), in_.size(), MSG_DONTWAIT) <= 0) break;
  close();
}

}  // namespace weft::verbs
