// SPDX-License-Identifier: BSD-3-Clause
// Setting up connections: what listen(), connect() and accept() do between two calls, none of which
// blocks. The messages and their order are in messages.hpp.
#pragma once

#include <list>
#include <memory>
#include <span>

#include "lib/adapters/nccl/receive_comm.hpp"
#include "lib/adapters/nccl/send_comm.hpp"

namespace weft::nccl {

// "host NAME, process PID".
std::string identity_of_process();
// How long either side waits for the other: WEFT_NCCL_CONNECT_S seconds, 60 by default. What is no
// number of seconds is logged, once.
int64_t connect_limit_ms();

// The steps that need the inside of a communicator.
class Bootstrap {
 public:
  static Hello hello_of(const Comm& comm, const Nonce& nonce);
  static void add_ring(const SendComm& comm, Hello& hello);
  // Both sides, when they have the other's hello: queue pairs to RTS. Error: mismatch, and those of
  // QueuePair::modify(); busy: call again later.
  static Result<void> establish(Comm& comm, const Hello& ours, const Hello& peer);
  static void use_ring(ReceiveComm& comm, const Hello& peer);
  static void adopt(Comm& comm, Control control) { comm.control_ = std::move(control); }
};

// A connection that connect() has begun.
class Connecting {
 public:
  // Errors: invalid_argument (traffic class), io_error, those of SendComm::create().
  static Result<std::unique_ptr<Connecting>> start(const NetDevice& device, int traffic_class,
                                                   const Handle& handle);
  // The connection when it is established, null before. Errors: peer_failed, disconnected,
  // timed_out, mismatch, ...
  Result<std::unique_ptr<SendComm>> advance();
  bool is_overdue() const;

 private:
  enum class Step : uint8_t { connect, hello };

  Connecting(std::unique_ptr<SendComm> comm, Control control, const Handle& handle);
  Result<void> step();
  Result<void> wait() const;
  Result<void> on_message(const Control::Incoming& message);
  Result<void> establish();

  std::unique_ptr<SendComm> comm_;
  Control control_;
  Handle handle_;
  Hello ours_;
  std::optional<Hello> peer_;
  Step step_ = Step::connect;
  bool established_ = false;
  int64_t limit_ms_ = connect_limit_ms();
  int64_t deadline_ms_ = 0;
};

class ListenComm {
 public:
  // Listens, and writes the handle. Errors: not_found, io_error.
  static Result<std::unique_ptr<ListenComm>> create(const NetDevice& device,
                                                    std::span<std::byte> handle);
  // A connection that is established, or null. A peer that fails on the way is logged and dropped;
  // the error is returned if it had shown the handle: it is the one that is waited for.
  Result<std::unique_ptr<ReceiveComm>> accept();

 private:
  struct Accepting {
    Control control;
    std::unique_ptr<ReceiveComm> comm;  // once the peer's hello was taken
    Hello ours, theirs;
    bool has_handle = false;   // showed the nonce: the peer that is waited for
    bool established = false;  // our hello was sent
    std::string peer;
    int64_t deadline_ms = 0;
  };

  ListenComm(const NetDevice& device, Listening listening, const Nonce& nonce);
  void take_new();
  bool make_room();
  Result<bool> advance(Accepting& each);
  Result<void> on_hello(Accepting& each, std::span<const std::byte> body);
  Result<void> establish(Accepting& each);
  static Error refuse(Accepting& each, const Error& why);

  const NetDevice& device_;
  Listening listening_;
  Nonce nonce_;
  std::list<Accepting> accepting_;
};

}  // namespace weft::nccl
