// SPDX-License-Identifier: BSD-3-Clause
// Opens a session (session.hpp): device, memory, queue pairs, and connections to the other side.
#include "bench/perftest/session.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "bench/perftest/introduction.hpp"

namespace weft::bench {
namespace {

constexpr size_t kValidationArea = size_t{64} << 20;
// UD and UC senders have no flow control: while they overrun the receiver, control messages are
// lost too, so the control queue pair has a long timeout.
constexpr uint32_t kControlTimeout = 18;  // 1 s, retried eight times
constexpr uint32_t kLatencyInline = 236;  // perftest's default for latency tests

void say_waiting(const Options& o, const Device& device) {
  if (!isatty(STDOUT_FILENO)) return;
  const std::string host = o.meeting.cm ? to_string(device.attributes().gid) : "127.0.0.1";
  std::printf(
      "\n************************************\n* Waiting for client to connect... *\n"
      "************************************\n(another terminal: %s %s-p %u %s)\n",
      program_name(o.operation, o.measure).c_str(), o.meeting.cm ? "-R " : "", o.meeting.port,
      host.c_str());
  std::fflush(stdout);
}

}  // namespace

Pages& Pages::operator=(Pages&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  return *this;
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<Pages> Pages::map(size_t size) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return Error{Code::no_memory, "cannot map " + std::to_string(size) +
                                      " bytes of memory: use smaller -s, -q or --buffers"};
  Pages pages;
  pages.data_ = static_cast<std::byte*>(p);
  pages.size_ = size;
  std::memset(p, 0, size);
  return pages;
}

Result<void> Session::check_sizes() const {
  const uint32_t mtu = device.attributes().active_mtu;
  if (options.service != QpType::ud || options.max_size() <= mtu) return {};
  return Error{Code::invalid_argument, "-c UD: a datagram on this device has at most " +
                                           std::to_string(mtu) + " bytes, use -s or --sizes"};
}

Result<void> Session::make_memory() {
  header = options.service == QpType::ud ? kNetworkHeaderLength : 0;
  const size_t one = stride(std::max<uint64_t>(options.max_size(), 8));
  area = one * options.buffers;
  if (options.validate) {
    const size_t many = std::min(one * options.tx_depth, kValidationArea / options.qps);
    area = std::max({area, one, many / one * one});
  }
  Result<Pages> mapped = Pages::map(area * 2 * options.qps);
  if (!mapped) return mapped.error();
  pages = std::move(*mapped);
  Result<MemoryRegion> registered = pd.register_memory(pages.data(), pages.size(), Access::all);
  if (!registered) return registered.error();
  region = std::move(*registered);
  return {};
}

Result<void> Session::make_queues() {
  const uint32_t device_inline = device.attributes().max_inline;
  const bool sends_data = !options.one_sided();
  if (options.inline_set)
    inline_limit = sends_data ? options.inline_size : 0;
  else if (options.measure == Measure::latency && sends_data)
    inline_limit = std::min(kLatencyInline, device_inline);
  if (inline_limit > device_inline)
    return Error{Code::invalid_argument, "-I " + std::to_string(inline_limit) +
                                             ": this device sends at most " +
                                             std::to_string(device_inline) + " bytes inline"};
  const bool receives = options.takes_receives();
  Result<CompletionQueue> send =
      device.completion_queue({.capacity = std::max(64u, options.qps * options.tx_depth + 16)});
  if (!send) return send.error();
  send_cq = std::move(*send);
  Result<CompletionQueue> recv = device.completion_queue(
      {.capacity = std::max(64u, receives ? options.qps * options.rx_depth + 16 : 0)});
  if (!recv) return recv.error();
  recv_cq = std::move(*recv);
  if (options.shares_receives())
    if (const Result<void> shared = share_receives(); !shared) return shared;
  if (const Result<void> done = make_lanes(); !done) return done;
  Result<std::unique_ptr<Control>> made = Control::create(device, pd, options.events);
  if (!made) return made.error();
  control = std::move(*made);
  return {};
}

Result<void> Session::share_receives() {
  SharedReceiveQueueOptions how{
      .max_recv_wr = options.takes_receives() ? options.qps * options.rx_depth : 1,
      .max_recv_sge = 1};
  if (options.xrc()) {
    Result<XrcDomain> domain = device.xrc_domain();
    if (!domain) return domain.error();
    how.xrc_domain = xrc = std::move(*domain);
    how.cq = recv_cq;
  }
  Result<SharedReceiveQueue> made = pd.shared_receive_queue(how);
  if (!made) return made.error();
  pool = std::move(*made);
  return {};
}

Result<void> Session::make_lanes() {
  const bool own = options.takes_receives() && !options.shares_receives();
  for (uint32_t i = 0; i < options.qps; ++i) {
    Lane lane;
    QueuePairOptions how{.type = options.service.value_or(device.attributes().qp_type),
                         .send_cq = send_cq,
                         .max_send_wr = options.tx_depth,
                         .max_recv_wr = own ? options.rx_depth : 1,
                         .max_send_sge = 1,
                         .max_recv_sge = 1,
                         .max_inline = inline_limit};
    if (options.xrc()) {
      Result<QueuePair> in = pd.queue_pair({.type = QpType::xrc_target, .xrc_domain = xrc});
      if (!in) return in.error();
      lane.in = std::move(*in);
    } else {
      how.recv_cq = recv_cq;
      how.shared_receive_queue = pool;
    }
    Result<QueuePair> qp = pd.queue_pair(how);
    if (!qp) return qp.error();
    lane.qp = std::move(*qp);
    lane.source = pages.data() + 2 * i * area;
    lane.target = lane.source + area + header;
    lanes.push_back(std::move(lane));
  }
  return {};
}

Result<void> Session::accept_introduction(const Connection& connection) {
  const Result<PeerMemory> peer = check_introduction(options, connection.peer_data);
  if (!peer) return peer.error();
  peer_rkey = peer->rkey;
  peer_srq = peer->srq;
  peer_gid = connection.peer_gid;
  path_mtu = connection.path_mtu;
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].peer_source = peer->address + 2 * i * area;
    lanes[i].peer_target = lanes[i].peer_source + area + header;
  }
  return {};
}

