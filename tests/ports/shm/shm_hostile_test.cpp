// SPDX-License-Identifier: BSD-3-Clause
// Peers that lie: about who they are, about the memory they hand over, and in what they write
// there.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstring>

#include "lib/base/random.hpp"
#include "providers/port/shm/rendezvous.hpp"
#include "tests/ports/shm/shm_support.hpp"

using namespace shm_test;
namespace shm = weft::port::shm;

namespace {

// A peer made by hand, with an address that it really listens at.
struct Forger {
  explicit Forger(const std::string& job, uint64_t id = 0x1111)
      : where(job), gid(shm::make_gid(id)) {
    auto claimed = shm::listen_at(where, gid);
    REQUIRE(claimed);
    listener = *std::move(claimed);
    memory = shm::create_ring_memory(geometry, file);
    REQUIRE(memory);
    hello.source = gid;
    hello.slots = geometry.slots;
    hello.data_bytes = geometry.data_bytes;
  }
  void send_handshake(const Gid& victim) {
    hello.destination = victim;
    REQUIRE(shm::connect_to(where, victim, socket) == shm::Connect::ok);
    REQUIRE(shm::send_hello(socket.fd(), hello, file.fd()));
  }
  // Did the victim hang up?
  bool cut() const {
    char byte[64];
    ssize_t got;
    while ((got = recv(socket.fd(), byte, sizeof byte, MSG_DONTWAIT)) > 0)
      ;
    return got == 0 || errno == ECONNRESET;
  }

  std::string where;
  Gid gid;
  shm::RingGeometry geometry{64, 65536};
  shm::Descriptor listener, file, socket;
  shm::Mapping memory;
  shm::Hello hello;
};

// Lets `port` look around a few times; returns the frames it received.
size_t look_around(Port& port) {
  std::vector<Received> got;
  for (int i = 0; i < 5000; ++i) collect(port, got);
  return got.size();
}

// The victim still serves honest peers.
void check_alive(Port& victim) {
  auto honest = open_port(job());
  link_up(*honest, victim);
}

}  // namespace

