// SPDX-License-Identifier: BSD-3-Clause
// Two streams with the test between them: it carries the bytes of each side, and may keep, change
// or replace them. Each side sends one message and expects that of the other.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/socket_gid.hpp"
#include "lib/crypto/stream.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/secret_file.hpp"

namespace weft::crypto {

using test::SecretFile;

inline base::SocketAddress ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  base::SocketAddress address;
  address.storage = base::socket_address(Gid::from_ipv4(a, b, c, d), 7);
  address.size = sizeof(sockaddr_in);
  return address;
}
inline const base::SocketAddress kLoopback = ipv4(127, 0, 0, 1);
inline const base::SocketAddress kElsewhere = ipv4(192, 0, 2, 1);  // RFC 5737: for documents

inline Terms terms_of(const Security& security, Purpose purpose = Purpose::connect) {
  const Result<Terms> terms = terms_for(security, purpose, kLoopback);
  REQUIRE(terms);
  return *terms;
}

inline std::string text_of(const TermsBytes& terms) {
  return {reinterpret_cast<const char*>(&terms), sizeof terms};
}

// One end, and what became of it.
class End {
 public:
  End(Side side, const Terms& terms, std::string says) : says_(std::move(says)) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    outside_ = base::Socket(fds[1]);
    stream_ = *Stream::open(base::Socket(fds[0]), side, terms);
  }

  // As far as possible without bytes of the other.
  void advance() {
    if (error) return;
    take(stream_.establish());
    if (error || !stream_.established()) return;
    if (!said_) take(stream_.queue(std::as_bytes(std::span(says_.data(), says_.size()))));
    said_ = true;
    if (!error) take(stream_.flush());
    if (!error) take(stream_.receive(1024));
    received = stream_.received();
  }
  // What it has sent.
  std::string sent() {
    char part[8192];
    const ssize_t n = ::recv(outside_.fd(), part, sizeof part, MSG_DONTWAIT);
    return {part, static_cast<size_t>(std::max<ssize_t>(n, 0))};
  }
  void give(const std::string& bytes) {
    (void)::send(outside_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  bool established() const { return stream_.established(); }

  std::optional<Error> error;
  std::string received;

 private:
  void take(const Result<void>& result) {
    if (!result && result.error().code != Code::would_block) error = result.error();
  }

  std::string says_;
  base::Socket outside_;
  Stream stream_;
  bool said_ = false;
};

inline constexpr const char* kAsks = "what the connecting side says";
inline constexpr const char* kAnswers = "what the listening side says";

struct Dialogue {
  Dialogue(const Terms& connecting, const Terms& listening)
      : a(Side::connecting, connecting, kAsks), b(Side::listening, listening, kAnswers) {}

  // Both ends, until neither moves. `carry` may change what `from` has sent (0: the connecting
  // side), beginning with byte `at` of all that it sent.
  using Carry = std::function<void(int from, size_t at, std::string& bytes)>;
  void run(const Carry& carry = [](int, size_t, std::string&) {}) {
    for (int idle = 0; idle < 3; ++idle) {
      End* const ends[] = {&a, &b};
      for (int from = 0; from < 2; ++from) {
        ends[from]->advance();
        std::string bytes = ends[from]->sent();
        if (bytes.empty()) continue;
        idle = 0;
        const size_t at = sent[static_cast<size_t>(from)].size();
        sent[static_cast<size_t>(from)] += bytes;
        carry(from, at, bytes);
        ends[1 - from]->give(bytes);
      }
    }
    a.advance();
    b.advance();
  }

  End a, b;
  std::array<std::string, 2> sent;  // before `carry`
};

}  // namespace weft::crypto
