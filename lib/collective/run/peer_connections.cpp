// SPDX-License-Identifier: BSD-3-Clause
// Connecting all ranks with each other.
#include "lib/collective/run/peer_connections.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft::collective {
namespace {

// The private data of a connection: who we are, and what we believe.
struct Greeting {
  uint64_t magic = 0x7765667420636f6d;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  LinkShape shape;
  LinkAddress address;
  uint16_t lifeline = 0;  // the TCP port; of the first lane
  uint16_t lanes = 0;
  uint16_t traffic_class = 0;  // of this one
  uint16_t unused = 0;
};

// A device of SRD has its patience from when it is opened, queue pairs of RC when they connect.
Result<Device> open_device(const MeshOptions& options) {
  std::string device = device_named(options.device);
  const bool srd = device.rfind("srd", 0) == 0;
  if (srd && device.find("patience_ms=") == std::string::npos)
    device += ",patience_ms=" + std::to_string(std::max<int64_t>(10, options.patience.ms()));
  return Device::open(device);
}

// One lane.
class Joining {
 public:
  Joining(Mesh& mesh, Store& store, const MeshOptions& options, uint32_t lane)
      : mesh_(mesh), store_(store), options_(options), lane_(lane) {}

  Result<void> run() {
    Result<Listener> listener = Listener::listen(host() + ":0");
    if (!listener) return listener.error();
    if (lane_ == 0) {
      Result<Liveness> liveness = Liveness::listen(host());
      if (!liveness) return liveness.error();
      mesh_.liveness = std::move(*liveness);
    }
    Result<void> done = publish(host() + ":" + std::to_string(listener->port()));
    for (uint32_t peer = 0; done && peer < mesh_.rank; ++peer) done = connect_to(peer);
    for (uint32_t peer = mesh_.rank + 1; done && peer < mesh_.ranks; ++peer)
      done = accept(*listener);
    if (!done || lane_ > 0) return done;
    return mesh_.liveness.accept(mesh_.ranks - 1 - mesh_.rank, options_.connect_limit);
  }

 private:
  std::string key(uint32_t rank) const {
    const std::string lane = lane_ == 0 ? "" : "/lane" + std::to_string(lane_);
    return options_.name + "/" + std::to_string(rank) + lane;
  }

  // A key keeps its first value: one that is not ours is of a communicator before this one, whose
  // addresses nobody listens at any more.
  Result<void> publish(const std::string& address) {
    if (Result<void> said = store_.set(key(mesh_.rank), address); !said) return said;
    const Result<std::string> stands = store_.get(key(mesh_.rank), options_.connect_limit);
    if (!stands) return stands.error();
    if (*stands == address) return {};
    return Error{Code::invalid_argument,
                 "the name '" + options_.name + "' is used in this store: rank " +
                     std::to_string(mesh_.rank) + " was at " + *stands +
                     "; give CommunicatorOptions::name another value, or use a new store"};
  }

  // Where the others reach us: at the device's address, if it is one of the network.
  std::string host() const {
    const DeviceAttributes& attributes = mesh_.device.attributes();
    if (attributes.port == "shm") return "127.0.0.1";
    const std::string address = to_string(attributes.gid);
    return attributes.gid.is_ipv4() ? address : "[" + address + "]";
  }

  LinkShape shape() const {
    LinkShape shape = options_.shape;
    if (lane_ + 1 < options_.classes.size()) shape.copied = kCopiedUrgentBytes;
    return shape;
  }

  Result<Link*> new_link() {
    const uint32_t index = static_cast<uint32_t>(mesh_.links.size());
    Result<std::unique_ptr<Link>> link =
        Link::create(mesh_.pd, mesh_.cq, mesh_.device.attributes().qp_type, shape(), index);
    if (!link) return link.error();
    (*link)->lane = lane_;
    mesh_.links.push_back(std::move(*link));
    return mesh_.links.back().get();
  }

  ConnectOptions connect_options(const Link& link) const {
    Greeting greeting;
    greeting.rank = mesh_.rank;
    greeting.ranks = mesh_.ranks;
    greeting.shape = shape();
    greeting.address = link.address();
    greeting.lifeline = mesh_.liveness.port();
    greeting.lanes = static_cast<uint16_t>(options_.classes.size());
    greeting.traffic_class = static_cast<uint16_t>(options_.classes[lane_]);
    ConnectOptions options;
    options.private_data.resize(sizeof greeting);
    std::memcpy(options.private_data.data(), &greeting, sizeof greeting);
    options.access = kPeerAccess;
    const Tries tries = tries_for(options_.patience);
    options.timeout = tries.timeout;
    options.retry_count = static_cast<uint8_t>(tries.count - 1);
    options.limit = options_.connect_limit;
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
                       connection.error().message + "; is the store one of an earlier job?"};
    if (Result<void> welcomed = welcome(**link, *connection); !welcomed) return welcomed;
    Greeting greeting;
    std::memcpy(&greeting, connection->peer_data.data(), sizeof greeting);
    if (lane_ > 0) return {};
    return mesh_.liveness.connect(peer, address->substr(0, address->rfind(':')), greeting.lifeline,
                                  mesh_.rank, options_.connect_limit);
  }

