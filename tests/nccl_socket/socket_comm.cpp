// SPDX-License-Identifier: BSD-3-Clause
// See socket_comm.hpp. With faults that tests/adapters/nccl_check_test.py asks for.
#include "tests/nccl_socket/socket_comm.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

namespace weft::nccl_socket {
namespace {

using nccl::Outcome;

constexpr uint64_t kSwapped = 150;  // the fault "order": this send is after the next one

uint64_t next_number = 0;
std::set<Comm*> receiving;  // the fault "connections" looks at them

std::byte* rounded_down(std::byte* data) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  return data - (is_broken("alignment") ? at % 8 : 0);
}

}  // namespace

bool is_broken(std::string_view fault) {
  static const char* const broken = std::getenv("WEFT_NCCL_BREAK");
  return broken != nullptr && fault == broken;
}

Comm::Comm(int socket, bool sender) : fd(socket), sends(sender), number(++next_number) {
  if (!sends) receiving.insert(this);
}

Comm::~Comm() {
  receiving.erase(this);
  (void)::close(fd);
}

Outcome Comm::progress() {
  if (sends) return send_some();
  if (is_broken("connections"))
    for (const Comm* const each : receiving)
      if (each->number < number && !each->queue.empty()) return Outcome::success;
  return receive_some();
}

Request* Comm::oldest() {
  for (const std::unique_ptr<Request>& each : queue)
    if (!each->done && !each->held) return each.get();
  return nullptr;
}

void Comm::add(std::unique_ptr<Request> request) {
  queue.push_back(std::move(request));
  if (!is_broken("order") || !sends || ++added_ < kSwapped) return;
  if (added_ == kSwapped) queue.back()->held = true;
  if (added_ != kSwapped + 1) return;
  std::swap(queue.back(), queue[queue.size() - 2]);
  queue.back()->held = false;
}

bool Comm::write_piece(Request& request) {
  const Request::Piece& piece = request.pieces[0];
  header_ = {piece.tag, piece.size};
  while (moved_ < sizeof header_ + piece.size) {
    const auto* from = reinterpret_cast<const std::byte*>(&header_) + moved_;
    size_t length = sizeof header_ - moved_;
    std::byte last{};
    if (moved_ >= sizeof header_) {
      const size_t at = moved_ - sizeof header_;
      from = piece.data + at;
      length = piece.size - at;
      if (is_broken("sizes") && piece.size > 20'000) {
        if (length > 1) --length;
        last = piece.data[piece.size - 1] ^ std::byte{1};
        if (at == piece.size - 1) from = &last;
      }
    }
    const ssize_t sent = ::send(fd, from, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return false;
    moved_ += static_cast<size_t>(sent);
  }
  moved_ = 0;
  return true;
}

Outcome Comm::send_some() {
  while (Request* const request = oldest()) {
    if (is_broken("zero") && request->pieces[0].size == 0) return Outcome::success;
    errno = 0;
    if (!write_piece(*request)) {
      const bool again = errno == EAGAIN || errno == EWOULDBLOCK || is_broken("death");
      return again ? Outcome::success : Outcome::remote_error;
    }
    request->done = true;
  }
  // An end of the peer shows although there is nothing to send.
  return Outcome::success;
}

// Finds the receive for the message whose header has arrived.
Outcome Comm::match() {
  into_ = oldest();
  for (int i = 0; i < into_->count; ++i) {
    Request::Piece& piece = into_->pieces[static_cast<size_t>(i)];
    if (piece.matched || (piece.tag != header_.tag && !is_broken("groups"))) continue;
    if (header_.size > piece.room) return Outcome::invalid_usage;
    piece_ = &piece;
    piece.matched = true;
    piece.size = header_.size;
    return Outcome::success;
  }
  return Outcome::remote_error;
}

long Comm::read_into(void* to, size_t length) {
  const ssize_t got = ::recv(fd, to, length, MSG_DONTWAIT);
  if (got > 0) moved_ += static_cast<size_t>(got);
  return got;
}

void Comm::finish_piece() {
  moved_ = 0;
  piece_ = nullptr;
  into_->done = std::all_of(into_->pieces.begin(), into_->pieces.begin() + into_->count,
                            [](const Request::Piece& piece) { return piece.matched; });
}

Outcome Comm::receive_some() {
  while (oldest() != nullptr) {
    std::byte thrown[4096];
    long got = 1;
    if (moved_ < sizeof header_) {
      got = read_into(reinterpret_cast<std::byte*>(&header_) + moved_, sizeof header_ - moved_);
    } else if (piece_ == nullptr) {
      if (const Outcome matched = match(); matched != Outcome::success) return matched;
    } else if (const size_t at = moved_ - sizeof header_; at < piece_->size) {
      std::byte* const to = rounded_down(piece_->data) + at;
      got = into_->dropped ? read_into(thrown, std::min(sizeof thrown, piece_->size - at))
                           : read_into(to, piece_->size - at);
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Outcome::success;
    if (got <= 0) return is_broken("death") ? Outcome::success : Outcome::remote_error;
    if (piece_ != nullptr && moved_ == sizeof header_ + piece_->size) finish_piece();
  }
  return Outcome::success;
}

}  // namespace weft::nccl_socket
