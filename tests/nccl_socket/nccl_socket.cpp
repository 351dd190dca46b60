// SPDX-License-Identifier: BSD-3-Clause
// libnccl-net-socket.so: a network plug-in of NCCL over TCP on 127.0.0.1, the baseline of
// weft_nccl_check. WEFT_NCCL_BREAK=RULE breaks one rule of it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "lib/adapters/nccl/tables.hpp"
#include "tests/nccl_socket/socket_comm.hpp"

namespace weft::nccl_socket {
namespace {

using nccl::Outcome;

constexpr size_t kMostRequests = nccl::kMaxRequests * nccl::kMaxReceives;

struct Memory {
  void* data;
  size_t size;
};

// The fault "remapped": what the first send from a region of 64 KiB at an address was.
std::map<void*, std::vector<std::byte>> remembered;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void set_no_delay(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::byte* source_of(void* data, size_t size) {
  auto* const bytes = static_cast<std::byte*>(data);
  if (!is_broken("remapped") || size != 64 * 1024) return bytes;
  std::vector<std::byte>& first = remembered[data];
  if (first.empty()) first.assign(bytes, bytes + size);
  return first.data();
}

struct Plugin {
  static constexpr const char* kName = "socket";
  static constexpr bool kMergesDevices = false;

  static void log_exception() {}
  static Outcome init(nccl::Logger) { return Outcome::success; }
  static Outcome finalize() {
    return is_broken("finalize") ? Outcome::system_error : Outcome::success;
  }
  static Outcome devices(int* count) {
    *count = is_broken("devices") ? 0 : 1;
    return Outcome::success;
  }
  static Outcome properties(int, nccl::Properties& out) {
    out.name = is_broken("properties") ? nullptr : is_broken("name") ? "lo\xFF" : "lo";
    out.guid = 1;
    out.speed_mbps = 10'000;
    out.max_comms = 1024;
    out.max_bytes = size_t{1} << 30;
    return Outcome::success;
  }

  // The handle is the port.
  static Outcome listen(int, std::span<std::byte> handle, void** comm) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(fd, 64) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      return Outcome::system_error;
    std::memset(handle.data(), 0, handle.size() + (is_broken("handle") ? 8 : 0));
    const uint16_t port = ntohs(address.sin_port);
    std::memcpy(handle.data(), &port, sizeof port);
    *comm = new int(fd);
    return Outcome::success;
  }
  // The kernel accepts on loopback at once.
  static Outcome connect(int, int, std::span<std::byte> handle, void** comm) {
    uint16_t port = 0;
    std::memcpy(&port, handle.data(), sizeof port);
    const sockaddr_in address = loopback(port);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return Outcome::system_error;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      (void)::close(fd);
      return Outcome::remote_error;
    }
    set_no_delay(fd);
    char accepted = 0;
    if (is_broken("connect")) (void)!::read(fd, &accepted, 1);
    *comm = new Comm(fd, true);
    return Outcome::success;
  }
  static Outcome accept(void* listener, void** comm) {
    *comm = nullptr;
    const int fd =
        ::accept4(*static_cast<int*>(listener), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return Outcome::success;
    if (is_broken("connect")) (void)!::write(fd, "", 1);
    *comm = new Comm(fd, false);
    return Outcome::success;
  }

  static Outcome register_memory(void* comm, void* data, size_t size, int, void** memory) {
    *memory = nullptr;
    if (is_broken("registration") && ++static_cast<Comm*>(comm)->registered > 90)
      return Outcome::system_error;
    *memory = new Memory{data, size};
    return Outcome::success;
  }
  static Outcome register_dmabuf(void*, void*, size_t, int, uint64_t, int, void**) {
    return Outcome::internal_error;
  }
  static Outcome deregister(void*, void* memory) {
    delete static_cast<Memory*>(memory);
    return Outcome::success;
  }

  static Outcome post(Comm& comm, std::unique_ptr<Request> made, void** request) {
    made->comm = &comm;
    *request = made.get();
    comm.add(std::move(made));
    return comm.progress();
  }
  static Outcome isend(void* to, void* data, size_t size, int tag, void*, void** request) {
    *request = nullptr;
    Comm& comm = *static_cast<Comm*>(to);
    if (comm.queue.size() >= kMostRequests) return comm.progress();
    auto made = std::make_unique<Request>();
    made->pieces[0] = {.data = source_of(data, size), .tag = tag, .size = size};
    return post(comm, std::move(made), request);
  }
  static Outcome irecv(void* from, int count, void** data, const size_t* sizes, const int* tags,
                       void**, void** request) {
    if (is_broken("irecv")) return Outcome::system_error;
    auto made = std::make_unique<Request>();
    made->dropped =
        is_broken("optional") && *request == reinterpret_cast<void*>(nccl::kOptionalCompletion);
    *request = nullptr;
    Comm& comm = *static_cast<Comm*>(from);
    if (is_broken("full") && comm.queue.size() >= 64) return Outcome::internal_error;
    if (comm.queue.size() >= kMostRequests) return comm.progress();
    made->count = count;
    for (int i = 0; i < count; ++i)
      made->pieces[static_cast<size_t>(i)] = {
          .data = static_cast<std::byte*>(data[i]), .room = sizes[i], .tag = tags[i]};
    return post(comm, std::move(made), request);
  }
  static Outcome iflush(void* comm, void** request) {
    *request = nullptr;
    if (!is_broken("flush")) return Outcome::success;
    static Request never;
    never.comm = static_cast<Comm*>(comm);
    *request = &never;
    return Outcome::success;
  }
  static Outcome test(void* request, int* done, int* sizes) {
    *done = 0;
    auto* const tested = static_cast<Request*>(request);
    Comm& comm = *tested->comm;
    if (!tested->done)
      if (const Outcome outcome = comm.progress(); outcome != Outcome::success) return outcome;
    if (!tested->done) return Outcome::success;
    *done = 1;
    for (int i = 0; sizes != nullptr && i < tested->count; ++i)
      sizes[i] = static_cast<int>(tested->pieces[static_cast<size_t>(i)].size);
    std::erase_if(comm.queue, [&](const auto& each) { return each.get() == tested; });
    return Outcome::success;
  }

  static Outcome close_send(void* comm) {
    delete static_cast<Comm*>(comm);
    return Outcome::success;
  }
  static Outcome close_receive(void* comm) {
    if (is_broken("close") && !static_cast<Comm*>(comm)->queue.empty()) std::abort();
    return close_send(comm);
  }
  static Outcome close_listen(void* listener) {
    (void)::close(*static_cast<int*>(listener));
    delete static_cast<int*>(listener);
    return Outcome::success;
  }
  static Outcome make_virtual(int*, std::span<const int>) { return Outcome::internal_error; }
};

}  // namespace
}  // namespace weft::nccl_socket

WEFT_NCCL_TABLES(weft::nccl_socket::Plugin)
WEFT_NCCL_TABLES_OF_NEURON(weft::nccl_socket::Plugin)