Result<void> Session::connect_all() {
  ConnectOptions how;
  Result<std::unique_ptr<Meeting>> opened = Meeting::open(options, device);
  if (!opened) return opened.error();
  meeting = std::move(*opened);
  how.private_data = encode_introduction(
      options,
      {reinterpret_cast<uintptr_t>(pages.data()), region.rkey(), options.xrc() ? pool.number() : 0},
      meeting->private_data());
  how.path_mtu = options.mtu;
  how.max_rd_atomic = static_cast<uint8_t>(options.outstanding);
  how.retry_count = static_cast<uint8_t>(options.retry_count);
  how.traffic_class = static_cast<uint8_t>(options.traffic_class);
  how.security = options.meeting.security;

  if (options.is_server()) say_waiting(options, device);
  // The control queue pair first, then the measured ones in order.
  how.timeout = static_cast<uint8_t>(options.unreliable() ? kControlTimeout : options.timeout);
  const Result<Connection> connection = meeting->join(control->qp(), how);
  if (!connection) return connection.error();
  if (const Result<void> agreed = accept_introduction(*connection); !agreed) return agreed;
  how.private_data.clear();
  how.timeout = static_cast<uint8_t>(options.timeout);
  for (Lane& lane : lanes)
    if (const Result<void> done = connect_lane(lane, how); !done) return done;
  return {};
}

// With XRC each direction has its own connection, the client's first.
Result<void> Session::connect_lane(Lane& lane, const ConnectOptions& how) {
  const bool ours_first = !options.xrc() || !options.is_server();
  const Result<Connection> connection = meeting->join(ours_first ? lane.qp : lane.in, how);
  if (!connection) return connection.error();
  lane.to =
      pd.address_handle({.destination = connection->peer_gid, .traffic_class = how.traffic_class});
  lane.peer_qpn = connection->peer_qpn;
  if (!options.xrc()) return {};
  const Result<Connection> back = meeting->join(ours_first ? lane.in : lane.qp, how);
  if (!back) return back.error();
  return {};
}

Result<Session> Session::open(const Options& options) {
  Result<Device> device = Device::open(options.device);
  if (!device) return device.error();
  Result<ProtectionDomain> pd = device->protection_domain();
  if (!pd) return pd.error();
  Session session(options, std::move(*device), std::move(*pd));
  if (const Result<void> fit = session.check_sizes(); !fit) return fit.error();
  if (const Result<void> done = session.make_memory(); !done) return done.error();
  if (const Result<void> done = session.make_queues(); !done) return done.error();
  if (const Result<void> done = session.connect_all(); !done) return done.error();
  return session;
}

}  // namespace weft::bench
