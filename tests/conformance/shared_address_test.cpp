// SPDX-License-Identifier: BSD-3-Clause
// Several processes of one user have one address: each has its own connection manager, listeners,
// queue pairs and keys there, and a kill -9 of any of them harms no other. Servers are children of
// the test, which is the client; all are on one loopback address.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "tests/conformance/fixture.hpp"
#include "weft/cm.hpp"

namespace weft::test::shared_address {
namespace {

constexpr Duration kSoon = Duration::from_s(20);

// One for each run of this program.
std::string shared_device() {
  const auto pid = static_cast<uint32_t>(::getpid());
  return "roce+udp:127." + std::to_string(100 + pid / 62'500 % 100) + "." +
         std::to_string(pid / 250 % 250) + "." + std::to_string(1 + pid % 250);
}

// What a server tells its client in the REP.
struct Memory {
  uint64_t address;
  uint32_t rkey;
};

std::vector<std::byte> bytes_of(const Memory& memory) {
  std::vector<std::byte> bytes(sizeof memory);
  std::memcpy(bytes.data(), &memory, sizeof memory);
  return bytes;
}

// A device with a connection manager and a word of memory.
struct Party {
  explicit Party(const std::string& spec) : side(spec), memory(side, 4096) {}

  CmEvent expect(CmEventType type) const {
    std::optional<CmEvent> event = channel.wait(kSoon);
    REQUIRE(event);
    INFO("got " << name(event->type) << (event->error ? ": " + event->error->message : ""));
    REQUIRE(event->type == type);
    return std::move(*event);
  }
  // Requests a connection to a port of its own address.
  CmId request(uint16_t port) const {
    const CmId id = *channel.create_id();
    REQUIRE(
        id.resolve_address(to_string(side.device.attributes().gid) + ":" + std::to_string(port)));
    expect(CmEventType::address_resolved);
    REQUIRE(id.resolve_route());
    expect(CmEventType::route_resolved);
    REQUIRE(id.connect(side.queue_pair()));
    return id;
  }

  Side side;
  Buffer memory;
  CmChannel channel = *CmChannel::create(side.device);
};

// A connection to a server, and the memory there.
struct SharedConnection {
  SharedConnection(const Party& client, uint16_t port) : client(client), id(client.request(port)) {
    const CmEvent event = client.expect(CmEventType::established);
    REQUIRE(event.peer.private_data.size() >= sizeof memory);
    std::memcpy(&memory, event.peer.private_data.data(), sizeof memory);
  }
  Status transfer(Opcode opcode, size_t offset) const {
    const Sge sge = client.memory.sge(offset, 8);
    REQUIRE(id.qp().post_send({.opcode = opcode,
                               .sges = {&sge, 1},
                               .remote_address = memory.address,
                               .rkey = RKey{memory.rkey}}));
    Completion c;
    REQUIRE(client.side.cq.wait({&c, 1}, kSoon) == 1);
    return c.status;
  }
  // Writes a number to the server and reads it back.
  bool works(uint64_t number) const {
    client.memory.word(0) = number;
    client.memory.word(8) = 0;
    return transfer(Opcode::write, 0) == Status::success &&
           transfer(Opcode::read, 8) == Status::success && client.memory.word(8) == number;
  }

  const Party& client;
  CmId id;
  Memory memory{};
};

// Accepts every request; never returns. `ready` gets a byte once it listens.
int serve(const std::string& spec, uint16_t port, int ready) {
  const Side side(spec);
  const Buffer memory(side, 4096);
  const CmChannel channel = *CmChannel::create(side.device);
  const CmId listener = *channel.create_id();
  if (!listener.listen(port)) return 2;
  if (::write(ready, "+", 1) != 1) return 3;
  std::vector<CmId> connections;
  for (;;) {
    std::optional<CmEvent> event = channel.wait(kSoon);
    if (!event || event->type != CmEventType::connect_request) continue;
    CmParameters parameters;
    parameters.private_data = bytes_of({memory.address(), memory.region.rkey().value});
    connections.push_back(event->id);
    if (!event->id.accept(side.queue_pair(), parameters)) return 4;
  }
}

class Server {
 public:
  Server(const std::string& spec, uint16_t port) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) ::_exit(serve(spec, port, ready[1]));
    ::close(ready[1]);
    char mark = 0;
    const bool listens = ::read(ready[0], &mark, 1) == 1;
    ::close(ready[0]);
    REQUIRE(listens);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST_CASE("shared address: two listeners in two processes, and the first is killed") {
  const std::string spec = shared_device();
  Server first(spec, 7001);
  const Server second(spec, 7002);
  const Party client(spec);
  const SharedConnection to_first(client, 7001), to_second(client, 7002);
  CHECK(to_first.works(1));
  CHECK(to_second.works(2));
  first.kill();
  for (uint64_t i = 0; i < 20; ++i) CHECK(to_second.works(10 + i));
  CHECK(SharedConnection(client, 7002).works(3));
  // No process listens on the port of the first one now: another member says so at once.
  const CmId refused = client.request(7001);
  CHECK(client.expect(CmEventType::rejected).reason == kCmNoListener);
  const Server third(spec, 7001);
  CHECK(SharedConnection(client, 7001).works(4));
  CHECK(to_second.works(5));
}

TEST_CASE("shared address: a port that another process listens on names that process") {
  const std::string spec = shared_device();
  Server holder(spec, 7001);
  const Party other(spec);
  const CmId listener = *other.channel.create_id();
  const Result<void> taken = listener.listen(7001);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Code::address_in_use);
  INFO(taken.error().message);
  CHECK(taken.error().message.find("process " + std::to_string(holder.pid())) != std::string::npos);
  CHECK(taken.error().message.find("port 7001") != std::string::npos);
  REQUIRE(listener.listen(7002));
  holder.kill();
  const CmId again = *other.channel.create_id();
  CHECK(again.listen(7001));
}

TEST_CASE("shared address: contexts of one process have one address and separate numbers") {
  const std::string spec = shared_device();
  const Party a(spec), b(spec);
  CHECK(a.side.device.attributes().gid == b.side.device.attributes().gid);
  const QueuePair of_a = a.side.queue_pair(), of_b = b.side.queue_pair();
  CHECK(of_a.number().value >> 16 != of_b.number().value >> 16);
  const CmId listener = *a.channel.create_id();
  REQUIRE(listener.listen(7003));
  const CmId id = b.request(7003);
  CmEvent asked = a.expect(CmEventType::connect_request);
  REQUIRE(asked.id.accept(of_a));
  b.expect(CmEventType::established);
  a.expect(CmEventType::established);
  CHECK(asked.id.peer_qpn() == id.qp().number());
  REQUIRE(id.disconnect());
  a.expect(CmEventType::disconnected);
  b.expect(CmEventType::disconnected);
}

TEST_CASE("shared address: processes come, and are killed in any order") {
  const std::string spec = shared_device();
  Random random(test_seed("shared_address_test"));
  const Party client(spec);
  struct Peer {
    std::unique_ptr<Server> server;
    std::unique_ptr<SharedConnection> connection;
  };
  std::map<uint16_t, Peer> peers;
  for (uint64_t round = 0; round < 12; ++round) {
    for (uint16_t port = 7010; port < 7015; ++port) {
      if (!random.one_in(2)) continue;
      if (const auto at = peers.find(port); at != peers.end()) {
        at->second.server->kill();
        peers.erase(at);  // its connection ends later: the DREQ has no answer
        continue;
      }
      auto server = std::make_unique<Server>(spec, port);
      auto connection = std::make_unique<SharedConnection>(client, port);
      peers[port] = {std::move(server), std::move(connection)};
    }
    for (const auto& [port, peer] : peers) CHECK(peer.connection->works(round * 10'000 + port));
  }
  // In the end the kernel selects the right socket by itself again.
  for (const auto& [port, peer] : peers) CHECK(peer.connection->works(1));
  const uint64_t before = client.side.counter("udp_forwarded");
  const uint64_t received = client.side.counter("udp_forward_received");
  for (uint64_t i = 0; i < 20; ++i)
    for (const auto& [port, peer] : peers) CHECK(peer.connection->works(i));
  CHECK(client.side.counter("udp_forwarded") == before);
  CHECK(client.side.counter("udp_forward_received") == received);
}

TEST_CASE("shared address: the last device that closes leaves no file") {
  const std::string spec = shared_device();
  const std::string address = spec.substr(spec.find(':') + 1);
  { const Party a(spec), b(spec); }
  CHECK(::system(("! ls /dev/shm /tmp | grep -q 'weft-udp-.*-" + address + "-'").c_str()) == 0);
}

}  // namespace
}  // namespace weft::test::shared_address
