// SPDX-License-Identifier: BSD-3-Clause
// Opens the udp port and says what it can do.
#include "providers/port/udp/udp_port.hpp"

#include <linux/sock_diag.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <optional>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/log/log.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::port {

constexpr uint32_t kPollsToUnwatch = 64;  // calls of receive() after the last sleep

using namespace udp;

namespace {

constexpr uint32_t kUdpHeader = 8;
constexpr uint32_t kRoceHeaders = 12 + 4 + 16 + 4 + 4;         // BTH, XRCETH, RETH, ImmDt, ICRC
constexpr uint32_t kMostRoceHeaders = 76;                      // of the longest opcode
constexpr uint32_t kSrdHeaders = wire::kSrdLargestHeader + 4;  // and the ICRC
constexpr uint32_t kMaxMtu = 4096;
constexpr uint32_t kMinMtu = 256;
constexpr uint32_t kLoneFrameCost = 832;     // what Linux charges a socket for a small datagram
constexpr uint32_t kInFlightMost = 1 << 20;  // more only leaves the caches

uint32_t ip_header(const LocalAddress& local) { return local.ipv4() ? 20 : 40; }

// The largest path MTU whose longest frame, with `block` bytes before it, fits the interface.
uint32_t path_mtu(const LocalAddress& local, uint32_t block = 0) {
  const uint32_t headers = local.port == wire::kSrdUdpPort ? kSrdHeaders : kRoceHeaders;
  const uint32_t before = ip_header(local) + kUdpHeader + block + headers;
  const uint32_t room = local.interface_mtu > before ? local.interface_mtu - before : 0;
  return std::clamp(std::bit_floor(room), kMinMtu, kMaxMtu);
}

// What `udp.mtu` may be: of RoCE a path MTU, of SRD what fits the interface.
Result<void> check_mtu(const LocalAddress& local, const Options& options, uint16_t udp_port) {
  const uint32_t mtu = options.mtu;
  if (mtu == 0) return {};
  if (udp_port != wire::kSrdUdpPort && (!std::has_single_bit(mtu) || mtu > kMaxMtu))
    return Error{Code::invalid_argument, "udp.mtu=" + std::to_string(mtu) +
                                             ": path MTUs of RoCE are 256, 512, 1024, 2048 and "
                                             "4096; srd takes any"};
  const uint32_t packet = std::min(local.interface_mtu, 65535u);
  const uint32_t headers = udp_port == wire::kSrdUdpPort ? kSrdHeaders : kMostRoceHeaders;
  const uint32_t most = packet - std::min(packet, ip_header(local) + kUdpHeader + headers);
  if (mtu <= most) return {};
  return Error{Code::invalid_argument, "udp.mtu=" + std::to_string(mtu) +
                                           " does not fit the interface: at most " +
                                           std::to_string(most) + " there"};
}

// What a receiver surely absorbs, from the smallest buffer it may have (an unprivileged peer of
// this machine gets rmem_max): a lone frame of 4 KiB costs 2.05 times its bytes there, and the
// kernel may keep a quarter of the buffer charged for what was read already. A train costs 1.02
// times its bytes, a lone small frame 832.
uint32_t in_flight_limit(uint32_t granted) {
  uint32_t system = 212992;
  if (FILE* file = std::fopen("/proc/sys/net/core/rmem_max", "re")) {
    if (std::fscanf(file, "%u", &system) != 1) system = 212992;
    std::fclose(file);
  }
  const uint64_t buffer = std::min<uint64_t>(granted, 2ull * system);
  return static_cast<uint32_t>(std::min<uint64_t>(buffer * 3 / 8, kInFlightMost));
}

transport::Capabilities describe(const LocalAddress& local, const Options& options,
                                 uint32_t granted, uint32_t segments) {
  transport::Capabilities result;
  result.max_mtu = std::max(kMaxMtu, options.mtu);
  result.active_mtu = options.mtu != 0 ? options.mtu : path_mtu(local);
  result.burst = std::max(64u, segments);
  result.train_frames = segments;
  result.train_bytes = segments > 1 ? Sender::kMostBytes : 0;
  result.integrity_bits = local.ipv4() ? 16 : 32;
  result.gather = true;
  result.ecn = true;
  result.in_flight_limit = in_flight_limit(granted);
  result.asks = local.shift == 0;  // else a switch has the peer's UDP port
  result.packet_overhead = kLoneFrameCost;
  return result;
}

// What this machine has less of than was asked for.
void log_fall_backs(const std::string& where, const Options& options, uint32_t segments,
                    uint32_t buffer) {
  using base::Subsystem;
  if (options.gso && segments == 1)
    base::log(Subsystem::port, LogLevel::info, [&] {
      return "udp:" + where +
             ": each packet is a system call: this kernel or interface has no UDP "
             "segmentation (UDP_SEGMENT)";
    });
  const uint32_t wanted = options.rcvbuf != 0 ? options.rcvbuf : kReceiveBuffer;
  const uint32_t granted = buffer / 2;  // the kernel counts twice what was asked for
  if (granted < wanted)
    base::log(Subsystem::port, LogLevel::info, [&] {
      return "udp:" + where + ": the socket's receive buffer has " + std::to_string(granted) +
             " of the " + std::to_string(wanted) +
             " bytes wanted: as root, sysctl -w net.core.rmem_max=" + std::to_string(wanted);
    });
}

uint32_t port_limit(const LocalAddress& local, const Options& options) {
  if (options.ports != 0) return options.ports;
  if (local.loopback) return 16;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 16;
  // With the check each has two sockets.
  const rlim_t share = options.check_senders != 0 ? 8 : 4;
  return static_cast<uint32_t>(std::clamp<rlim_t>(files.rlim_cur / share, 16, 1024));
}

Sender::Limits sender_limits(const LocalAddress& local, const Options& options, uint32_t segments) {
  Sender::Limits limits;
  limits.ports = port_limit(local, options);
  if (options.sndbuf) limits.buffer = options.sndbuf;
  limits.segments = segments;
  limits.hold = options.check_senders != 0;
  return limits;
}

}  // namespace

