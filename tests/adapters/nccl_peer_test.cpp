// SPDX-License-Identifier: BSD-3-Clause
// The plug-in of NCCL against a peer that breaks the protocol, and against senders that are not its
// peer: the connection ends in an error that says why, or goes on; no wrong byte count, no crash.
// The other end of each connection is played by the test, on queue pairs of its own.
// link: nccl_objects nccl_wire
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "lib/adapters/nccl/bootstrap.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::nccl;

namespace {

enum DeviceNumber : int { kSrd, kRc };

const NetDevice& net_device(DeviceNumber number) {
  ::setenv("WEFT_DEVICE", "srd+udp:lo;roce+udp:lo", 1);
  REQUIRE(DeviceList::of_process().open());
  return **DeviceList::of_process().at(number);
}

template <class Function>
void until(Function holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    REQUIRE(std::chrono::steady_clock::now() < limit);
    std::this_thread::yield();
  }
}

// One end of a connection that the test plays.
struct Peer {
  std::vector<Lane> lanes;
  std::array<Announcement, kRingSize> ring{};
  MemoryRegion region;
  Control control;
  Hello ours, theirs;

  explicit Peer(const NetDevice& device) : lanes(*create_lanes(device, {64, 64})) {
    region = *device.devices.front()->domain.register_memory(
        &ring, sizeof ring, Access::local_write | Access::remote_write);
    lanes.front().needed = 64;
    REQUIRE(top_up(lanes.front()));
    ours.device = device.spec();
    ours.identity = "the test";
    ours.service = device.attributes().qp_type;
    ours.max_part = device.max_part;
    ours.lanes = addresses_of(lanes);
    ours.ring_address = reinterpret_cast<uint64_t>(&ring);
    ours.ring_rkey = region.rkey();
  }
  // What was received, if it is a hello.
  bool take_hello() {
    const auto message = control.receive();
    if (!message || !*message) return false;
    theirs = *parse_hello((*message)->body);
    return true;
  }
  void connect(const std::vector<LaneAddress>& to) { REQUIRE(connect_lanes(lanes, to, 0)); }
  void post(const SendRequest& request) { REQUIRE(lanes.front().qp.post_send(request)); }
  // Writes `size` bytes of the ring, whose content does not matter here, as a part of a send.
  void write_part(const PartName& name, const void* to, uint32_t size, RKey rkey) {
    const Sge sge = region.sge(0, size);
    SendRequest request{.opcode = Opcode::write_with_imm,
                        .imm = name.imm(),
                        .remote_address = reinterpret_cast<uint64_t>(to),
                        .rkey = rkey};
    if (size != 0) request.sges = {&sge, 1};
    post(request);
  }
  void announce(const Announcement& announcement) {
    ring[0] = announcement;
    const Sge sge = region.sge(0, announcement_bytes(announcement.count));
    post({.opcode = Opcode::write_with_imm,
          .imm = announcement.sequence,
          .sges = {&sge, 1},
          .remote_address = theirs.ring_address,
          .rkey = theirs.ring_rkey});
  }
};

// The plug-in's receiving end, and the test as the sender.
struct Receiving {
  Peer peer;
  std::unique_ptr<ReceiveComm> comm;
  std::array<std::byte, 400> memory{};
  std::unique_ptr<Memory> registered;

  explicit Receiving(const NetDevice& device) : peer(device) {
    std::array<std::byte, kHandleSize> bytes{};
    const auto listener = std::move(*ListenComm::create(device, bytes));
    const Handle handle = *parse_handle(bytes);
    peer.ours.nonce = handle.nonce;
    peer.control = Control(std::move(
        *start_connect(handle.address, handle.port, device.attributes().interface_index)));
    until([&] { return *peer.control.connected(); });
    peer.control.send(emit_hello(peer.ours));
    until([&] { return !(comm = std::move(*listener->accept())) && peer.take_hello(); });
    peer.connect(peer.theirs.lanes);
    peer.control.send(emit(Message::ready, {}));
    until([&] { return (comm = std::move(*listener->accept())) != nullptr; });
    registered.reset(*comm->register_memory(memory.data(), memory.size(), comm->access()));
  }
  Request& post(size_t size) {
    void* data = memory.data();
    void* const of = registered.get();
    const int tag = 1;
    void* request = nullptr;
    REQUIRE(comm->irecv(1, &data, &size, &tag, &of, &request) == Outcome::success);
    REQUIRE(request != nullptr);
    return *static_cast<Request*>(request);
  }
  RKey rkey() const { return registered->regions.front().rkey(); }
  // What test() says in the end, and the size if it is success.
  std::pair<Outcome, int> end_of(Request& request) {
    int done = 0, size = 0;
    Outcome outcome = Outcome::success;
    until([&] {
      outcome = comm->test(request, &done, &size);
      return done != 0 || outcome != Outcome::success;
    });
    return {outcome, size};
  }
};

