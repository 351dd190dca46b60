// SPDX-License-Identifier: BSD-3-Clause
// A connection of the plug-in: a TCP stream of messages (tag, size, payload) one way. The receiver
// matches each message to a receive of the oldest group by tag, and leaves the rest in the socket.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/adapters/nccl/calls.hpp"

namespace weft::nccl_socket {

// Whether the environment variable WEFT_NCCL_BREAK names this fault.
bool is_broken(std::string_view fault);

struct Comm;

struct Request {
  struct Piece {
    std::byte* data = nullptr;
    size_t room = 0;
    int tag = 0;
    bool matched = false;
    size_t size = 0;
  };
  Comm* comm = nullptr;
  bool done = false;
  bool dropped = false;  // a fault: the payload is thrown away
  bool held = false;     // a fault: not sent yet
  int count = 1;
  std::array<Piece, nccl::kMaxReceives> pieces;
};

struct Comm {
  Comm(int fd, bool sends);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  void add(std::unique_ptr<Request> request);
  nccl::Outcome progress();

  int fd;
  bool sends;
  uint64_t number;  // rises with each connection
  std::deque<std::unique_ptr<Request>> queue;
  uint64_t registered = 0;  // registrations so far

 private:
  struct Header {
    int32_t tag = 0;
    uint64_t size = 0;
  };

  nccl::Outcome send_some();
  nccl::Outcome receive_some();
  nccl::Outcome match();
  Request* oldest();
  bool write_piece(Request& request);
  long read_into(void* to, size_t length);
  void finish_piece();

  Header header_;
  size_t moved_ = 0;  // bytes of header and payload that were sent or received
  Request* into_ = nullptr;
  Request::Piece* piece_ = nullptr;
  uint64_t added_ = 0;
};

}  // namespace weft::nccl_socket
