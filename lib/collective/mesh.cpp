// SPDX-License-Identifier: BSD-3-Clause
// Connecting all ranks with each other.
#include "lib/collective/mesh.hpp"

#include <algorithm>
#include <cstring>

namespace weft::collective {
namespace {

// The private data of a connection: who we are, and what we believe.
struct Greeting {
  uint64_t magic = 0x7765667420636f6c;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  LinkShape shape;
  LinkAddress address;
  uint16_t lifeline = 0;  // the TCP port
  uint16_t unused[3] = {};
};

// The least timeout code (4.096 us * 2^code) whose eight tries of RC take at least `patience`.
uint8_t timeout_for(Duration patience) {
  constexpr uint8_t kLeast = 8, kMost = 31;
  uint8_t code = kLeast;
  while (code < kMost && Duration::from_ns(4096) * (int64_t{8} << code) < patience) ++code;
  return code;
}

// A device of SRD has its patience from when it is opened, queue pairs of RC when they connect.
Result<Device> open_device(const MeshOptions& options) {
  const bool srd = options.device.rfind("srd", 0) == 0;
  if (!srd || options.device.find("patience_ms=") != std::string::npos)
    return Device::open(options.device);
  const int64_t patience = std::max<int64_t>(10, options.patience.ms());
  return Device::open(options.device + ",patience_ms=" + std::to_string(patience));
}

class Joining {
 public:
  Joining(Mesh& mesh, Store& store, const MeshOptions& options)
      : mesh_(mesh), store_(store), options_(options) {}

  Result<void> run() {
    Result<Listener> listener = Listener::listen(host() + ":0");
    if (!listener) return listener.error();
    Result<Lifelines> lifelines = Lifelines::listen(host());
    if (!lifelines) return lifelines.error();
    mesh_.lifelines = std::move(*lifelines);
    Result<void> done = publish(host() + ":" + std::to_string(listener->port()));
    for (uint32_t peer = 0; done && peer < mesh_.rank; ++peer) done = connect_to(peer);
    for (uint32_t peer = mesh_.rank + 1; done && peer < mesh_.ranks; ++peer)
      done = accept(*listener);
    if (!done) return done;
    return mesh_.lifelines.accept(mesh_.ranks - 1 - mesh_.rank, options_.connect_limit);
  }

 private:
  std::string key(uint32_t rank) const { return options_.name + "/" + std::to_string(rank); }

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

  Result<Link*> new_link() {
    const uint32_t index = static_cast<uint32_t>(mesh_.links.size());
    Result<std::unique_ptr<Link>> link =
        Link::create(mesh_.pd, mesh_.cq, mesh_.device.attributes().qp_type, options_.shape, index);
    if (!link) return link.error();
    mesh_.links.push_back(std::move(*link));
    return mesh_.links.back().get();
  }

  ConnectOptions connect_options(const Link& link) const {
    Greeting greeting;
    greeting.rank = mesh_.rank;
    greeting.ranks = mesh_.ranks;
    greeting.shape = options_.shape;
    greeting.address = link.address();
    greeting.lifeline = mesh_.lifelines.port();
    ConnectOptions options;
    options.private_data.resize(sizeof greeting);
    std::memcpy(options.private_data.data(), &greeting, sizeof greeting);
    options.access = kPeerAccess;
    options.timeout = timeout_for(options_.patience);
    options.limit = options_.connect_limit;
    options.traffic_class = static_cast<uint8_t>(dscp_of(options_.traffic_class) << 2);
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
    return mesh_.lifelines.connect(peer, address->substr(0, address->rfind(':')), greeting.lifeline,
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
        mesh_.by_rank[peer.rank] != nullptr)
      return Error{Code::invalid_argument, "rank " + std::to_string(peer.rank) +
                                               " has connected, which was not expected: "
                                               "is it started twice?"};
    if (peer.ranks != mesh_.ranks || peer.shape != options_.shape)
      return Error{Code::invalid_argument,
                   "rank " + std::to_string(peer.rank) + " believes in " +
                       std::to_string(peer.ranks) + " ranks, or other slots, than rank " +
                       std::to_string(mesh_.rank) + " with " + std::to_string(mesh_.ranks) +
                       ": give all ranks the same options"};
    link.set_peer(peer.rank, peer.address);
    mesh_.by_rank[peer.rank] = &link;
    return {};
  }

  Mesh& mesh_;
  Store& store_;
  const MeshOptions& options_;
};

}  // namespace

Result<Mesh> Mesh::connect(Store& store, uint32_t rank, uint32_t ranks,
                           const MeshOptions& options) {
  Result<Device> device = open_device(options);
  if (!device) return device.error();
  const uint32_t capacity = std::max(64U, (ranks - 1) * Link::completions(options.shape));
  Result<CompletionQueue> cq = device->completion_queue({.capacity = capacity});
  if (!cq) return cq.error();
  Result<ProtectionDomain> pd = device->protection_domain();
  if (!pd) return pd.error();
  Mesh mesh{*device, *cq, *pd, rank, ranks, {}, std::vector<Link*>(ranks), {}};
  if (ranks == 1) return mesh;
  if (Result<void> joined = Joining(mesh, store, options).run(); !joined) return joined.error();
  return mesh;
}

}  // namespace weft::collective
