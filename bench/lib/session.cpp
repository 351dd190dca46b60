// SPDX-License-Identifier: BSD-3-Clause
// Opens a session (session.hpp). The two sides introduce themselves in the private data of their
// first connection: the options that must agree, and where the memory is. It is JSON, so that the
// message about a difference can name it.
#include "bench/lib/session.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/lib/clock.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::json;
constexpr size_t kValidationArea = size_t{64} << 20;
// Nothing holds a sender of UD or UC back: while its flood lasts, what others send is lost too.
constexpr uint32_t kPatientTimeout = 18;  // of the control queue pair: 1 s, eight times
constexpr uint32_t kLatencyInline = 236;  // perftest's default for latency tests

// What both sides must have said alike, under the name of the option.
Json agreement(const Options& o) {
  Json j;
  j["program"] = program_name(o.operation, o.measure);
  j["sizes"] = o.sizes;
  j["-n"] = o.duration_s > 0 ? 0 : o.iterations;
  j["-D"] = o.duration_s > 0;
  j["-q"] = o.qps;
  j["-t"] = o.tx_depth;
  j["-c"] = o.service ? std::string(name(*o.service)) : "device";
  j["-b"] = o.bidirectional;
  j["-A"] = o.atomic == AtomicType::fetch_add ? "FETCH_AND_ADD" : "CMP_AND_SWAP";
  j["--buffers"] = o.buffers;
  j["--data_validation"] = o.validate;
  j["--perform_warm_up"] = o.warm_up;
  return j;
}

// Drives one connection to its end, in small waits so that Ctrl-C works.
Result<Connection> finish(Connector connector) {
  for (;;) {
    Result<Connection> connection = connector.advance();
    if (connection || connection.error().code != Code::would_block) return connection;
    if (interrupted()) return Error{Code::bad_state, "interrupted"};
    pollfd p{connector.fd(), connector.poll_events(), 0};
    (void)poll(&p, 1, 100);
  }
}

Result<Connection> accept(Listener& listener, const QueuePair& qp, const ConnectOptions& options) {
  for (;;) {
    Result<Connector> connector = listener.try_accept(qp, options);
    if (connector) return finish(std::move(*connector));
    if (connector.error().code != Code::would_block) return connector.error();
    if (interrupted()) return Error{Code::bad_state, "interrupted"};
    pollfd p{listener.fd(), POLLIN, 0};
    (void)poll(&p, 1, 200);
  }
}

// A script starts both sides at once: the server gets a moment to come up.
Result<Connection> dial(const std::string& address, const QueuePair& qp,
                        const ConnectOptions& options, double wait_s) {
  const uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(wait_s * 1e9);
  for (;;) {
    Result<Connector> connector = Connector::start(address, qp, options);
    if (!connector) return connector.error();
    Result<Connection> connection = finish(std::move(*connector));
    if (connection || connection.error().code != Code::not_found || monotonic_ns() > deadline)
      return connection;
    usleep(20'000);
  }
}

void say_waiting(const Options& o) {
  if (!isatty(STDOUT_FILENO)) return;
  std::printf(
      "\n************************************\n* Waiting for client to connect... *\n"
      "************************************\n(another terminal: %s -p %u 127.0.0.1)\n",
      program_name(o.operation, o.measure).c_str(), o.port);
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
    return Error{Code::no_memory,
                 "cannot map " + std::to_string(size) + " bytes: use smaller -s, -q or --buffers"};
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
  for (uint32_t i = 0; i < options.qps; ++i) {
    Result<QueuePair> qp =
        pd.queue_pair({.type = options.service.value_or(device.attributes().qp_type),
                       .send_cq = send_cq,
                       .recv_cq = recv_cq,
                       .max_send_wr = options.tx_depth,
                       .max_recv_wr = receives ? options.rx_depth : 1,
                       .max_send_sge = 1,
                       .max_recv_sge = 1,
                       .max_inline = inline_limit});
    if (!qp) return qp.error();
    Lane lane;
    lane.qp = std::move(*qp);
    lane.source = pages.data() + 2 * i * area;
    lane.target = lane.source + area + header;
    lanes.push_back(std::move(lane));
  }
  Result<std::unique_ptr<Control>> made = Control::create(device, pd, options.events);
  if (!made) return made.error();
  control = std::move(*made);
  return {};
}

std::string Session::introduction() const {
  Json j = agreement(options);
  j["address"] = reinterpret_cast<uintptr_t>(pages.data());
  j["rkey"] = region.rkey().value;
  return j.dump();
}

Result<void> Session::accept_introduction(const Connection& connection) {
  const auto* text = reinterpret_cast<const char*>(connection.peer_data.data());
  const Json peer = Json::parse(text, text + connection.peer_data.size(), nullptr, false);
  if (!peer.is_object() || !peer.contains("address") || !peer.contains("rkey") ||
      !peer["address"].is_number_unsigned() || !peer["rkey"].is_number_unsigned())
    return Error{Code::invalid_argument, "the other side is not one of these programs"};
  const Json ours = agreement(options);
  for (const auto& item : ours.items()) {
    const Json theirs = peer.value(item.key(), Json());
    if (theirs != item.value())
      return Error{Code::invalid_argument, "both sides need the same options: " + item.key() +
                                               " is " + item.value().dump() + " here, " +
                                               theirs.dump() + " there"};
  }
  const uint64_t base = peer["address"].get<uint64_t>();
  peer_rkey = {peer["rkey"].get<uint32_t>()};
  peer_gid = connection.peer_gid;
  path_mtu = connection.path_mtu;
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].peer_source = base + 2 * i * area;
    lanes[i].peer_target = lanes[i].peer_source + area + header;
  }
  return {};
}

Result<void> Session::connect_all() {
  ConnectOptions how;
  const std::string text = introduction();
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  how.private_data.assign(data, data + text.size());
  how.path_mtu = options.mtu;
  how.max_rd_atomic = static_cast<uint8_t>(options.outstanding);
  how.retry_count = static_cast<uint8_t>(options.retry_count);
  how.traffic_class = static_cast<uint8_t>(options.traffic_class);

  Result<Listener> listener = Error{Code::bad_state, ""};
  if (options.is_server()) {
    listener = Listener::listen(":" + std::to_string(options.port));
    if (!listener) return listener.error();
    say_waiting(options);
  }
  const bool bare_v6 = options.host.find(':') != std::string::npos && options.host[0] != '[';
  const std::string address =
      (bare_v6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
  // The control queue pair first, then the measured ones in order.
  for (size_t i = 0; i <= lanes.size(); ++i) {
    const QueuePair& qp = i == 0 ? control->qp() : lanes[i - 1].qp;
    const uint32_t timeout = i == 0 && options.unreliable() ? kPatientTimeout : options.timeout;
    how.timeout = static_cast<uint8_t>(timeout);
    const Result<Connection> connection = options.is_server()
                                              ? accept(*listener, qp, how)
                                              : dial(address, qp, how, options.connect_wait_s);
    if (!connection) return connection.error();
    if (i != 0) {
      lanes[i - 1].to = pd.address_handle(
          {.destination = connection->peer_gid, .traffic_class = how.traffic_class});
      lanes[i - 1].peer_qpn = connection->peer_qpn;
      continue;
    }
    if (const Result<void> agreed = accept_introduction(*connection); !agreed) return agreed;
    how.private_data.clear();
  }
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