  Result<void> accept(Listener& listener) {
    Result<Link*> link = new_link();
    if (!link) return link.error();
    Result<Connection> connection = listener.accept((*link)->qp(), connect_options(**link));
    if (!connection)
      return Error{connection.error().code,
                   "waiting for the ranks above " + std::to_string(mesh_.rank) + ": " +
                       connection.error().message + "; are all processes started?"};
    return welcome(**link, *connection);
  }

  Result<void> welcome(Link& link, const Connection& connection) {
    Greeting peer;
    const Greeting ours;
    if (connection.peer_data.size() != sizeof peer)
      return Error{Code::invalid_argument, "something that is no rank has connected"};
    std::memcpy(&peer, connection.peer_data.data(), sizeof peer);
    if (peer.magic != ours.magic || peer.rank >= mesh_.ranks || peer.rank == mesh_.rank ||
        mesh_.lanes[lane_][peer.rank] != nullptr)
      return Error{Code::invalid_argument, "rank " + std::to_string(peer.rank) +
                                               " has connected, which was not expected: "
                                               "is it started twice?"};
    if (peer.lanes != options_.classes.size() || peer.traffic_class != options_.classes[lane_])
      return Error{Code::invalid_argument,
                   "rank " + std::to_string(peer.rank) + " has other traffic classes than rank " +
                       std::to_string(mesh_.rank) +
                       ": give all ranks the same traffic_class and more_classes"};
    if (peer.ranks != mesh_.ranks || peer.shape != shape())
      return Error{Code::invalid_argument,
                   "rank " + std::to_string(peer.rank) + " believes in " +
                       std::to_string(peer.ranks) + " ranks, or other slots, than rank " +
                       std::to_string(mesh_.rank) + " with " + std::to_string(mesh_.ranks) +
                       ": give all ranks the same options"};
    link.set_peer(peer.rank, peer.address);
    mesh_.lanes[lane_][peer.rank] = &link;
    return {};
  }

  Mesh& mesh_;
  Store& store_;
  const MeshOptions& options_;
  uint32_t lane_;
};

}  // namespace

std::string device_named(const std::string& given) {
  const char* const usual = std::getenv("WEFT_DEVICE");
  return given.empty() && usual != nullptr ? usual : given;
}

Tries tries_for(Duration patience) {
  constexpr uint8_t kLeast = 8, kMost = 31;  // what timers can keep; a field of five bits
  constexpr uint8_t kFew = 5, kMany = 8;     // a field of three bits
  for (uint8_t code = kLeast; code < kMost; ++code)
    for (uint8_t count = kFew; count <= kMany; ++count)
      if (const Tries tries{code, count}; tries.time() >= patience) return tries;
  return {kMost, kMany};
}

Result<Mesh> Mesh::connect(Store& store, uint32_t rank, uint32_t ranks,
                           const MeshOptions& options) {
  Result<Device> device = open_device(options);
  if (!device) return device.error();
  const uint32_t lanes = static_cast<uint32_t>(options.classes.size());
  const uint32_t links = lanes * (ranks - 1);
  if (Result<void> fits = Link::check(options.shape, links, device->attributes()); !fits)
    return fits.error();
  const uint32_t capacity = std::max(64U, links * Link::completions(options.shape));
  Result<CompletionQueue> cq = device->completion_queue({.capacity = capacity});
  if (!cq) return cq.error();
  Result<ProtectionDomain> pd = device->protection_domain();
  if (!pd) return pd.error();
  const std::vector<std::vector<Link*>> unconnected(lanes, std::vector<Link*>(ranks));
  Mesh mesh{*device, *cq, *pd, rank, ranks, {}, unconnected, {}};
  for (uint32_t lane = 0; lane < lanes && ranks > 1; ++lane)
    if (Result<void> joined = Joining(mesh, store, options, lane).run(); !joined)
      return joined.error();
  return mesh;
}

}  // namespace weft::collective
