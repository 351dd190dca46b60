// SPDX-License-Identifier: BSD-3-Clause
// Connection setup through the store, and the checks of what peers send about themselves.
#include "lib/collective/run/peer_connections.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

// The private data of a connection request and its reply.
struct ConnectionData {
  uint64_t magic = 0x7765667420636f6d;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  LinkShape shape;
  LinkAddress address;
  uint32_t lanes = 0;
  uint32_t traffic_class = 0;  // of this one
};

std::string describe(const LinkShape& shape) {
  return std::to_string(shape.slots) + " slots of " + std::to_string(shape.payload) + " bytes";
}

// SRD takes the dead peer timeout when the device is opened, RC when queue pairs connect. A rank
// that is stopped for so long has failed.
Result<Device> open_device(const PeerConnectionOptions& options) {
  std::string device = device_or_default(options.device);
  const bool srd = device.rfind("srd", 0) == 0;
  if (srd && device.find("patience_ms=") == std::string::npos)
    device +=
        ",patience_ms=" + std::to_string(std::max<int64_t>(10, options.dead_peer_timeout.ms()));
  const bool ours = device.rfind("srd+", 0) == 0 || device.rfind("roce+", 0) == 0;
  if (ours && device.find("wait_for_stopped=") == std::string::npos)
    device += ",wait_for_stopped=0";
  return Device::open(device);
}

// Connects the links of one lane.
class LaneConnector {
 public:
  LaneConnector(PeerConnections& connections, Store& store, const PeerConnectionOptions& options,
                uint32_t lane)
      : connections_(connections), store_(store), options_(options), lane_(lane) {}

  Result<void> run() {
    Result<Listener> listener = Listener::listen(host() + ":0");
    if (!listener) return listener.error();
    Result<void> done = publish(host() + ":" + std::to_string(listener->port()));
    for (uint32_t peer = 0; done && peer < connections_.rank; ++peer) done = connect_to(peer);
    for (uint32_t peer = connections_.rank + 1; done && peer < connections_.ranks; ++peer)
      done = accept(*listener);
    return done;
  }

 private:
  std::string key(uint32_t rank) const {
    const std::string lane = lane_ == 0 ? "" : "/lane" + std::to_string(lane_);
    return options_.name + "/" + std::to_string(rank) + lane;
  }

  // A key keeps its first value: another value is of an earlier communicator, whose listeners are
  // closed.
  Result<void> publish(const std::string& address) {
    if (Result<void> set = store_.set(key(connections_.rank), address); !set) return set;
    const Result<std::string> published =
        store_.get(key(connections_.rank), options_.connect_limit);
    if (!published) return published.error();
    if (*published == address) return {};
    return Error{Code::invalid_argument,
                 "the name '" + options_.name + "' is used in this store: rank " +
                     std::to_string(connections_.rank) + " was at " + *published +
                     "; give CommunicatorOptions::name another value, or use a new store"};
  }

  // The address that peers connect to: the device's, if it has one of the network.
  std::string host() const {
    const DeviceAttributes& attributes = connections_.device.attributes();
    if (attributes.port == "shm") return "127.0.0.1";
    const std::string address = to_string(attributes.gid);
    return attributes.gid.is_ipv4() ? address : "[" + address + "]";
  }

  LinkShape shape() const {
    LinkShape shape = options_.shape;
    if (lane_ + 1 < options_.classes.size()) shape.copy_limit = kUrgentCopyLimit;
    return shape;
  }

  Result<Link*> new_link() {
    const uint32_t index = static_cast<uint32_t>(connections_.links.size());
    Result<std::unique_ptr<Link>> link = Link::create(
        connections_.pd, connections_.cq, connections_.device.attributes().qp_type, shape(), index);
    if (!link) return link.error();
    (*link)->lane = lane_;
    connections_.links.push_back(std::move(*link));
    return connections_.links.back().get();
  }

  ConnectOptions connect_options(const Link& link) const {
    ConnectionData data;
    data.rank = connections_.rank;
    data.ranks = connections_.ranks;
    data.shape = shape();
    data.address = link.address();
    data.lanes = static_cast<uint32_t>(options_.classes.size());
    data.traffic_class = options_.classes[lane_];
    ConnectOptions options;
    options.private_data.resize(sizeof data);
    std::memcpy(options.private_data.data(), &data, sizeof data);
    options.access = kPeerAccess;
    const RetrySettings retries = retries_for(options_.dead_peer_timeout);
    options.timeout = retries.timeout;
    options.retry_count = static_cast<uint8_t>(retries.count - 1);
    options.limit = options_.connect_limit;
    options.security = options_.security;
    options.keep_control = lane_ == 0;
    options.traffic_class = static_cast<uint8_t>(dscp_of(options_.classes[lane_]) << 2);
    return options;
  }

  Result<void> connect_to(uint32_t peer) {
    Result<std::string> address = store_.get(key(peer), options_.connect_limit);
    if (!address) return address.error();
    Result<Link*> link = new_link();
    if (!link) return link.error();
    Result<Connection> connection = weft::connect(*address, (*link)->qp(), connect_options(**link));
    if (!connection)
      return Error{connection.error().code,
                   "cannot connect to rank " + std::to_string(peer) + " at " + *address + ": " +
                       connection.error().message +
                       "; if the store is of an earlier job, use a new one"};
    return accept_peer(**link, *connection);
  }