TEST_CASE("shm: a process cannot impersonate the address of another listener (threat:A31)") {
  auto victim = open_port(job());
  auto owner = open_port(job());
  const std::string where = job();
  const bool unused = GENERATE(false, true);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    shm::RingGeometry geometry{64, 65536};
    shm::Descriptor file, socket;
    shm::Mapping memory = shm::create_ring_memory(geometry, file);
    shm::Hello hello;
    hello.source = unused ? shm::make_gid(0x2222) : owner->address();
    hello.destination = victim->address();
    hello.slots = geometry.slots;
    hello.data_bytes = geometry.data_bytes;
    shm::RingProducer ring(memory.data(), geometry);
    const Bytes header = pattern(32, 1);
    TxFrame frame;
    frame.head = header.data();
    frame.head_length = 32;
    ring.push(frame, false);
    if (shm::connect_to(where, victim->address(), socket) != shm::Connect::ok) _exit(1);
    if (!shm::send_hello(socket.fd(), hello, file.fd())) _exit(1);
    for (;;) pause();
  }
  const Deadline deadline(10'000);
  while (counter(*victim, "shm_rx_impostors") == 0 && !deadline.passed())
    REQUIRE(look_around(*victim) == 0);
  CHECK(counter(*victim, "shm_rx_impostors") == 1);
  CHECK(counter(*victim, "shm_links_in") == 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  check_alive(*victim);
}

TEST_CASE("shm: a descriptor that can be truncated, or is no memfd, is refused (threat:A13)") {
  auto victim = open_port(job());
  const int kind = GENERATE(range(0, 6));
  Forger forger(job());
  const auto bytes = static_cast<off_t>(forger.geometry.bytes());
  if (kind < 3) {  // unsealed; too small; too large
    forger.file = shm::Descriptor(memfd_create("forger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const off_t size = kind == 0 ? bytes : kind == 1 ? bytes - 1 : bytes * 2;
    REQUIRE(ftruncate(forger.file.fd(), size) == 0);
    if (kind != 0) REQUIRE(fcntl(forger.file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  } else if (kind == 3) {
    forger.file = shm::Descriptor(open("/dev/zero", O_RDWR | O_CLOEXEC));
  } else if (kind == 4) {
    forger.hello.slots = 100;
  } else {
    forger.hello.data_bytes = uint64_t{1} << 60;
  }
  forger.send_handshake(victim->address());
  CHECK(look_around(*victim) == 0);
  CHECK(counter(*victim, "shm_rx_bad_hello") == 1);
  CHECK(counter(*victim, "shm_links_in") == 0);
  CHECK(forger.cut());
  check_alive(*victim);
}

TEST_CASE("shm: the memory of a ring cannot be truncated by its receiver") {
  shm::Descriptor file;
  const shm::RingGeometry geometry{64, 65536};
  REQUIRE(shm::create_ring_memory(geometry, file));
  CHECK(ftruncate(file.fd(), 0) != 0);
  CHECK(fcntl(file.fd(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("shm: an invalid hello is refused, and idle connections are bounded (threat:A17)") {
  auto victim = open_port(job());
  Forger forger(job());
  REQUIRE(shm::connect_to(job(), victim->address(), forger.socket) == shm::Connect::ok);
  const char* garbage = "hello";
  REQUIRE(send(forger.socket.fd(), garbage, 5, MSG_NOSIGNAL) == 5);
  look_around(*victim);
  CHECK(forger.cut());
  CHECK(counter(*victim, "shm_rx_bad_hello") == 1);

  std::vector<shm::Descriptor> silent(200);
  for (auto& socket : silent)
    REQUIRE(shm::connect_to(job(), victim->address(), socket) == shm::Connect::ok);
  const size_t before = entries("/proc/self/fd");
  for (int i = 0; i < 20; ++i) look_around(*victim);
  CHECK(entries("/proc/self/fd") <= before + 64);
  check_alive(*victim);
}

TEST_CASE("shm: a hello of a slot that no port can have is refused (threat:A31)") {
  auto victim = open_port(job());
  for (const uint64_t id : {uint64_t{0}, uint64_t{255}, uint64_t{0x101}}) {
    Forger forger(job());
    const Gid slot = shm::make_gid(id, shm::NameOf::slot);
    const auto listener = shm::listen_at(job(), slot);
    REQUIRE(listener);
    forger.hello.source = slot;
    const uint64_t before = counter(*victim, "shm_rx_bad_hello");
    forger.send_handshake(victim->address());
    look_around(*victim);
    CHECK(forger.cut());
    CHECK(counter(*victim, "shm_rx_bad_hello") == before + 1);
  }
  CHECK(counter(*victim, "shm_links_in") == 0);
  check_alive(*victim);
}

TEST_CASE("shm: invalid ring contents cut the link of their sender only (threat:A13)") {
  auto victim = open_port(job());
  weft::base::Random random(GENERATE(range(1, 40)));
  Forger forger(job());
  forger.send_handshake(victim->address());
  look_around(*victim);
  REQUIRE(counter(*victim, "shm_links_in") == 1);
  // A good frame, then garbage with good sequence numbers.
  shm::RingProducer ring(forger.memory.data(), forger.geometry);
  const Bytes header = pattern(32, 1);
  TxFrame frame;
  frame.head = header.data();
  frame.head_length = 32;
  REQUIRE(ring.push(frame, false) == shm::RingProducer::Push::taken);
  auto* slots =
      reinterpret_cast<uint64_t*>(forger.memory.data() + shm::RingGeometry::kControlBytes);
  for (uint32_t i = 1; i < 64; ++i) {
    for (int word = 1; word < 8; ++word) slots[i * 8 + word] = random.next();
    slots[i * 8] = (i + 1) | random.next() << 32;
  }
  CHECK(look_around(*victim) >= 1);
  CHECK(counter(*victim, "shm_rx_corrupt") == 1);
  CHECK(counter(*victim, "shm_links_in") == 0);
  CHECK(forger.cut());
  if (random.below(8) == 0) check_alive(*victim);
}

TEST_CASE("shm: a receiver with invalid ring state is cut (threat:A13)") {
  auto victim = open_port(job(), {{"slots", "64"}});
  Forger forger(job());
  REQUIRE(send(*victim, forger.gid, pattern(32, 1)));
  shm::Descriptor accepted(accept4(forger.listener.fd(), nullptr, nullptr, SOCK_NONBLOCK));
  REQUIRE(accepted);
  shm::Hello hello;
  shm::Descriptor file;
  REQUIRE(shm::receive_hello(accepted.fd(), hello, file) == shm::Received::ok);
  CHECK(hello.source == victim->address());
  const shm::RingGeometry geometry{hello.slots, hello.data_bytes};
  shm::Mapping memory = shm::map_ring_memory(geometry, file);
  REQUIRE(memory);
  shm::RingView view(memory.data(), geometry);
  CHECK(view.slots[0].label.load() != 0);
  view.control->consumed.store(12345);
  // Doorbells without end, and one that looks like the end.
  for (int i = 0; i < 300; ++i) shm::ring_doorbell(accepted.fd());
  for (int i = 0; i < 70; ++i) send(*victim, forger.gid, pattern(32, 1));
  CHECK(counter(*victim, "shm_rx_corrupt") >= 1);
  CHECK(counter(*victim, "shm_peers_lost") == 1);
  look_around(*victim);
  check_alive(*victim);
}

TEST_CASE("shm: an invalid handshake reply has no effect") {
  auto victim = open_port(job(), {{"by_reference", "1"}, {"threshold", "4096"}});
  Forger forger(job());
  const Bytes payload = pattern(10'000, 1);
  REQUIRE(send(*victim, forger.gid, pattern(32, 1), payload, true));
  shm::Descriptor accepted(accept4(forger.listener.fd(), nullptr, nullptr, SOCK_NONBLOCK));
  shm::Hello hello;
  shm::Descriptor file;
  REQUIRE(shm::receive_hello(accepted.fd(), hello, file) == shm::Received::ok);
  shm::HandshakeReply welcome;
  welcome.magic = 1;
  welcome.flags = ~0u;
  REQUIRE(send(accepted.fd(), &welcome, sizeof welcome, MSG_NOSIGNAL) > 0);
  look_around(*victim);
  REQUIRE(send(*victim, forger.gid, pattern(32, 1), payload, true));
  const shm::RingGeometry geometry{hello.slots, hello.data_bytes};
  shm::Mapping memory = shm::map_ring_memory(geometry, file);
  shm::RingConsumer ring(memory.data(), geometry);
  Frame frame;
  shm::SlotCopy copy;
  shm::Arena arena;
  for (int i = 0; i < 2; ++i) {
    bool by_reference = true;
    REQUIRE(ring.take(frame, copy, arena, by_reference) == shm::RingConsumer::Take::frame);
    CHECK_FALSE(by_reference);
  }
}

// That a pull from the peer works is proven by 16 random bytes, not by its success: under the
// process id that the kernel names another process may run, in another namespace of processes.
TEST_CASE("shm: payload goes by reference only to a peer that read the nonce (threat:A31)") {
  auto victim = open_port(job(), {{"by_reference", "1"}, {"threshold", "4096"}});
  const auto flags_for = [&](const shm::Nonce& told, const shm::Nonce* there) {
    Forger forger(job());
    forger.hello.nonce = told;
    forger.hello.nonce_address = reinterpret_cast<uint64_t>(there);
    forger.send_handshake(victim->address());
    look_around(*victim);
    shm::HandshakeReply reply;
    REQUIRE(recv(forger.socket.fd(), &reply, sizeof reply, MSG_DONTWAIT) == sizeof reply);
    CHECK(reply.magic == shm::kReplyMagic);
    return reply.flags & shm::kFlagCanPull;
  };
  shm::Nonce nonce;
  for (size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(i + 1);
  CHECK(flags_for(nonce, &nonce) == shm::kFlagCanPull);
  shm::Nonce last_differs = nonce;
  last_differs.back() ^= std::byte{1};
  CHECK(flags_for(last_differs, &nonce) == 0);
  CHECK(flags_for({}, nullptr) == 0);  // nothing was read: 16 zeros are no proof
}

TEST_CASE("shm: a port names a random nonce and where it lies") {
  shm::Nonce seen[2];
  for (shm::Nonce& nonce : seen) {
    auto port = open_port(job());
    Forger forger(job());
    REQUIRE(send(*port, forger.gid, pattern(32, 1)));
    shm::Descriptor accepted(accept4(forger.listener.fd(), nullptr, nullptr, SOCK_NONBLOCK));
    shm::Hello hello;
    shm::Descriptor file;
    REQUIRE(shm::receive_hello(accepted.fd(), hello, file) == shm::Received::ok);
    nonce = hello.nonce;
    REQUIRE(hello.nonce_address != 0);
    CHECK(std::memcmp(reinterpret_cast<const void*>(hello.nonce_address), nonce.data(),
                      nonce.size()) == 0);
  }
  CHECK(seen[0] != seen[1]);
  CHECK(seen[0] != shm::Nonce{});
}
