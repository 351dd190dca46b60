// SPDX-License-Identifier: BSD-3-Clause
// The check of senders, asked directly about ports that this process and one of another user hold:
// how long a port is lent and for which addresses, how long a port waits for its lookup, and what
// happens where the kernel does not answer. Other tests would hold the same ports: ctest: serial
// //= threat:A31
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/udp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdlib>
#include <set>

#include "lib/base/clock.hpp"
#include "tests/ports/udp/udp_frames.hpp"
#include "tests/support/other_user.hpp"

using namespace udp_test;
using namespace weft::test;
using port::udp::Descriptor;
using port::udp::kFirstSourcePort;
using port::udp::LocalAddress;
using port::udp::SenderCheck;

namespace {

const Gid kOurs = Gid::from_ipv4(127, 202, 0, 1);
const Gid kTheirs = Gid::from_ipv4(127, 202, 0, 2);
const Gid kTheirsToo = Gid::from_ipv4(127, 202, 0, 3);
const Gid kAll = Gid::from_ipv4(0, 0, 0, 0);

uint16_t source_port(uint32_t index) { return static_cast<uint16_t>(kFirstSourcePort + index); }

struct Checked {
  Checked() {
    REQUIRE(socket);
    LocalAddress local;
    local.gid = kOurs;
    Result<std::unique_ptr<SenderCheck>> opened = SenderCheck::open(local, socket.fd());
    INFO((opened ? "" : opened.error().message));
    REQUIRE(opened.ok());
    check = std::move(*opened);
  }
  // Asks until the port is accepted.
  bool comes_to_accept(const Gid& source, uint16_t port) const {
    const Instant begin = base::wall_now();
    while (!check->accepts(source, port))
      if (base::wall_now() - begin > Duration::from_s(20)) return false;
    return true;
  }
  Descriptor socket{bound_socket(kOurs, 4791)};
  std::unique_ptr<SenderCheck> check;
};

// A process of another user that has our UDP port of two addresses, and `count` source ports.
struct OtherUser {
  explicit OtherUser(uint32_t count) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    child = start_as_other_user([&] {
      bool held = bound_socket(kTheirs, 4791) >= 0 && bound_socket(kTheirsToo, 4791) >= 0;
      for (uint32_t i = 0; i < count; ++i) held = held && bound_socket(kAll, source_port(i)) >= 0;
      (void)!::write(ends[1], held ? "y" : "n", 1);
      ::pause();
      return 0;
    });
    char answer = 0;
    REQUIRE(::read(ends[0], &answer, 1) == 1);
    REQUIRE(answer == 'y');
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~OtherUser() { end(); }
  void end() {
    if (child < 0) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    child = -1;
  }
  pid_t child = -1;
};

bool add_interface() {
  return std::system(
             "ip link add wire0 type veth peer name wire1 && ip link set wire1 up && "
             "ip addr add 10.81.0.1/24 dev wire0 && ip link set wire0 up") == 0;
}

// From now on this process gets no netlink sockets of the protocol.
bool refuse_netlink(uint32_t protocol) {
  const auto low_half = [](size_t argument) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument);
  };
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half(2)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, protocol, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What `open` says in a process without such sockets. 0: it fails with that code, and names object
// and remedy.
template <class Open>
int failure_of(uint32_t protocol, Code code, const char* remedy, Open open) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!refuse_netlink(protocol)) ::_exit(1);
    const auto opened = open();
    if (opened.ok()) ::_exit(2);
    const std::string& text = opened.error().message;
    const bool said = text.find("udp.check_senders=1 on ") == 0 && text.find(remedy) != text.npos;
    ::_exit(opened.error().code != code ? 3 : said ? 0 : 4);
  }
  return exit_status_of(child);
}

}  // namespace

TEST_CASE("udp: a port is lent for no longer than the kernel said, however many there are") {
  if (::geteuid() != 0) WEFT_SKIP("udp lent ports", "changing the user needs root");
  constexpr uint32_t kPorts = 4 * SenderCheck::kBurst;
  const Checked ours;
  OtherUser other(kPorts);
  for (uint32_t i = 0; i < kPorts; ++i) REQUIRE(ours.comes_to_accept(kTheirs, source_port(i)));
  other.end();
  ::usleep(static_cast<useconds_t>(SenderCheck::kLent.us()) + 1000);
  uint32_t accepted = 0;
  for (uint32_t i = 0; i < kPorts; ++i) accepted += ours.check->accepts(kTheirs, source_port(i));
  CHECK(accepted == 0);
}

TEST_CASE("udp: two devices of another user may have one source port") {
  if (::geteuid() != 0) WEFT_SKIP("udp lent ports", "changing the user needs root");
  const Checked ours;
  const OtherUser other(1);
  for (const Gid& source : {kTheirs, kTheirsToo})
    REQUIRE(ours.comes_to_accept(source, source_port(0)));
  const uint64_t before = ours.check->counters().refused;
  for (uint32_t i = 0; i < 4 * SenderCheck::kBurst; ++i)
    for (const Gid& source : {kTheirs, kTheirsToo})
      (void)ours.check->accepts(source, source_port(0));
  CHECK(ours.check->counters().refused == before);
  CHECK(!ours.check->accepts(kOurs, source_port(0)));
  CHECK(ours.check->accepts(kTheirs, source_port(0)));
}