  Result<void> accept(Listener& listener) {
    Result<Link*> link = new_link();
    if (!link) return link.error();
    Result<Connection> connection = listener.accept((*link)->qp(), connect_options(**link));
    if (!connection)
      return Error{connection.error().code,
                   "waiting for the ranks above " + std::to_string(connections_.rank) + ": " +
                       connection.error().message + "; are all processes started?"};
    return accept_peer(**link, *connection);
  }

  Result<void> accept_peer(Link& link, const Connection& connection) {
    ConnectionData peer;
    const ConnectionData ours;
    if (connection.peer_data.size() != sizeof peer)
      return Error{Code::invalid_argument,
                   "a connection request for rank " + std::to_string(connections_.rank) + " has " +
                       std::to_string(connection.peer_data.size()) +
                       " bytes of private data instead of " + std::to_string(sizeof peer) +
                       ": a program that is no rank of this communicator connects to it"};
    std::memcpy(&peer, connection.peer_data.data(), sizeof peer);
    if (peer.magic != ours.magic || peer.rank >= connections_.ranks ||
        peer.rank == connections_.rank || connections_.lanes[lane_][peer.rank] != nullptr)
      return Error{Code::invalid_argument, "rank " + std::to_string(connections_.rank) +
                                               " has an unexpected connection from rank " +
                                               std::to_string(peer.rank) + " of " +
                                               std::to_string(peer.ranks) +
                                               ": is the rank started twice, or of another job?"};
    if (peer.lanes != options_.classes.size() || peer.traffic_class != options_.classes[lane_])
      return Error{Code::invalid_argument,
                   "rank " + std::to_string(peer.rank) + " has " + std::to_string(peer.lanes) +
                       " traffic classes, here class " + std::to_string(peer.traffic_class) +
                       "; rank " + std::to_string(connections_.rank) + " has " +
                       std::to_string(options_.classes.size()) + ", here class " +
                       std::to_string(options_.classes[lane_]) +
                       ": give all ranks the same traffic_class and more_classes"};
    if (peer.ranks != connections_.ranks || peer.shape != shape())
      return Error{Code::invalid_argument,
                   "rank " + std::to_string(peer.rank) + " has " + std::to_string(peer.ranks) +
                       " ranks and " + describe(peer.shape) + "; rank " +
                       std::to_string(connections_.rank) + " has " +
                       std::to_string(connections_.ranks) + " ranks and " + describe(shape()) +
                       ": give all ranks the same options"};
    WEFT_DCHECK(link.lane == lane_ && peer.rank < connections_.ranks);
    link.set_peer(peer.rank, peer.address);
    connections_.lanes[lane_][peer.rank] = &link;
    if (lane_ == 0) connections_.liveness.watch(peer.rank, connection.control);
    return {};
  }

  PeerConnections& connections_;
  Store& store_;
  const PeerConnectionOptions& options_;
  uint32_t lane_;
};

}  // namespace

std::string device_or_default(const std::string& given) {
  const char* const usual = std::getenv("WEFT_DEVICE");
  return given.empty() && usual != nullptr ? usual : given;
}

RetrySettings retries_for(Duration dead_peer_timeout) {
  constexpr uint8_t kLeast = 8, kMost = 31;  // the resolution of timers; a field of five bits
  constexpr uint8_t kFew = 5, kMany = 8;     // a field of three bits
  for (uint8_t code = kLeast; code < kMost; ++code)
    for (uint8_t count = kFew; count <= kMany; ++count)
      if (const RetrySettings retries{code, count}; retries.time() >= dead_peer_timeout)
        return retries;
  return {kMost, kMany};
}

Result<PeerConnections> PeerConnections::connect(Store& store, uint32_t rank, uint32_t ranks,
                                                 const PeerConnectionOptions& options) {
  Result<Device> device = open_device(options);
  if (!device) return device.error();
  const uint32_t lanes = static_cast<uint32_t>(options.classes.size());
  const uint32_t links = lanes * (ranks - 1);
  if (Result<void> fits = check_links(options.shape, links, device->attributes()); !fits)
    return fits.error();
  const uint32_t capacity = std::max(64U, links * completions_per_link(options.shape));
  Result<CompletionQueue> cq = device->completion_queue({.capacity = capacity});
  if (!cq) return cq.error();
  Result<ProtectionDomain> pd = device->protection_domain();
  if (!pd) return pd.error();
  const std::vector<std::vector<Link*>> unconnected(lanes, std::vector<Link*>(ranks));
  PeerConnections connections{*device, *cq, *pd, rank, ranks, {}, unconnected, {}};
  for (uint32_t lane = 0; lane < lanes && ranks > 1; ++lane)
    if (Result<void> joined = LaneConnector(connections, store, options, lane).run(); !joined)
      return joined.error();
  return connections;
}

void mark_exited(PeerConnections& connections, const std::vector<uint32_t>& ranks) {
  for (const std::unique_ptr<Link>& link : connections.links) {
    if (std::find(ranks.begin(), ranks.end(), link->peer()) == ranks.end()) continue;
    link->peer_exited = true;
    if (link->disconnected) continue;
    link->disconnected = true;
    link->disconnect_reason = "its process has ended";
  }
}

bool has_exited(const PeerConnections& connections, uint32_t rank) {
  WEFT_DCHECK(rank < connections.ranks);
  const Link* const link = connections.lanes.front()[rank];
  return link != nullptr && link->peer_exited;
}

}  // namespace weft::collective
