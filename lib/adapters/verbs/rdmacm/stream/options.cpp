// SPDX-License-Identifier: BSD-3-Clause
// Options of rsockets: rsetsockopt() and rgetsockopt(). What a stream has no use for is kept and
// given back: probes of a dead peer are repeated by the queue pair, not by the socket.
#include <netinet/tcp.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/adapters/verbs/rdmacm/calls.hpp"
#include "lib/adapters/verbs/rdmacm/datagram/calls.hpp"
#include "lib/adapters/verbs/rdmacm/objects.hpp"
#include "lib/adapters/verbs/rdmacm/queue_pair.hpp"
#include "lib/adapters/verbs/rdmacm/stream/calls.hpp"
#include "lib/base/check.hpp"

namespace weft::rdmacm::stream {
namespace {

// One of `flag` and `size` is set.
struct Option {
  int level, name;
  bool Options::*flag = nullptr;
  uint32_t Options::*size = nullptr;
  uint32_t least = 0, most = 0;  // sizes beyond these are cut
  uint32_t unit = 1;             // a power of two, to which sizes are cut
  bool fixed = false;            // by connecting
};
constexpr uint32_t kLeastBuffer = 4096, kMostBuffer = 1u << 28;
constexpr uint32_t kLeastQueue = 8, kMostQueue = 16384;
constexpr uint32_t kMostInline = 64, kMostSeconds = 32767;
constexpr char kCongestionControl[] = "rsocket";  // that of the device
constexpr Option kOptions[] = {
    {SOL_SOCKET, SO_REUSEADDR, &Options::reuses_address},
    {SOL_SOCKET, SO_KEEPALIVE, &Options::keeps_alive},
    {SOL_SOCKET, SO_OOBINLINE, &Options::keeps_urgent_inline},
    {IPPROTO_TCP, TCP_NODELAY, &Options::no_delay},
    {IPPROTO_IPV6, IPV6_V6ONLY, &Options::ipv6_only},
    {SOL_SOCKET, SO_SNDBUF, nullptr, &Options::send_buffer, kLeastBuffer, kMostBuffer, 8, true},
    {SOL_SOCKET, SO_RCVBUF, nullptr, &Options::receive_buffer, kLeastBuffer, kMostBuffer, 8, true},
    {IPPROTO_TCP, TCP_KEEPIDLE, nullptr, &Options::keepalive_s, 1, kMostSeconds},
    {IPPROTO_TCP, TCP_KEEPINTVL, nullptr, &Options::keepalive_interval_s, 1, kMostSeconds},
    {IPPROTO_TCP, TCP_KEEPCNT, nullptr, &Options::keepalive_probes, 1, 127},
    {SOL_RDMA, RDMA_SQSIZE, nullptr, &Options::send_queue, kLeastQueue, kMostQueue, 1, true},
    {SOL_RDMA, RDMA_RQSIZE, nullptr, &Options::receive_queue, kLeastQueue, kMostQueue, 1, true},
    {SOL_RDMA, RDMA_INLINE, nullptr, &Options::inline_bytes, 0, kMostInline, 1, true},
    {SOL_RDMA, RDMA_IOMAPSIZE, nullptr, &Options::mappings, 0, kMostMappings, 1, true},
};

// Null: no socket option of that name.
const Option* option_of(int level, int name) noexcept {
  const auto* const found = std::find_if(
      std::begin(kOptions), std::end(kOptions),
      [&](const Option& option) { return option.level == level && option.name == name; });
  return found != std::end(kOptions) ? found : nullptr;
}

bool has_own_form(int level, int name) noexcept {
  return (level == SOL_SOCKET && (name == SO_ERROR || name == SO_LINGER)) ||
         (level == IPPROTO_TCP &&
          (name == TCP_MAXSEG || name == TCP_CONGESTION || name == TCP_INFO)) ||
         (level == IPPROTO_IP && name == IP_TOS);
}

int no_such_option(const char* call, int level, int name) {
  return refuse(
      ENOPROTOOPT, call,
      ("rsockets have no option " + std::to_string(name) + " of level " + std::to_string(level))
          .c_str());
}

int set_linger(Options& options, const void* value, socklen_t length) {
  linger wanted{};
  if (length < sizeof wanted) return refuse(EINVAL, "rsetsockopt", "the value is no linger");
  std::memcpy(&wanted, value, sizeof wanted);
  options.linger_s = wanted.l_onoff != 0 ? wanted.l_linger : -1;
  return 0;
}

// Of the connection that is made afterwards.
int set_traffic_class(Socket& s, int number) {
  const auto byte = static_cast<uint8_t>(number);
  return rdma_set_option(s.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, const_cast<uint8_t*>(&byte),
                         sizeof byte);
}

int set_size(Socket& s, const Option& option, int number) {
  constexpr const char* kCall = "rsetsockopt";
  if (s.phase >= Phase::resolving_address && option.fixed) {
    if (option.level == SOL_SOCKET) return 0;  // a hint
    return refuse(EINVAL, kCall, "the size is fixed when the socket connects");
  }
  if (option.level == IPPROTO_TCP && number <= 0)
    return refuse(EINVAL, kCall,
                  ("the value is " + std::to_string(number) + ", and must be positive").c_str());
  auto size = static_cast<uint32_t>(std::max(number, 0));
  if (option.size == &Options::mappings) size = (size + kMappingUnit - 1) & ~(kMappingUnit - 1);
  s.options.*option.size = std::clamp(size, option.least, option.most) & ~(option.unit - 1);
  return 0;
}

int set_flag(Socket& s, const Option& option, int number) {
  s.options.*option.flag = number != 0;
  if (option.flag == &Options::reuses_address)
    return rdma_set_option(s.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &number, sizeof number);
  if (option.flag == &Options::ipv6_only)
    return rdma_set_option(s.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof number);
  return 0;
}

int set(Socket& s, int level, int name, const void* value, socklen_t length) {
  constexpr const char* kCall = "rsetsockopt";
  if (value == nullptr) return refuse(EINVAL, kCall, "the value is null");
  if (level == SOL_RDMA && name == RDMA_ROUTE)
    return refuse(EOPNOTSUPP, kCall,
                  "RDMA_ROUTE: over Ethernet the kernel's routing table applies");
  if (level == SOL_SOCKET && name == SO_LINGER) return set_linger(s.options, value, length);
  if (level == IPPROTO_TCP && name == TCP_CONGESTION) return 0;  // the device's holds
  int number = 0;
  if (length < sizeof number) return refuse(EINVAL, kCall, "the value is no int");
  std::memcpy(&number, value, sizeof number);
  if (level == IPPROTO_TCP && name == TCP_MAXSEG) return 0;  // the path's MTU holds
  if (level == IPPROTO_IP && name == IP_TOS) return set_traffic_class(s, number);
  const Option* const option = option_of(level, name);
  if (option == nullptr) return no_such_option(kCall, level, name);
  WEFT_CHECK((option->flag != nullptr) != (option->size != nullptr));
  const int result =
      option->flag != nullptr ? set_flag(s, *option, number) : set_size(s, *option, number);
  begin_keepalive(s);
  return result;
}

int give(const void* value, size_t size, void* out, socklen_t* length) {
  const size_t part = std::min<size_t>(size, *length);
  std::memcpy(out, value, part);
  *length = static_cast<socklen_t>(part);
  return 0;
}
int give(int value, void* out, socklen_t* length) {
  return give(&value, sizeof value, out, length);
}

// Bytes of a packet; before the device is known, of 1500 bytes of Ethernet.
int largest_segment(const Socket& s) {
  const Context* const context = of(s.id).context;
  return 128 << int{context != nullptr ? path_mtu_of(*context) : IBV_MTU_1024};
}

// What monitors of TCP ask for; there is no more that a queue pair would say.
tcp_info information(const Socket& s) {
  tcp_info about{};
  about.tcpi_state = s.phase == Phase::connected ? TCP_ESTABLISHED : TCP_CLOSE;
  about.tcpi_snd_mss = about.tcpi_rcv_mss = static_cast<uint32_t>(largest_segment(s));
  about.tcpi_snd_cwnd = s.options.send_queue;
  return about;
}

int get(Socket& s, int level, int name, void* value, socklen_t* length) {
  if (level == SOL_SOCKET && name == SO_ERROR) {
    const int error = s.error;
    s.error = 0;
    return give(error, value, length);
  }
  if (level == SOL_SOCKET && name == SO_LINGER) {
    const linger has{.l_onoff = s.options.linger_s >= 0,
                     .l_linger = std::max(s.options.linger_s, 0)};
    return give(&has, sizeof has, value, length);
  }
  if (level == IPPROTO_TCP && name == TCP_MAXSEG) return give(largest_segment(s), value, length);
  if (level == IPPROTO_TCP && name == TCP_CONGESTION)
    return give(kCongestionControl, sizeof kCongestionControl, value, length);
  if (level == IPPROTO_TCP && name == TCP_INFO) {
    const tcp_info about = information(s);
    return give(&about, sizeof about, value, length);
  }
  if (level == IPPROTO_IP && name == IP_TOS) return give(int{of(s.id).tos}, value, length);
  const Option* const option = option_of(level, name);
  if (option == nullptr) return no_such_option("rgetsockopt", level, name);
  const int has = option->flag != nullptr ? int{s.options.*option->flag}
                                          : static_cast<int>(s.options.*option->size);
  return give(has, value, length);
}

// Options of a datagram socket are hints: its queues and buffers have one size.
bool is_known(int level, int name) noexcept {
  return option_of(level, name) != nullptr || has_own_form(level, name);
}

}  // namespace
}  // namespace weft::rdmacm::stream

using namespace weft::rdmacm;
using namespace weft::rdmacm::stream;

int rsetsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  if (datagram::is_datagram(fd))
    return is_known(level, name) ? 0 : no_such_option("rsetsockopt", level, name);
  return with_socket("rsetsockopt", fd,
                     [&](Socket& s, auto&) { return set(s, level, name, value, length); });
}

int rgetsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  if (datagram::is_datagram(fd))
    return is_known(level, name) ? give(0, value, length)
                                 : no_such_option("rgetsockopt", level, name);
  return with_socket("rgetsockopt", fd,
                     [&](Socket& s, auto&) { return get(s, level, name, value, length); });
}