// The plug-in's sending end, and the test as the receiver.
struct Sending {
  Peer peer;
  std::unique_ptr<SendComm> comm;
  std::array<std::byte, 400> memory{};
  std::unique_ptr<Memory> registered;

  explicit Sending(const NetDevice& device, uint32_t max_part = 0) : peer(device) {
    const DeviceAttributes& a = device.attributes();
    if (max_part != 0) peer.ours.max_part = max_part;
    const Listening listening = std::move(*listen_at(a.gid, a.interface_index));
    const auto connecting =
        std::move(*Connecting::start(device, 0, {.address = a.gid, .port = listening.port}));
    until([&] {
      const int fd = ::accept4(listening.socket.fd(), nullptr, nullptr, SOCK_NONBLOCK);
      peer.control = Control(Descriptor(fd));
      return fd >= 0;
    });
    until([&] { return !*connecting->advance() && peer.take_hello(); });
    peer.connect(peer.theirs.lanes);
    peer.control.send(emit_hello(peer.ours));
    until([&] { return (comm = std::move(*connecting->advance())) != nullptr; });
    registered.reset(*comm->register_memory(memory.data(), memory.size(), comm->access()));
  }
  Outcome post(size_t size, int tag, void** request) {
    return comm->isend(memory.data(), size, tag, registered.get(), request);
  }
  Outcome end() {
    Outcome outcome = Outcome::success;
    until([&] { return (outcome = comm->progress()) != Outcome::success; });
    return outcome;
  }
};

TEST_CASE("a message of the peer that is no WRITE ends the connection") {
  for (const DeviceNumber number : {kSrd, kRc}) {
    Sending sending(net_device(number));
    sending.peer.post({.opcode = Opcode::send});
    CHECK(sending.end() == Outcome::remote_error);
    Receiving receiving(net_device(number));
    Request& request = receiving.post(100);
    receiving.peer.post({.opcode = Opcode::send_with_imm, .imm = PartName{}.imm()});
    CHECK(receiving.end_of(request).first == Outcome::remote_error);
  }
}

TEST_CASE("SRD: messages of a sender that is not the peer are dropped") {
  const NetDevice& device = net_device(kSrd);
  Receiving receiving(device);
  Request& request = receiving.post(100);
  Peer other(device);
  other.connect(receiving.peer.theirs.lanes);
  other.write_part({.sequence = 0}, nullptr, 0, {});
  other.post({.opcode = Opcode::send});
  int completed = 0;
  until([&] {
    std::array<Completion, 2> completions;
    int done = 0;
    REQUIRE(receiving.comm->test(request, &done, nullptr) == Outcome::success);
    REQUIRE(done == 0);
    completed += static_cast<int>(other.lanes.front().cq.poll(completions));
    return completed == 2;
  });
  receiving.peer.write_part({.sequence = 0}, receiving.memory.data(), 60, receiving.rkey());
  CHECK(receiving.end_of(request) == std::pair{Outcome::success, 60});
}

TEST_CASE("a send that is larger than its receive ends the connection") {
  Receiving receiving(net_device(kSrd));
  Request& request = receiving.post(100);
  receiving.peer.write_part({}, receiving.memory.data(), 150, receiving.rkey());
  CHECK(receiving.end_of(request).first == Outcome::remote_error);
}

TEST_CASE("a send of more parts than its receive can have ends the connection") {
  Receiving receiving(net_device(kSrd));
  Request& request = receiving.post(100);
  receiving.peer.write_part({.parts = 9}, receiving.memory.data(), 10, receiving.rkey());
  CHECK(receiving.end_of(request).first == Outcome::remote_error);
}

// The peer's ring is gone, so that both announcements fail; the data of the first comes all the
// same.
TEST_CASE("each of several transfers that failed counts") {
  Receiving receiving(net_device(kSrd));
  receiving.peer.region = {};
  Request& first = receiving.post(100);
  Request& second = receiving.post(100);
  receiving.peer.region = *net_device(kSrd).devices.front()->domain.register_memory(
      &receiving.peer.ring, sizeof receiving.peer.ring, Access::local_write);
  receiving.peer.write_part({}, receiving.memory.data(), 100, receiving.rkey());
  until([&] {
    Completion completion;
    return receiving.peer.lanes.front().cq.poll({&completion, 1}) == 1;
  });
  CHECK(receiving.end_of(first) == std::pair{Outcome::success, 100});
  CHECK(receiving.end_of(second).first == Outcome::remote_error);
}

