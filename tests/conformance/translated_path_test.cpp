// SPDX-License-Identifier: BSD-3-Clause
// Two devices with address translation between them: each names the other by an address of the
// translator, which forwards packets from its other address. Every ICRC is wrong then: devices warn
// once, and icrc=off on both sides makes data flow.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

sockaddr_in roce_port_of(const Gid& address) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(4791);
  std::memcpy(&at.sin_addr, address.bytes.data() + 12, 4);
  return at;
}

// Stands for `left` and `right`: what `a` sends to `left` comes to `b` from `right`, and back.
class Translator {
 public:
  Translator(const Gid& a, const Gid& b) : a_(a), b_(b) {
    left_ = claim(left);
    right_ = claim(right);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd both[] = {{left_, POLLIN, 0}, {right_, POLLIN, 0}};
        if (::poll(both, 2, 20) <= 0) continue;
        if (both[0].revents != 0) pass(left_, right_, b_);
        if (both[1].revents != 0) pass(right_, left_, a_);
      }
    });
  }
  ~Translator() {
    thread_.request_stop();
    thread_.join();
    close(left_);
    close(right_);
  }
  Gid left, right;

 private:
  // A free address of 127/8.
  static int claim(Gid& address) {
    static uint32_t next = static_cast<uint32_t>(getpid());
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int most = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
    for (int tries = 0; tries < 1000; ++tries) {
      ++next;
      address =
          Gid::from_ipv4(127, 77, static_cast<uint8_t>(next >> 8), static_cast<uint8_t>(next));
      const sockaddr_in at = roce_port_of(address);
      if (bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return fd;
    }
    FAIL("no free address in 127.77.0.0/16");
    return -1;
  }
  static void pass(int from, int through, const Gid& to) {
    static thread_local std::byte bytes[65536];
    const ssize_t size = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    const sockaddr_in at = roce_port_of(to);
    if (size > 0)
      (void)!sendto(through, bytes, static_cast<size_t>(size), 0,
                    reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }

  const Gid a_, b_;
  int left_ = -1, right_ = -1;
  std::jthread thread_;
};

// All that the process writes on stderr while it lives.
class Overheard {
 public:
  Overheard() {
    saved_ = dup(2);
    file_ = std::tmpfile();
    dup2(fileno(file_), 2);
  }
  ~Overheard() {
    dup2(saved_, 2);
    close(saved_);
    std::fclose(file_);
  }
  std::string text() const {
    std::string all(65536, 0);
    all.resize(
        static_cast<size_t>(std::max<ssize_t>(0, pread(fileno(file_), all.data(), 65536, 0))));
    return all;
  }

 private:
  int saved_ = -1;
  FILE* file_ = nullptr;
};

size_t count_of(const std::string& text, const std::string& piece) {
  size_t n = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

struct Translated {
  explicit Translated(const std::string& spec)
      : a(spec),
        b(spec),
        translator(a.device.attributes().gid, b.device.attributes().gid),
        near(a, 65536),
        far(b, 65536),
        qa(a.queue_pair()),
        qb(b.queue_pair()) {
    to_rts(qa, translator.left, qb.number());
    to_rts(qb, translator.right, qa.number());
  }
  static void to_rts(const QueuePair& qp, const Gid& peer, QpNum number) {
    REQUIRE(qp.modify({.state = QpState::init,
                       .pkey_index = uint16_t{0},
                       .port = uint8_t{1},
                       .access = Access::all}));
    QueuePairAttributes rtr{.state = QpState::rtr};
    rtr.path = AddressVector{.destination = peer};
    rtr.path_mtu = 1024;
    rtr.dest_qpn = number;
    rtr.rq_psn = Psn{7};
    rtr.max_dest_rd_atomic = uint8_t{4};
    rtr.min_rnr_timer = uint8_t{1};
    REQUIRE(qp.modify(rtr));
    QueuePairAttributes rts{.state = QpState::rts, .sq_psn = Psn{7}};
    rts.max_rd_atomic = uint8_t{4};
    rts.timeout = uint8_t{12};
    rts.retry_count = uint8_t{7};
    rts.rnr_retry = uint8_t{7};
    REQUIRE(qp.modify(rts));
  }
  void write(uint64_t id, uint32_t length) {
    const Sge out = near.sge(0, length);
    REQUIRE(qa.post_send({.id = id,
                          .opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  }
  Completion next() {
    if (!pump_until({&a, &b}, [&] { return !a.got.empty(); })) FAIL("nothing completes");
    const Completion c = a.got.front();
    a.got.erase(a.got.begin());
    return c;
  }

  Side a, b;
  Translator translator;
  Buffer near, far;
  QueuePair qa, qb;
};

TEST_CASE("a translated path fails every ICRC, and a device says so once") {
  const Overheard stderr_of_this;
  Translated t("roce+udp:lo");
  t.write(1, 60000);  // 59 packets, and each again
  CHECK(t.next().status == Status::retry_exceeded);
  CHECK(t.b.counter("rx_icrc_error") >= 59);
  CHECK(t.b.counter("peers_failing_icrc") == 1);
  for (size_t i = 0; i < 60000; ++i) REQUIRE(t.far.at()[i] == std::byte{0});
  const std::string said = stderr_of_this.text();
  INFO(said);
  CHECK(count_of(said, "ICRC") == 1);
  CHECK(count_of(said, to_string(t.translator.right)) == 1);
  CHECK(count_of(said, "icrc=off") == 1);
}

TEST_CASE("WEFT_LOG=off keeps a device silent") {
  const Overheard stderr_of_this;
  setenv("WEFT_LOG", "off", 1);
  Translated t("roce+udp:lo");
  t.write(1, 60000);
  CHECK(t.next().status == Status::retry_exceeded);
  unsetenv("WEFT_LOG");
  CHECK(t.b.counter("peers_failing_icrc") == 1);
  CHECK(stderr_of_this.text().empty());
}

TEST_CASE("icrc=off on both sides carries data over a translated path") {
  Translated t("roce+udp:lo,icrc=off");
  CHECK(t.a.device.attributes().integrity_bits == 0);
  for (uint64_t id = 0; id < 50; ++id) {
    const auto length = static_cast<uint32_t>(1200 * id + 1);
    fill({t.near.at(), length}, id);
    t.write(id, length);
    REQUIRE(t.next().status == Status::success);
    REQUIRE(std::memcmp(t.near.at(), t.far.at(), length) == 0);
  }
  const Sge back = t.near.sge(0, 60000);
  fill({t.far.at(), 60000}, 999);
  REQUIRE(t.qa.post_send({.id = 99,
                          .opcode = Opcode::read,
                          .sges = {&back, 1},
                          .remote_address = t.far.address(),
                          .rkey = t.far.region.rkey()}));
  REQUIRE(t.next().status == Status::success);
  CHECK(std::memcmp(t.near.at(), t.far.at(), 60000) == 0);
  CHECK(t.b.counter("rx_icrc_error") == 0);
  CHECK(t.b.counter("peers_failing_icrc") == 0);
}

TEST_CASE("icrc= takes on and off") {
  const Result<Device> wrong = Device::open("roce+udp:lo,icrc=0");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == Code::invalid_argument);
  CHECK(wrong.error().message.find("on or off") != std::string::npos);
  CHECK(Device::open("roce+udp:lo,icrc=on"));
}

}  // namespace
}  // namespace weft
