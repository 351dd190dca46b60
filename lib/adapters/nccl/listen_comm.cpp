// SPDX-License-Identifier: BSD-3-Clause
// The accepting side. See bootstrap.hpp. Anyone may connect to the TCP port: who does not show the
// handle's nonce within kHelloMs is dropped, and before if more than kMaxAccepting connections
// wait.
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "lib/adapters/nccl/bootstrap.hpp"
#include "lib/adapters/nccl/log.hpp"

namespace weft::nccl {
namespace {

constexpr int64_t kHelloMs = 10'000;
constexpr size_t kMaxAccepting = 64;

// The first IPv4 address of the interface with this index.
Gid address_of_interface(uint32_t index) {
  char name[IF_NAMESIZE] = {};
  ifaddrs* list = nullptr;
  if (index == 0 || ::if_indextoname(index, name) == nullptr || ::getifaddrs(&list) != 0) return {};
  Gid found;
  for (const ifaddrs* each = list; each != nullptr && found == Gid{}; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if (std::strcmp(each->ifa_name, name) != 0) continue;
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    uint8_t bytes[4];
    std::memcpy(bytes, &v4->sin_addr, sizeof bytes);
    found = Gid::from_ipv4(bytes[0], bytes[1], bytes[2], bytes[3]);
  }
  ::freeifaddrs(list);
  return found;
}

// At the device's own address, if the kernel has it; else at one of its interface; shared memory
// stays on this host.
Result<Listening> listen_for(const DeviceAttributes& a, Gid& address) {
  address = a.port == "shm" ? Gid::from_ipv4(127, 0, 0, 1) : a.gid;
  Result<Listening> listening = listen_at(address, a.interface_index);
  if (listening || listening.error().code != Code::not_found) return listening;
  const Gid of_interface = address_of_interface(a.interface_index);
  if (of_interface == Gid{})
    return Error{Code::not_found, "the kernel has no address for TCP beside " + a.spec +
                                      ": connections are set up over TCP"};
  address = of_interface;
  return listen_at(address, a.interface_index);
}

}  // namespace

ListenComm::ListenComm(const NetDevice& device, Listening listening, const Nonce& nonce)
    : device_(device), listening_(std::move(listening)), nonce_(nonce) {}

Result<std::unique_ptr<ListenComm>> ListenComm::create(const NetDevice& device,
                                                       std::span<std::byte> bytes) {
  Handle handle;
  Result<Listening> listening = listen_for(device.attributes(), handle.address);
  if (!listening) return listening.error();
  handle.port = listening->port;
  for (size_t half = 0; half < 2; ++half) {
    const Result<uint64_t> random = random_number();
    if (!random) return random.error();
    std::memcpy(handle.nonce.data() + 8 * half, &*random, 8);
  }
  emit_handle(handle, bytes);
  return std::unique_ptr<ListenComm>(new ListenComm(device, std::move(*listening), handle.nonce));
}

// Drops the oldest connection that has not shown the handle if there are too many. False: all have.
bool ListenComm::make_room() {
  if (accepting_.size() < kMaxAccepting) return true;
  const auto found = std::find_if(accepting_.begin(), accepting_.end(),
                                  [](const Accepting& each) { return !each.has_handle; });
  if (found == accepting_.end()) return false;
  accepting_.erase(found);
  log_info("dropped a TCP connection to a listener: more than " + std::to_string(kMaxAccepting) +
           " wait");
  return true;
}

// Less than kMaxAccepting at once: each is read before it may be dropped.
void ListenComm::take_new() {
  for (size_t i = 1; i < kMaxAccepting; ++i) {
    const int fd =
        ::accept4(listening_.socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    Descriptor socket(fd);
    if (!make_room()) return;
    accepting_.push_back({.control = Control(std::move(socket)),
                          .peer = "the connecting peer",
                          .deadline_ms = coarse_ms() + kHelloMs});
  }
}

Result<void> ListenComm::on_hello(Accepting& each, std::span<const std::byte> body) {
  const Result<Nonce> nonce = parse_nonce(body);
  if (!nonce || *nonce != nonce_)
    return Error{Code::permission_denied, "it does not have the handle"};
  each.has_handle = true;
  const Result<Hello> peer = parse_hello(body);
  if (!peer) return peer.error();
  each.peer = peer->identity;
  Result<std::unique_ptr<ReceiveComm>> comm = ReceiveComm::create(device_);
  if (!comm) return comm.error();
  each.ours = Bootstrap::hello_of(**comm, nonce_);
  each.ours.traffic_class = peer->traffic_class;
  each.theirs = *peer;
  Bootstrap::use_ring(**comm, *peer);
  each.comm = std::move(*comm);
  each.deadline_ms = coarse_ms() + connect_limit_ms();
  return establish(each);
}

Result<void> ListenComm::establish(Accepting& each) {
  if (const Result<void> done = Bootstrap::establish(*each.comm, each.ours, each.theirs); !done)
    return done.error().code == Code::busy ? Result<void>() : done;
  each.established = true;
  each.control.send(emit_hello(each.ours));
  return {};
}

// True: established.
Result<bool> ListenComm::advance(Accepting& each) {
  Result<std::optional<Control::Incoming>> message = each.control.receive();
  if (!message) return message.error();
  if (!*message && coarse_ms() >= each.deadline_ms)
    return Error{Code::timed_out,
                 each.comm ? "it did not say that it is ready" : "it did not say who it is"};
  if (each.comm && !each.established)
    if (const Result<void> done = establish(each); !done) return refuse(each, done.error());
  if (!*message) return false;
  const Message kind = (*message)->kind;
  if (kind == Message::reject)
    return Error{Code::peer_failed, "it refused: " + parse_reject((*message)->body)};
  if (kind == Message::ready && each.established) return true;
  if (kind != Message::hello || each.comm)
    return Error{Code::invalid_argument, "it sent a message out of order"};
  const Result<void> taken = on_hello(each, (*message)->body);
  if (!taken) return refuse(each, taken.error());
  return false;
}

// Tells the peer why, if it is the one that has the handle.
Error ListenComm::refuse(Accepting& each, const Error& why) {
  if (why.code != Code::permission_denied) each.control.send(emit_reject(why.message));
  return why;
}

Result<std::unique_ptr<ReceiveComm>> ListenComm::accept() {
  take_new();
  for (auto each = accepting_.begin(); each != accepting_.end();) {
    const Result<bool> established = advance(*each);
    if (established && !*established) {
      ++each;
      continue;
    }
    Accepting taken = std::move(*each);
    each = accepting_.erase(each);
    if (established) {
      Bootstrap::adopt(*taken.comm, std::move(taken.control));
      log_info("receives from " + taken.peer + " over " + device_.name);
      return std::move(taken.comm);
    }
    const std::string text = taken.peer + ": " + established.error().message;
    if (taken.has_handle) return Error{established.error().code, text};
    log_info("dropped a TCP connection to a listener: " + text);
  }
  return std::unique_ptr<ReceiveComm>();
}

}  // namespace weft::nccl
