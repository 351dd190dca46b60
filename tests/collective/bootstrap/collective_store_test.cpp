// SPDX-License-Identifier: BSD-3-Clause
// Both stores: values that exist, are set later, or are never set; hostile or broken clients of the
// TCP store.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "lib/crypto/terms.hpp"
#include "tests/collective/bootstrap/store_support.hpp"
#include "tests/support/catch.hpp"

namespace weft {
namespace {

struct Directory {
  std::string path;
  Directory() {
    char name[] = "/tmp/weft-store-XXXXXX";
    path = mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

void talk(Store& first, Store& second) {
  const std::string odd("a\0b/../c", 8);
  REQUIRE(first.set("key/0", odd));
  CHECK(*second.get("key/0", Duration::from_s(5)) == odd);
  REQUIRE(second.set("key/0", "what comes second does not count"));
  CHECK(*second.get("key/0", Duration::from_s(5)) == odd);
  REQUIRE(first.set("empty", ""));
  CHECK(second.get("empty", Duration::from_s(5))->empty());
  Result<void> set;
  std::thread later([&] {
    usleep(20'000);
    set = first.set("later", std::string(10'000, 'x'));
  });
  CHECK(second.get("later", Duration::from_s(10))->size() == 10'000);
  later.join();
  CHECK(set);
  const Result<std::string> never = first.get("never", Duration::from_ms(10));
  REQUIRE(!never);
  CHECK(never.error().code == Code::timed_out);
  CHECK(never.error().message.find("never") != std::string::npos);
  REQUIRE(second.set("never", "but late"));  // its reply is not used for the next get
  usleep(5000);
  CHECK(*first.get("key/0", Duration::from_s(5)) == odd);
}

TEST_CASE("a file store passes values between processes") {
  const Directory directory;
  const std::string address = "file:" + directory.path + "/new";
  const auto first = std::move(*Store::open(address, true));
  const auto second = std::move(*Store::open(address, false));
  talk(*first, *second);
}

TEST_CASE("keys may be long and have a common prefix") {
  const Directory directory;
  const auto store = std::move(*Store::open("file:" + directory.path, true));
  std::string key = "0";
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back(key += i % 3 == 0 ? "/x" : "ab");
  for (const std::string& each : keys) REQUIRE(store->set(each, each));
  for (const std::string& each : keys) CHECK(*store->get(each, Duration::from_ms(1)) == each);
  CHECK(!store->get(key + "+", Duration::from_ms(1)));
}

TEST_CASE("a TCP store passes values between processes, also if the server starts late") {
  const std::string address = "tcp:127.0.0.1:" + std::to_string(free_port());
  std::unique_ptr<Store> second;
  std::thread early([&] { second = std::move(*Store::open(address, false)); });
  usleep(30'000);
  auto first = std::move(*Store::open(address, true));
  early.join();
  talk(*first, *second);

  const Result<std::unique_ptr<Store>> again = Store::open(address, true);
  REQUIRE(!again);
  CHECK(again.error().code == Code::address_in_use);

  first.reset();
  const Result<std::string> gone = second->get("key", Duration::from_s(5));
  REQUIRE(!gone);
  CHECK(gone.error().code == Code::disconnected);
}

// What both sides of a TCP store in clear text say first.
std::string terms_in_clear() {
  const crypto::TermsBytes terms =
      crypto::Terms{.mode = crypto::Mode::clear, .purpose = crypto::Purpose::store}.bytes();
  return {reinterpret_cast<const char*>(&terms), sizeof terms};
}

// A client of the TCP store whose bytes the test chooses, behind its terms.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int little = 64 * 1024;  // that its kernel buffers before it reads
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    const int segment = 536;  // bytes: so the server's kernel buffers little for it, too
    setsockopt(fd_, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    const timeval longest{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    say(terms_in_clear());
    std::string theirs(terms_in_clear().size(), 0);
    read_all(theirs.data(), theirs.size());
    REQUIRE(theirs == terms_in_clear());
  }
  ~RawClient() { close(fd_); }
  void say(const std::string& bytes) {
    REQUIRE(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  static std::string question(uint32_t number, const std::string& key) {
    const uint32_t head[] = {'g', number, static_cast<uint32_t>(key.size()), 0};
    return std::string(reinterpret_cast<const char*>(head), sizeof head) + key;
  }
  void ask(uint32_t number, const std::string& key) { say(question(number, key)); }

  struct Answer {
    uint32_t number = 0;
    std::string value;
  };
  Answer next() {
    uint32_t head[2];
    read_all(head, sizeof head);
    Answer answer{head[0], std::string(head[1], 0)};
    read_all(answer.value.data(), answer.value.size());
    return answer;
  }
  bool at_end() {
    char byte;
    return recv(fd_, &byte, 1, 0) == 0;
  }

 private:
  void read_all(void* to, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t n = recv(fd_, static_cast<char*>(to) + done, size - done, 0);
      REQUIRE(n > 0);
      done += static_cast<size_t>(n);
    }
  }
  int fd_;
};

const std::string kBig(1 << 20, 'b');

// A TCP store that the test serves, for raw clients.
struct Served {
  const uint16_t port = free_port();
  std::unique_ptr<Store> store =
      std::move(*Store::open("tcp:127.0.0.1:" + std::to_string(port), true, kLimit, kClear));
  void keep(const std::string& key, const std::string& value) const {
    REQUIRE(store->set(key, value));
    REQUIRE(store->get(key, Duration::from_s(5)));  // so it is set
  }
};

TEST_CASE("a malformed request does not block the TCP store, and its sender gets the reason") {
  const Served served;
  RawClient client(served.port);
  client.say(std::string(64, '\xff'));
  REQUIRE(served.store->set("key", "value"));
  CHECK(*served.store->get("key", Duration::from_s(5)) == "value");
  const RawClient::Answer why = client.next();
  CHECK(why.number == 0);
  CHECK(why.value.find("malformed") != std::string::npos);
  CHECK(client.at_end());
}

TEST_CASE("a client of the TCP store that does not read its replies blocks no other client") {
  const Served served;
  served.keep("big", kBig);
  RawClient client(served.port);
  for (uint32_t number = 1; number <= 64; ++number) client.ask(number, "big");
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(served.store->set(key, "value"));
    const Result<std::string> value = served.store->get(key, Duration::from_s(5));
    REQUIRE(value);
    CHECK(*value == "value");
  }
  RawClient::Answer last = client.next();
  uint32_t answers = 0;
  for (; last.number != 0; last = client.next(), ++answers) {
    CHECK(last.number == answers + 1);
    CHECK(last.value == kBig);
  }
  CHECK(answers >= 3);
  CHECK(answers < 64);
  CHECK(last.value.find("did not read") != std::string::npos);
  CHECK(client.at_end());
}

TEST_CASE("a client of the TCP store may read late") {
  const Served served;
  served.keep("big", kBig);
  RawClient client(served.port);
  client.ask(1, "big");
  client.ask(2, "big");
  client.ask(3, "later");
  CHECK(*served.store->get("big", Duration::from_s(5)) == kBig);
  REQUIRE(served.store->set("later", "x"));
  for (uint32_t number = 1; number <= 3; ++number) {
    const RawClient::Answer answer = client.next();
    CHECK(answer.number == number);
    CHECK(answer.value == (number < 3 ? kBig : "x"));
  }
}

// Socket buffers hold a small part of the 4 MiB, and the server has the rest when it ends.
TEST_CASE("a client gets its value when the server ends, though another client does not read") {
  constexpr uint32_t kMany = 4;
  Served served;
  served.keep("small", "x");
  served.keep("big", kBig);
  std::string questions = RawClient::question(1, "small");
  for (uint32_t i = 0; i < kMany; ++i) questions += RawClient::question(2 + i, "big");
  RawClient not_reading(served.port), client(served.port);
  for (RawClient* const each : {&not_reading, &client}) {
    each->say(questions);
    CHECK(each->next().value == "x");  // so the other requests have arrived too
  }
  const std::future<void> ends = std::async(std::launch::async, [&] { served.store.reset(); });
  usleep(50'000);  // enough for the server to notice that it must end
  for (uint32_t i = 0; i < kMany; ++i) CHECK(client.next().value == kBig);
}

// A server of the TCP store whose bytes the test chooses.
class Puppet {
 public:
  Puppet() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 1) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    std::thread server([&] {
      peer_ = accept(listener_, nullptr, nullptr);
      say(terms_in_clear());
    });
    store = std::move(*Store::open("tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
                                   false, kLimit, kClear));
    server.join();
  }
  ~Puppet() {
    hang_up();
    close(listener_);
  }
  static std::string answer(uint32_t number, const std::string& value) {
    const uint32_t head[] = {number, static_cast<uint32_t>(value.size())};
    return std::string(reinterpret_cast<const char*>(head), sizeof head) + value;
  }
  bool say(const std::string& bytes) {
    return send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  void hang_up() {
    if (peer_ >= 0) close(peer_);
    peer_ = -1;
  }
  std::unique_ptr<Store> store;

 private:
  int listener_, peer_ = -1;
};

TEST_CASE("replies to gets that timed out do not delay the next get") {
  Puppet puppet;
  bool said = true;
  std::thread stale([&] {
    for (int i = 0; i < 20; ++i, usleep(50'000)) said &= puppet.say(Puppet::answer(99, "stale"));
    puppet.hang_up();
  });
  const Result<std::string> never = puppet.store->get("never", Duration::from_ms(300));
  stale.join();
  CHECK(said);
  REQUIRE(!never);
  CHECK(never.error().code == Code::timed_out);
}

TEST_CASE("a reply that arrives in parts neither delays nor breaks a get") {
  Puppet puppet;
  const std::string first = Puppet::answer(1, "early"), second = Puppet::answer(2, "right");
  bool said = false;
  std::thread slow([&] {
    said = puppet.say(first.substr(0, 10));
    usleep(1'000'000);
    said = said && puppet.say(first.substr(10)) && puppet.say(second);
  });
  const Result<std::string> never = puppet.store->get("a", Duration::from_ms(100));
  CHECK((!never && never.error().code == Code::timed_out));
  const Result<std::string> next = puppet.store->get("b", Duration::from_s(10));
  slow.join();
  CHECK(said);
  REQUIRE(next);
  CHECK(*next == "right");
}

TEST_CASE("a client that a TCP store drops gets the reason") {
  Puppet puppet;
  puppet.say(Puppet::answer(0, "it sent too much"));
  const Result<std::string> value = puppet.store->get("key", Duration::from_s(10));
  REQUIRE(!value);
  CHECK(value.error().code == Code::disconnected);
  CHECK(value.error().message.find("it sent too much") != std::string::npos);
  CHECK(puppet.store->set("key", "value").error().message == value.error().message);
}

// A set has no reply, so only a later request can report that it is lost.
TEST_CASE(
    "set() reports that the client was dropped, or that the server has closed the connection") {
  Puppet puppet;
  REQUIRE(puppet.store->set("key", "value"));
  const bool told = GENERATE(false, true);
  CAPTURE(told);
  if (told) REQUIRE(puppet.say(Puppet::answer(9, "stale") + Puppet::answer(0, "it sent too much")));
  puppet.hang_up();
  const Result<void> set = puppet.store->set("key", "value");
  REQUIRE(!set);
  CHECK(set.error().code == Code::disconnected);
  CHECK(set.error().message.find(told ? "it sent too much" : "closed the connection") !=
        std::string::npos);
}

TEST_CASE("errors of invalid store addresses show the syntax") {
  for (const std::string_view address : {"", "file:", "tcp", "etcd:host", "tcp:127.0.0.1"}) {
    const Result<std::unique_ptr<Store>> opened = Store::open(address, false);
    REQUIRE(!opened);
    CHECK(opened.error().code == Code::invalid_argument);
    CHECK(opened.error().message.find("write") != std::string::npos);
  }
}

}  // namespace
}  // namespace weft
