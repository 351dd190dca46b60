// SPDX-License-Identifier: BSD-3-Clause
// Connection set-up in clear text against peers that are silent, slow, closed, or send malformed
// messages: none of them may block the others, modify a queue pair or use unbounded memory.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "lib/crypto/terms.hpp"
#include "lib/verbs/connect_wire.hpp"
#include "tests/conformance/connect_support.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/secret_file.hpp"

namespace weft {

using namespace test;

namespace {

// A peer without manners: plain TCP.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  explicit RawPeer(int fd) : fd_(fd) {}
  RawPeer(RawPeer&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  ~RawPeer() {
    if (fd_ >= 0) close(fd_);
  }
  void send(const void* data, size_t size) const {
    (void)::send(fd_, data, size, MSG_NOSIGNAL);  // a test that it matters to sees the answer
  }
  void send(const std::vector<std::byte>& data) const { send(data.data(), data.size()); }
  // In clear text, as an insecure side expects it.
  void send_terms() const {
    const crypto::TermsBytes terms = crypto::Terms{.mode = crypto::Mode::clear}.bytes();
    send(&terms, sizeof terms);
  }
  // Everything until the other side closes.
  std::string receive_all() const {
    std::string all;
    char part[512];
    for (ssize_t n; (n = recv(fd_, part, sizeof part, 0)) > 0;)
      all.append(part, static_cast<size_t>(n));
    return all;
  }

 private:
  int fd_;
};

// A TCP listener that does nothing else.
class RawListener {
 public:
  RawListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    REQUIRE(bind(fd_, reinterpret_cast<const sockaddr*>(&here), size) == 0);
    REQUIRE(::listen(fd_, 16) == 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size);
    port_ = ntohs(here.sin_port);
  }
  ~RawListener() { close(fd_); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  RawPeer accept() const { return RawPeer(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  int fd_;
  uint16_t port_ = 0;
};

const ConnectOptions kClear{.security = {.insecure = true}};

verbs::Hello plausible_hello() {
  verbs::Hello hello;
  hello.gid = Gid::from_ipv4(127, 0, 0, 9);
  hello.qpn = {77};
  hello.psn = {5};
  hello.path_mtu = 1024;
  hello.max_rd_atomic = 1;
  hello.transport = "roce+udp";
  return hello;
}

}  // namespace

TEST_CASE("time limits end connect and accept") {
  Endpoint e;
  const ConnectOptions brief{.limit = Duration::from_ms(200), .security = kClear.security};
  const auto start = std::chrono::steady_clock::now();
  Listener listener = *Listener::listen("127.0.0.1:0");
  CHECK(listener.accept(e.queue_pair(), brief).error().code == Code::timed_out);
  const RawListener silent;  // the kernel accepts the connection, no message is sent
  const QueuePair qp = e.queue_pair();
  CHECK(connect(silent.address(), qp, brief).error().code == Code::timed_out);
  CHECK(qp.state() == QpState::reset);
  CHECK(seconds_since(start) < 3);
}

TEST_CASE("a server that closes or talks nonsense gives an error") {
  Endpoint e;
  const RawListener raw;
  const QueuePair qp = e.queue_pair();
  std::thread server([&] {
    { const RawPeer gone = raw.accept(); }
    const RawPeer web = raw.accept();
    web.send("HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    (void)web.receive_all();
    const RawPeer refusing = raw.accept();
    refusing.send_terms();
    refusing.send(verbs::emit_reject("go away\n"));
    (void)refusing.receive_all();
  });
  CHECK(connect(raw.address(), qp, kClear).error().code == Code::disconnected);
  CHECK(connect(raw.address(), qp, kClear).error().code == Code::invalid_argument);
  const Error refused = connect(raw.address(), qp, kClear).error();
  CHECK(refused.code == Code::disconnected);
  CHECK(refused.message == "the peer refused: go away?");
  server.join();
  CHECK(qp.state() == QpState::reset);
}

TEST_CASE("a peer with a wrong magic or hello is rejected and does not disturb others") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const RawPeer web(listener.port());
  web.send("GET / HTTP/1.1\r\n\r\n", 18);
  const RawPeer forger(listener.port());
  forger.send_terms();
  verbs::Hello hello = plausible_hello();
  hello.transport = "roce+shm";
  forger.send(verbs::emit_hello(hello));
  const RawPeer impatient(listener.port());
  impatient.send_terms();
  impatient.send(verbs::emit_ready());
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, e.queue_pair(), e.queue_pair(), kClear, kClear, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(web.receive_all().size() == sizeof(crypto::TermsBytes));
  CHECK(forger.receive_all().find("roce+shm") != std::string::npos);
  CHECK(impatient.receive_all().find("hello") != std::string::npos);
}

TEST_CASE("silent peers, more than there are slots, do not keep a good one out") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  std::vector<RawPeer> silent;
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(listener.port());
    if (i % 2 == 0) silent.back().send("WE", 2);  // a part of the magic
  }
  const auto start = std::chrono::steady_clock::now();
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, e.queue_pair(), e.queue_pair(), kClear, kClear, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(seconds_since(start) < 5);
}

TEST_CASE("who has another secret, or none, is refused, and both sides name why") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const SecretFile ours, others;
  const ConnectOptions with{.limit = Duration::from_s(20), .security = ours.security()};
  for (const Security& wrong : {others.security(), kClear.security}) {
    Result<Connection> accepted = kNone;
    const QueuePair a = e.queue_pair(), b = e.queue_pair();
    ConnectOptions brief = with;
    brief.limit = Duration::from_s(1);
    std::thread server([&] { accepted = listener.accept(b, brief); });
    const Error refused = connect(at(listener), a, {.security = wrong}).error();
    server.join();
    const char* const why = wrong.insecure ? "insecure" : "same secret in WEFT_SECRET";
    CHECK(refused.code == Code::permission_denied);
    CHECK(refused.message.find(why) != std::string::npos);
    REQUIRE(!accepted);
    CHECK(accepted.error().message.find(why) != std::string::npos);
    CHECK(a.state() == QpState::reset);
    CHECK(b.state() == QpState::reset);
  }
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, e.queue_pair(), e.queue_pair(), with, with, ra, rb);
  CHECK(ra);
  CHECK(rb);
}

TEST_CASE("a peer that stalls after its hello is passed over, the queue pair untouched") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const RawPeer stalled(listener.port());
  stalled.send_terms();
  stalled.send(verbs::emit_hello(plausible_hello()));
  const RawPeer vanished(listener.port());
  vanished.send_terms();
  vanished.send(verbs::emit_hello(plausible_hello()));
  const auto start = std::chrono::steady_clock::now();
  const QueuePair b = e.queue_pair();
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, e.queue_pair(), b, kClear, kClear, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(rb->peer_qpn != plausible_hello().qpn);
  CHECK(seconds_since(start) < 8);
}

}  // namespace weft