Result<std::unique_ptr<transport::Port>> open_udp_port(const transport::PortOptions& options) {
  const Result<Options> parsed = parse_options(options);
  if (!parsed) return parsed.error();
  Result<Endpoint> endpoint = open_endpoint(options, *parsed);
  if (!endpoint) return endpoint.error();
  if (const Result<void> ok = check_mtu(endpoint->local, *parsed, options.udp_port); !ok)
    return ok.error();
  std::optional<ReceiveSocket> extra;
  LocalAddress beside = endpoint->local;
  // Members of a group forward frames by their first bytes, where telemetry would lie.
  if (options.telemetry_port != 0 && endpoint->group == nullptr) {
    beside.port = options.telemetry_port;
    beside.claim = Claim::exclusive;
    Result<ReceiveSocket> opened = open_receive_socket(beside, *parsed);
    if (!opened) return opened.error();
    extra = std::move(*opened);
  }

  const uint32_t segments = parsed->gso ? probe_segments(endpoint->local) : 1;
  log_fall_backs(options.where, *parsed, segments, endpoint->socket.buffer);
  std::unique_ptr<SenderCheck> senders;
  if (parsed->check_senders != 0) {
    Result<std::unique_ptr<SenderCheck>> check =
        SenderCheck::open(endpoint->local, endpoint->socket.socket.fd());
    if (!check) {
      if (endpoint->group != nullptr) endpoint->group->leave(std::move(endpoint->socket.socket));
      return check.error();
    }
    senders = std::move(*check);
  }
  auto port =
      std::make_unique<UdpPort>(std::move(*endpoint), *parsed, segments, std::move(senders));
  if (extra) port->add_telemetry(beside, std::move(*extra), parsed->batch);
  if (!port->usable())
    return Error{Code::no_memory, "no memory for the receive buffers of udp:" + options.where};
  return std::unique_ptr<transport::Port>(std::move(port));
}

UdpPort::UdpPort(Endpoint endpoint, const Options& options, uint32_t segments,
                 std::unique_ptr<SenderCheck> senders)
    : local_(endpoint.local),
      options_(options),
      socket_(std::move(endpoint.socket)),
      arrivals_(epoll_create1(EPOLL_CLOEXEC)),
      group_(std::move(endpoint.group)),
      senders_(std::move(senders)),
      capabilities_(describe(local_, options, socket_.buffer, segments)),
      receiver_(socket_.socket.fd(), local_, options.batch, group_.get(), senders_.get()),
      sender_(local_, sender_limits(local_, options, segments)),
      question_(local_),
      watch_(local_.interface, local_.gid) {}