// The ports before it are queued again and again; its turn comes nevertheless.
TEST_CASE("udp: a new port waits for one round of lookups at most") {
  constexpr uint32_t kForged = 500;
  const uint16_t port = source_port(16'000);
  const Checked ours;
  const Descriptor held = port::udp::hold_port(true, port);
  REQUIRE(held);
  const auto forge = [&] {
    for (uint32_t i = 0; i < kForged; ++i) (void)ours.check->accepts(kTheirs, source_port(i));
  };
  while (ours.check->counters().lookups < 2 * SenderCheck::kBurst) forge();
  const uint64_t before = ours.check->counters().lookups;
  const Instant begin = base::wall_now();
  while (ours.check->held() == 0) {
    (void)ours.check->accepts(kTheirs, port);
    forge();
    REQUIRE(base::wall_now() - begin < Duration::from_s(20));
    if (ours.check->counters().lookups > before + 2 * kForged) break;
  }
  CHECK(ours.check->held() == 1);
  CHECK(ours.check->counters().lookups <= before + kForged + 8);
}

TEST_CASE("udp: a socket of IPv6 that takes IPv4 too does not hold a port for it") {
  const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) WEFT_SKIP("udp sockets of IPv6", "this machine has no IPv6");
  const Descriptor both(fd);
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  at.sin6_port = htons(source_port(77));
  REQUIRE(::bind(both.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  const Checked ours;
  CHECK(!ours.check->accepts(kOurs, source_port(77)));
}

TEST_CASE("udp: where the kernel does not answer, a device that checks senders does not open") {
  CHECK(failure_of(NETLINK_SOCK_DIAG, Code::not_supported, "udp_diag", [] {
          return port::open_udp_port({"lo", {{"check_senders", "1"}}});
        }) == 0);
  const Namespace own;
  if (!own || !add_interface()) WEFT_SKIP("udp without addresses", "a namespace needs root");
  LocalAddress local;
  local.gid = Gid::from_ipv4(10, 81, 0, 1);
  const Descriptor socket(bound_socket(local.gid, 4791));
  CHECK(failure_of(NETLINK_ROUTE, Code::io_error, "rtnetlink",
                   [&] { return SenderCheck::open(local, socket.fd()); }) == 0);
  CHECK(SenderCheck::open(local, socket.fd()).ok());
}

TEST_CASE("udp: an address that this host gets later is one of this host, threat:A31") {
  const Namespace own;
  if (!own || !add_interface()) WEFT_SKIP("udp new addresses", "a namespace needs root");
  const auto victim = open_port("10.81.0.1", {{"check_senders", "1"}});
  const Gid later = Gid::from_ipv4(10, 81, 0, 2);
  REQUIRE(std::system("ip addr add 10.81.0.2/24 dev wire0") == 0);
  (void)victim->source_port(kFirstSourcePort, 0);
  const int sent = as_other_user([&] {
    return int{
        send_from(bound_socket(later, 0xC654), later, victim->address(), frame_bytes(1, 64))};
  });
  CHECK(sent == 1);
  CHECK(drain(*victim, 1).empty());
  CHECK(counter(*victim, "udp_rx_foreign_sender") == 1);
}

TEST_CASE("udp: source ports take a quarter of the file limit, with the check an eighth") {
  const Namespace own;
  if (!own || !add_interface()) WEFT_SKIP("udp source ports", "a namespace needs root");
  const auto ports_with = [](const Keys& keys) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child != 0) return exit_status_of(child);
    const rlimit files{256, 256};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) ::_exit(0);
    const auto port = port::open_udp_port({"10.81.0.1", keys});
    if (!port.ok()) ::_exit(1);
    std::set<uint16_t> used;
    for (uint32_t i = 0; i < 250; ++i) used.insert((*port)->source_port(source_port(i), 0));
    ::_exit(static_cast<int>(used.size()));
  };
  CHECK(ports_with({}) == 64);
  CHECK(ports_with({{"check_senders", "1"}}) == 32);
}

// The kernel hands a train to the member that its first frame is for.
TEST_CASE("udp: a frame that another member sends on is checked for its sender, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("udp forwarded frames", "changing the user needs root");
  const auto trusting = open_port("127.202.0.9");
  const auto victim = open_port("127.202.0.9", {{"check_senders", "1"}});
  constexpr int kSegment = 100;
  const int sent = as_other_user([&] {
    const int fd = bound_socket(kTheirs, 0xC654);
    if (::setsockopt(fd, SOL_UDP, UDP_SEGMENT, &kSegment, sizeof kSegment) != 0) return 2;
    Bytes train = frame_bytes(1, kSegment, trusting->qpn_range().first + 2);
    const Bytes forged = frame_bytes(2, kSegment, victim->qpn_range().first + 2);
    train.insert(train.end(), forged.begin(), forged.end());
    return int{send_from(fd, kOurs, victim->address(), train)};
  });
  if (sent == 2) WEFT_SKIP("udp forwarded frames", "this kernel has no UDP GSO");
  REQUIRE(sent == 1);
  CHECK(drain(*trusting, 1).size() == 1);
  Frame frames[4];
  size_t more = trusting->receive(frames);  // sends the rest on
  trusting->release({frames, more});
  CHECK(more == 0);
  CHECK(drain(*victim, 1).empty());
  CHECK(counter(*victim, "udp_rx_foreign_sender") == 1);
}
