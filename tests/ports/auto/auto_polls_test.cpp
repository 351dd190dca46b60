// SPDX-License-Identifier: BSD-3-Clause
// How often the port auto asks the network while frames come in memory, and what its waits do to
// both ports. The network is one that counts.
#include "lib/transport/suspended_wait.hpp"
#include "providers/port/auto/auto_port.hpp"
#include "tests/ports/shm/shm_support.hpp"

using namespace shm_test;

namespace {

using weft::port::AutoPort;
using weft::port::ShmPort;

class CountingNetwork final : public weft::transport::Port, public weft::transport::SuspendedWait {
 public:
  const weft::transport::Capabilities& capabilities() const noexcept override { return has_; }
  Gid address() const noexcept override { return {}; }
  weft::Result<void> join(const Gid&) override { return {}; }
  size_t receive(std::span<Frame>) noexcept override { return ++receives, 0; }
  void release(std::span<const Frame>) noexcept override {}
  size_t transmit(std::span<const TxFrame> frames) noexcept override {
    return sent += frames.size(), frames.size();
  }
  bool prepare_wait(std::vector<pollfd>&, bool) override { return ++waits, true; }
  void finish_wait() noexcept override { ++finishes; }
  void suspend_wait() noexcept override { ++suspends; }
  bool resume_wait() noexcept override { return ++resumes, quiet; }

  bool quiet = true;
  size_t receives = 0, sent = 0, waits = 0, finishes = 0, suspends = 0, resumes = 0;

 private:
  weft::transport::Capabilities has_;
};

// A port auto, and another port in memory that sends to it.
struct Both {
  CountingNetwork* network = new CountingNetwork;
  std::unique_ptr<ShmPort> peer = beside(2);
  AutoPort port{std::unique_ptr<Port>(network), beside(1)};

  static Gid address(uint8_t last) {
    return Gid::from_ipv4(127, 92, static_cast<uint8_t>(getpid() / 200 % 200 + 1),
                          static_cast<uint8_t>(getpid() % 100 * 2 + last));
  }
  static std::unique_ptr<ShmPort> beside(uint8_t last) {
    auto made = weft::port::open_shm_port_beside(address(last), 0, 4791);
    INFO((made ? "" : made.error().message));
    REQUIRE(made);
    return *std::move(made);
  }
  size_t send(Port& from, uint8_t to, bool in_memory) {
    Path path;
    path.source = address(3 - to);
    path.destination = address(to);
    path.in_memory = in_memory;
    Bytes bytes(40);
    TxFrame frame;
    frame.path = &path;
    frame.head = bytes.data();
    frame.head_length = static_cast<uint32_t>(bytes.size());
    frame.header_length = 12;
    return from.transmit({&frame, 1});
  }
  size_t receive() {
    Frame frames[8];
    const size_t count = port.receive(frames);
    if (count != 0) port.release(std::span(frames, count));
    return count;
  }
  // Until a frame in memory has come.
  void receive_one() {
    REQUIRE(send(*peer, 1, true) == 1);
    const Deadline deadline(20'000);
    while (receive() == 0) REQUIRE(!deadline.passed());
  }
  // How often the network is asked in so many calls without a frame.
  size_t asked_in(size_t calls) {
    const size_t before = network->receives;
    for (size_t i = 0; i < calls; ++i) REQUIRE(receive() == 0);
    return network->receives - before;
  }
};

TEST_CASE("auto: the network is asked in each call unless frames have just come in memory") {
  Both both;
  REQUIRE(both.peer->reaches(Both::address(1), weft::QpNum{0x10}));
  CHECK(both.asked_in(600) == 600);
  both.receive_one();
  CHECK(both.asked_in(256) == 256 / 32);
  CHECK(both.asked_in(100) == 100);
  both.receive_one();
  CHECK(both.asked_in(31) == 0);
  CHECK(both.asked_in(1) == 1);
  both.receive_one();  // and again
  CHECK(both.asked_in(256) == 256 / 32);
}

TEST_CASE("auto: after a wait the network is asked at once, as it may have woken the thread") {
  Both both;
  REQUIRE(both.peer->reaches(Both::address(1), weft::QpNum{0x10}));
  both.receive_one();
  CHECK(both.asked_in(10) == 0);
  std::vector<pollfd> descriptors;
  REQUIRE(both.port.prepare_wait(descriptors, false));
  CHECK_FALSE(descriptors.empty());
  CHECK(both.network->waits == 1);
  both.port.finish_wait();
  CHECK(both.network->finishes == 1);
  CHECK(both.asked_in(5) == 5);
}

TEST_CASE("auto: a suspended wait is that of both ports, and resumes if both are quiet") {
  Both both;
  REQUIRE(both.peer->reaches(Both::address(1), weft::QpNum{0x10}));
  both.receive_one();
  std::vector<pollfd> descriptors;
  REQUIRE(both.port.prepare_wait(descriptors, false));
  both.port.suspend_wait();
  CHECK(both.network->suspends == 1);
  CHECK(both.port.resume_wait());
  CHECK(both.network->resumes == 1);
  both.port.suspend_wait();
  both.network->quiet = false;
  CHECK_FALSE(both.port.resume_wait());
  both.network->quiet = true;
  both.port.suspend_wait();
  REQUIRE(both.send(*both.peer, 1, true) == 1);
  CHECK_FALSE(both.port.resume_wait());  // a frame in memory is there
  CHECK(both.network->resumes == 3);     // both are asked
  both.port.finish_wait();
  CHECK(both.receive() == 1);
}

TEST_CASE("auto: frames go the way that their path names") {
  Both both;
  CHECK(both.send(both.port, 2, false) == 1);
  CHECK(both.network->sent == 1);
  REQUIRE(both.port.reaches_in_memory(Both::address(2), weft::QpNum{0x10}));
  CHECK_FALSE(both.port.reaches_in_memory(Gid::from_ipv4(127, 92, 250, 1), weft::QpNum{0x10}));
  CHECK(both.send(both.port, 2, true) == 1);
  CHECK(both.network->sent == 1);
  CHECK(receive(*both.peer, 1).size() == 1);
}

TEST_CASE("auto: auto.memory is 0 or 1") {
  const auto message_of = [](const std::string& value) {
    weft::transport::PortOptions options;
    options.where = "lo";
    options.options = {{"memory", value}};
    const auto port = weft::port::open_auto_port(options);
    return port ? std::string() : port.error().message;
  };
  CHECK(message_of("0").empty());
  CHECK(message_of("1").empty());
  CHECK(message_of("2") == "auto.memory=2: must be 0 or 1");
  CHECK(message_of("") == "auto.memory=: must be 0 or 1");
}

}  // namespace