UdpPort::~UdpPort() {
  if (group_ != nullptr) group_->leave(std::move(socket_.socket));
}

transport::Port::QpnRange UdpPort::qpn_range() const noexcept {
  if (group_ == nullptr) return {};
  return transport::qpn_range_of(group_->slot());
}

std::unique_ptr<UdpPort::Side> UdpPort::make_side(const LocalAddress& local, ReceiveSocket socket,
                                                  uint32_t batch) {
  const int fd = socket.socket.fd();
  return std::unique_ptr<Side>(
      new Side{local.gid, std::move(socket), Receiver(fd, local, batch, nullptr, senders_.get())});
}

// A group has a socket of its own, and so costs one more read in each turn. The kernel gives every
// process on the address its copy: no frame of a group is forwarded.
Result<void> UdpPort::join(const Gid& group) {
  if (local_.shift != 0)
    return Error{Code::not_supported, "weft_switch carries no multicast: leave udp.switched out"};
  Result<ReceiveSocket> socket = udp::open_group_socket(local_, group, options_);
  if (!socket) return socket.error();
  LocalAddress here = local_;
  here.gid = group;
  std::unique_ptr<Side> side = make_side(here, std::move(*socket), options_.batch);
  if (!side->receiver.usable())
    return Error{Code::no_memory, "no memory for the receive buffers of a multicast group"};
  groups_.push_back(std::move(side));
  return {};
}

void UdpPort::leave(const Gid& group) noexcept {
  std::erase_if(groups_, [&](const auto& side) { return side->address == group; });
}

void UdpPort::open_general_services() {
  if (group_ != nullptr) group_->open_general_services();
}

Result<void> UdpPort::claim_service(uint64_t service) {
  return group_ != nullptr ? group_->claim_service(service) : Result<void>{};
}

void UdpPort::release_service(uint64_t service) {
  if (group_ != nullptr) group_->release_service(service);
}

void UdpPort::add_telemetry(const LocalAddress& local, ReceiveSocket socket, uint32_t batch) {
  telemetry_ = make_side(local, std::move(socket), batch);
  capabilities_.telemetry = true;
  capabilities_.active_mtu =
      std::min(capabilities_.active_mtu, path_mtu(local, sizeof(wire::IntBlock)));
}

uint16_t UdpPort::source_port(uint16_t wanted, uint32_t) noexcept {
  if (senders_ != nullptr) (void)base::memory_permitting([&] { senders_->look_at_addresses(); });
  return sender_.source_port(wanted);
}

size_t UdpPort::receive(std::span<transport::Frame> frames) noexcept {
  WEFT_DCHECK(lent_ == 0);
  // The kernel tells the set of each arrival, so a socket that is polled leaves it.
  if (watched_ && !asleep_ && ++polls_ >= kPollsToUnwatch) watch_arrivals(false);
  lent_ = receiver_.receive(frames);
  if (telemetry_ != nullptr) lent_ += telemetry_->receiver.receive(frames.subspan(lent_));
  for (const auto& side : groups_) lent_ += side->receiver.receive(frames.subspan(lent_));
  // Behind what a peer sent before it ended.
  if (question_.waits() && lent_ == 0) question_.read(base::Clock::process().now(), lost_);
  return lent_;
}

void UdpPort::release(std::span<const transport::Frame> frames) noexcept {
  WEFT_DCHECK(frames.size() == lent_);
  (void)frames;
  lent_ = 0;
}

void UdpPort::ask(const transport::Path& path, std::span<const std::byte> datagram) noexcept {
  question_.ask(path.destination, path.destination_port, datagram, base::Clock::process().now());
}

size_t UdpPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  const size_t taken = sender_.transmit(frames);
  capabilities_.train_frames = sender_.segments();
  return taken;
}

