// SPDX-License-Identifier: BSD-3-Clause
// What both sides share, and the connecting side. See bootstrap.hpp.
#include "lib/adapters/nccl/bootstrap.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "lib/adapters/nccl/log.hpp"

namespace weft::nccl {

std::string identity_of_process() {
  char host[64] = {};
  (void)::gethostname(host, sizeof host - 1);
  return std::string("host ") + host + ", process " + std::to_string(::getpid());
}

int64_t connect_limit_ms() {
  const char* const given = std::getenv("WEFT_NCCL_CONNECT_S");
  if (given == nullptr) return 60'000;
  char* end = nullptr;
  const double seconds = std::strtod(given, &end);
  if (end != given && *end == '\0' && seconds >= 0.001 && seconds <= 1e6)
    return static_cast<int64_t>(seconds * 1000);
  static std::once_flag logged;
  std::call_once(logged, [&] {
    log_warning(std::string("WEFT_NCCL_CONNECT_S=") + given +
                " is no number of seconds from 0.001 to 1000000: it is 60");
  });
  return 60'000;
}

Hello Bootstrap::hello_of(const Comm& comm, const Nonce& nonce) {
  Hello hello;
  hello.nonce = nonce;
  hello.device = comm.device_.spec();
  hello.identity = identity_of_process();
  hello.service = comm.device_.attributes().qp_type;
  hello.max_part = comm.device_.max_part;
  hello.lanes = addresses_of(comm.lanes_);
  return hello;
}

void Bootstrap::add_ring(const SendComm& comm, Hello& hello) {
  hello.ring_address = reinterpret_cast<uint64_t>(comm.ring_.get());
  hello.ring_rkey = comm.ring_region_.rkey();
}

void Bootstrap::use_ring(ReceiveComm& comm, const Hello& peer) {
  comm.ring_address_ = peer.ring_address;
  comm.ring_rkey_ = peer.ring_rkey;
}

Result<void> Bootstrap::establish(Comm& comm, const Hello& ours, const Hello& peer) {
  comm.peer_ = peer.identity + " (" + peer.device + ", " + to_string(peer.lanes[0].gid) + ")";
  if (const Result<void> fit = check_peer(ours, peer); !fit) return fit;
  comm.part_size_ = std::min(ours.max_part, peer.max_part);
  return connect_lanes(comm.lanes_, peer.lanes, ours.traffic_class);
}

Connecting::Connecting(std::unique_ptr<SendComm> comm, Control control, const Handle& handle)
    : comm_(std::move(comm)),
      control_(std::move(control)),
      handle_(handle),
      deadline_ms_(coarse_ms() + limit_ms_) {}

Result<std::unique_ptr<Connecting>> Connecting::start(const NetDevice& device, int traffic_class,
                                                      const Handle& handle) {
  if (traffic_class > UINT8_MAX)
    return Error{Code::invalid_argument,
                 "traffic class " + std::to_string(traffic_class) + ": it has 8 bits, DSCP * 4"};
  Result<std::unique_ptr<SendComm>> comm = SendComm::create(device);
  if (!comm) return comm.error();
  Result<Descriptor> socket =
      start_connect(handle.address, handle.port, device.attributes().interface_index);
  if (!socket) return socket.error();
  std::unique_ptr<Connecting> made(
      new Connecting(std::move(*comm), Control(std::move(*socket)), handle));
  made->ours_ = Bootstrap::hello_of(*made->comm_, handle.nonce);
  Bootstrap::add_ring(*made->comm_, made->ours_);
  // The lower two bits are ECN's.
  if (traffic_class > 0) made->ours_.traffic_class = static_cast<uint8_t>(traffic_class & 0xFC);
  return made;
}

bool Connecting::is_overdue() const { return coarse_ms() > deadline_ms_ + 1000; }

Result<std::unique_ptr<SendComm>> Connecting::advance() {
  Result<void> moved = step();
  if (moved && !established_) moved = wait();
  if (!moved) {
    const Error& why = moved.error();
    if (why.code != Code::peer_failed && why.code != Code::disconnected)
      control_.send(emit_reject(why.message));
    return Error{why.code, "cannot connect to " + text_of(handle_.address, handle_.port) + ": " +
                               why.message};
  }
  if (!established_) return std::unique_ptr<SendComm>();
  Bootstrap::adopt(*comm_, std::move(control_));
  return std::move(comm_);
}

// Error: timed_out.
Result<void> Connecting::wait() const {
  if (coarse_ms() < deadline_ms_) return {};
  const std::string waited = limit_ms_ % 1000 != 0 ? std::to_string(limit_ms_) + " ms"
                                                   : std::to_string(limit_ms_ / 1000) + " s";
  if (step_ == Step::connect)
    return Error{Code::timed_out,
                 "no answer for " + waited + "; is there a route, and does no firewall drop TCP?"};
  return Error{Code::timed_out,
               "TCP is connected, but the peer's rank has not called accept() for " + waited +
                   " (WEFT_NCCL_CONNECT_S); is it stuck?"};
}

Result<void> Connecting::step() {
  if (step_ == Step::connect) {
    const Result<bool> connected = control_.connected();
    if (!connected) return connected.error();
    if (!*connected) return {};
    control_.send(emit_hello(ours_));
    step_ = Step::hello;
  }
  if (peer_) return establish();
  Result<std::optional<Control::Incoming>> message = control_.receive();
  if (!message &&
      (message.error().code == Code::disconnected || message.error().code == Code::peer_failed))
    return Error{Code::disconnected,
                 "the peer closed the connection before it was established; its log says why"};
  if (!message) return message.error();
  return *message ? on_message(**message) : Result<void>();
}

Result<void> Connecting::on_message(const Control::Incoming& message) {
  if (message.kind == Message::reject)
    return Error{Code::peer_failed, "the peer refused: " + parse_reject(message.body)};
  if (message.kind != Message::hello)
    return Error{Code::invalid_argument, "the peer's first message is no hello"};
  Result<Hello> peer = parse_hello(message.body);
  if (!peer) return peer.error();
  peer_ = std::move(*peer);
  return establish();
}

Result<void> Connecting::establish() {
  if (const Result<void> done = Bootstrap::establish(*comm_, ours_, *peer_); !done)
    return done.error().code == Code::busy ? Result<void>() : done;
  control_.send(emit(Message::ready, {}));
  established_ = true;
  log_info("sends to " + peer_->identity + " over " + ours_.device + ", " +
           std::to_string(std::min(ours_.lanes.size(), peer_->lanes.size())) +
           " queue pair(s), traffic class " + std::to_string(ours_.traffic_class));
  return {};
}

}  // namespace weft::nccl
