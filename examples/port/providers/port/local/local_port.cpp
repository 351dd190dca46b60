// SPDX-License-Identifier: BSD-3-Clause
// One copy by the kernel each way. The sockets have abstract names, which need no file.
#include "providers/port/local/local_port.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace weft::port {

namespace {

struct Name {
  sockaddr_un address = {};
  socklen_t length = 0;
};

Name name_of(const std::string& job, uint8_t number) {
  const std::string text = "weft-local-" + job + "-" + std::to_string(number);
  Name name;
  name.address.sun_family = AF_UNIX;
  const size_t length = std::min(text.size(), sizeof name.address.sun_path - 1);
  std::memcpy(name.address.sun_path + 1, text.data(), length);
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return name;
}

}  // namespace

LocalPort::LocalPort(int socket, std::string job, uint8_t number)
    : socket_(socket), job_(std::move(job)), number_(number), buffers_(kBurst) {
  capabilities_.burst = kBurst;
  capabilities_.integrity_bits = 0;  // memory does not damage frames: no ICRC
  capabilities_.ecn = true;
  capabilities_.lossless = true;
}

LocalPort::~LocalPort() { close(socket_); }

size_t LocalPort::receive(std::span<transport::Frame> frames) noexcept {
  size_t n = 0;
  for (; n < std::min(frames.size(), buffers_.size()); ++n) {
    Buffer& buffer = buffers_[n];
    iovec parts[] = {{&buffer.header, sizeof buffer.header}, {buffer.bytes.data(), kMaxFrame}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t size = recvmsg(socket_, &message, MSG_DONTWAIT);
    if (size < static_cast<ssize_t>(sizeof buffer.header)) break;
    frames[n] = {};
    frames[n].path = &buffer.header.path;
    frames[n].bytes = buffer.bytes.data();
    frames[n].length = static_cast<uint32_t>(size - sizeof buffer.header);
    frames[n].ip_id = buffer.header.ip_id;
    frames[n].ecn = buffer.header.ecn;
  }
  return n;
}

void LocalPort::release(std::span<const transport::Frame> frames) noexcept { (void)frames; }

size_t LocalPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  size_t n = 0;
  for (; n < frames.size(); ++n) {
    const transport::TxFrame& frame = frames[n];
    Header header = {*frame.path, frame.ip_id, frame.ecn};
    Name to = name_of(job_, header.path.destination.bytes[15]);
    iovec parts[] = {{&header, sizeof header},
                     {const_cast<std::byte*>(frame.head), frame.head_length},
                     {const_cast<std::byte*>(frame.tail), frame.tail_length}};
    msghdr message = {};
    message.msg_name = &to.address;
    message.msg_namelen = to.length;
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    if (sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) continue;
    if (errno == EAGAIN || errno == ENOBUFS) break;  // the receiver's queue is full: try again
    ++no_peer_;
  }
  return n;
}

bool LocalPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  // No descriptor says when another socket's queue has room again.
  if (want_transmit) return false;
  descriptors.push_back({socket_, POLLIN, 0});
  return true;
}

void LocalPort::append_counters(std::vector<Counter>& counters) const {
  counters.push_back({"local_tx_no_peer", no_peer_});
}

Result<std::unique_ptr<transport::Port>> open_local_port(const transport::PortOptions& options) {
  if (!options.options.empty())
    return Error{Code::invalid_argument,
                 "local has no key \"" + options.options[0].first + "\": it has none"};
  const int opened = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (opened < 0) return Error{Code::io_error, std::string("local: socket: ") + strerror(errno)};
  for (uint8_t number = 1; number != 255; ++number) {
    const Name name = name_of(options.where, number);
    if (bind(opened, reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0)
      return std::unique_ptr<transport::Port>(
          std::make_unique<LocalPort>(opened, options.where, number));
  }
  close(opened);
  return Error{Code::address_in_use, "local: job " + options.where + " has 254 members"};
}

}  // namespace weft::port