bool UdpPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  if (receiver_.pending()) return false;
  if (telemetry_ != nullptr && telemetry_->receiver.pending()) return false;
  for (const auto& side : groups_)
    if (side->receiver.pending()) return false;
  if (want_transmit && sender_.blocked() < 0) return false;
  WEFT_DCHECK(!asleep_ && lent_ == 0);
  asleep_ = true;
  descriptors.push_back({watch_arrivals(true) ? arrivals_.fd() : socket_.socket.fd(), POLLIN, 0});
  if (telemetry_ != nullptr) descriptors.push_back({telemetry_->socket.socket.fd(), POLLIN, 0});
  for (const auto& side : groups_) descriptors.push_back({side->socket.socket.fd(), POLLIN, 0});
  if (group_ != nullptr) {
    descriptors.push_back({group_->fd(), POLLIN, 0});
    receiver_.expect_forwarded();
  }
  if (question_.waits()) descriptors.push_back({question_.fd(), 0, 0});  // wakes by an error
  if (want_transmit) descriptors.push_back({sender_.blocked(), POLLOUT, 0});
  return true;
}

void UdpPort::finish_wait() noexcept {
  sender_.unblock();
  question_.expect();
  asleep_ = false;
  polls_ = 0;
}

bool UdpPort::resume_wait() noexcept { return watch_arrivals(true) && !receiver_.pending(); }

// The other sockets, which few frames come to, are watched by the sleeper itself. False: no memory.
bool UdpPort::watch_arrivals(bool wanted) noexcept {
  if (wanted == watched_) return true;
  epoll_event readable{.events = EPOLLIN, .data = {}};
  WEFT_DCHECK(arrivals_ && socket_.socket);
  const int operation = wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
  if (epoll_ctl(arrivals_.fd(), operation, socket_.socket.fd(), &readable) != 0) return false;
  watched_ = wanted;
  return true;
}

void UdpPort::append_counters(std::vector<Counter>& counters) const {
  const Receiver::Counters& rx = receiver_.counters();
  const Sender::Counters& tx = sender_.counters();
  uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t length = sizeof memory;
  (void)::getsockopt(socket_.socket.fd(), SOL_SOCKET, SO_MEMINFO, memory, &length);
  counters.insert(counters.end(), {{"udp_rx_frames", rx.frames},
                                   {"udp_rx_bytes", rx.bytes},
                                   {"udp_rx_super_packets", rx.super_packets},
                                   {"udp_rx_truncated", rx.truncated},
                                   {"udp_rx_errors", rx.errors},
                                   {"udp_rx_buffer_drops", memory[SK_MEMINFO_DROPS]},
                                   {"udp_tx_frames", tx.frames},
                                   {"udp_tx_bytes", tx.bytes},
                                   {"udp_tx_trains", tx.trains},
                                   {"udp_tx_errors", tx.errors},
                                   {"udp_tx_foreign_port", tx.unknown_port},
                                   {"udp_asked", question_.counters().asked},
                                   {"udp_port_unreachable", question_.counters().unreachable},
                                   {"udp_icmp_unbelieved", question_.counters().unbelieved}});
  if (senders_ != nullptr)
    counters.insert(counters.end(), {{"udp_rx_foreign_sender", senders_->counters().refused},
                                     {"udp_sender_lookups", senders_->counters().lookups},
                                     {"udp_sender_ports_held", senders_->held()}});
  if (telemetry_ != nullptr) {
    const Receiver::Counters& more = telemetry_->receiver.counters();
    counters.push_back({"udp_rx_telemetry_frames", more.frames});
    counters.push_back({"udp_rx_telemetry_errors", more.errors + more.truncated});
  }
  uint64_t of_groups = 0;
  for (const auto& side : groups_) of_groups += side->receiver.counters().frames;
  counters.push_back({"udp_rx_multicast_frames", of_groups});
  if (group_ == nullptr) return;
  const AddressGroup::Counters& forward = group_->counters();
  counters.insert(counters.end(), {{"udp_forwarded", forward.forwarded},
                                   {"udp_forward_drops", forward.forward_drops},
                                   {"udp_forward_received", forward.forward_received},
                                   {"udp_forward_refused", forward.forward_refused},
                                   {"udp_steering_programs", forward.programs},
                                   {"udp_probes", forward.probes}});
}

}  // namespace weft::port