TEST_CASE("an announced receive that no WRITEs of the connection can fill ends it") {
  Sending sending(net_device(kSrd), 4096);
  Announcement announcement{.count = 1};
  announcement.receives[0] = {.size = uint64_t{1} << 60, .tag = 1};
  sending.peer.announce(announcement);
  CHECK(sending.end() == Outcome::remote_error);
}

TEST_CASE("after an error each call says it") {
  Sending sending(net_device(kSrd));
  Announcement announcement{.count = 2};
  announcement.receives[0] = {.size = 50, .tag = 1};
  announcement.receives[1] = {.size = 50, .tag = 2};
  sending.peer.announce(announcement);
  void* request = nullptr;
  Outcome outcome = Outcome::success;
  until([&] { return (outcome = sending.post(100, 1, &request)) != Outcome::success; });
  CHECK(outcome == Outcome::invalid_usage);
  CHECK(sending.post(0, 2, &request) == Outcome::invalid_usage);
  CHECK(request == nullptr);
}

TEST_CASE("after the set-up TCP carries the end only") {
  Sending sending(net_device(kSrd));
  sending.peer.control.send(emit(Message::ready, {}));
  CHECK(sending.end() == Outcome::remote_error);
}

// A listener of the plug-in, and its handle.
struct Listener {
  std::array<std::byte, kHandleSize> bytes{};
  std::unique_ptr<ListenComm> comm;
  Handle handle;

  explicit Listener(const NetDevice& device)
      : comm(std::move(*ListenComm::create(device, bytes))), handle(*parse_handle(bytes)) {}
  // The text with which accept() fails.
  std::string failure() const {
    std::string text;
    until([&] {
      const auto made = comm->accept();
      if (!made) text = made.error().message;
      return !made;
    });
    return text;
  }
};

TEST_CASE("connections that say nothing do not hold up a listener") {
  ::setenv("WEFT_NCCL_CONNECT_S", "5", 1);
  const NetDevice& device = net_device(kSrd);
  const Listener listener(device);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 100; ++i)
    silent.push_back(std::move(*start_connect(listener.handle.address, listener.handle.port, 0)));
  const auto connecting = std::move(*Connecting::start(device, 0, listener.handle));
  std::unique_ptr<SendComm> send;
  std::unique_ptr<ReceiveComm> receive;
  until([&] {
    auto connected = connecting->advance();
    auto accepted = listener.comm->accept();
    REQUIRE((connected && accepted));
    if (*connected) send = std::move(*connected);
    if (*accepted) receive = std::move(*accepted);
    return receive != nullptr;
  });
  ::unsetenv("WEFT_NCCL_CONNECT_S");
}

TEST_CASE("a side that gives up tells the other why") {
  const NetDevice& device = net_device(kSrd);
  const Listener listener(device);
  ::setenv("WEFT_NCCL_CONNECT_S", "0.2", 1);
  const auto connecting = std::move(*Connecting::start(device, 0, listener.handle));
  ::unsetenv("WEFT_NCCL_CONNECT_S");
  until([&] { return !connecting->advance(); });
  const std::string said = listener.failure();
  INFO(said);
  CHECK(said.find("has not called accept() for 200 ms") != std::string::npos);
}

TEST_CASE("each member of a virtual device meets the one at the same place") {
  const auto meet = [](const char* ours, const char* theirs) {
    Hello a, b;
    a.device = ours;
    b.device = theirs;
    a.identity = "us";
    b.identity = "them";
    const Result<void> fit = check_peer(a, b);
    const std::string text = std::string("us uses ") + ours + ", them uses " + theirs +
                             ": give all ranks the same WEFT_DEVICE";
    if (!fit) CHECK(fit.error().message == text);
    return static_cast<bool>(fit);
  };
  CHECK(meet("srd+udp:lo", "srd+udp:eth0"));
  CHECK(meet("srd+shm:a;srd+shm:b", "srd+shm:a;srd+shm:b"));
  CHECK(meet("srd+udp:lo;srd+shm:b", "srd+udp:eth0"));
  CHECK_FALSE(meet("srd+shm:a", "srd+shm:b"));
  CHECK_FALSE(meet("srd+udp:lo;srd+shm:a", "srd+udp:lo;srd+shm:b"));
  CHECK_FALSE(meet("srd+shm:a;srd+shm:b", "srd+shm:b;srd+shm:a"));
  CHECK_FALSE(meet("srd+shm:a;srd+udp:lo", "srd+udp:lo;srd+shm:a"));
}

TEST_CASE("traffic classes have eight bits") {
  const NetDevice& device = net_device(kSrd);
  const Listener listener(device);
  CHECK(Connecting::start(device, 255, listener.handle));
  const auto made = Connecting::start(device, 256, listener.handle);
  REQUIRE(!made);
  CHECK(made.error().message.find("256") != std::string::npos);
}

}  // namespace
