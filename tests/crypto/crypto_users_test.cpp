// SPDX-License-Identifier: BSD-3-Clause
// Without a secret of the job: processes of one user on one host agree, another user's are refused,
// whatever he claims.
// ctest: realtime
#include <poll.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "lib/base/clock.hpp"
#include "lib/crypto/acceptor.hpp"
#include "tests/crypto/dialogue.hpp"
#include "tests/support/skip.hpp"

namespace weft::crypto {

namespace {

constexpr uid_t kNobody = 65534;

Result<void> always(Stream&) { return {}; }

// The error with which a process of user `uid` ends that connects to `port`, empty if it has none.
// `claimed`: terms of which it has all but the key.
std::string connect_as(uid_t uid, uint16_t port, const Terms* claimed) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) _exit(2);
    Result<Terms> terms = terms_for({}, Purpose::connect, kLoopback);
    if (!terms) {
      text = terms.error().message;
    } else {
      if (claimed != nullptr) terms->fingerprint = claimed->fingerprint;
      const Instant deadline = base::wall_now() + Duration::from_s(20);
      const base::SocketAddress to = base::resolve({"127.0.0.1", port}, false)->front();
      Result<Stream> stream =
          Stream::open(*base::connect_by(to, deadline), Side::connecting, *terms);
      const Result<void> agreed = stream->establish_by(deadline);
      if (!agreed) text = agreed.error().message;
    }
    (void)!write(pipe_ends[1], text.data(), text.size());
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(read(pipe_ends[0], text.data(), 4096), 0)));
  close(pipe_ends[0]);
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return text;
}

struct Door {
  Acceptor acceptor = *Acceptor::listen(
      *base::start_listen(base::resolve({"127.0.0.1", 0}, true)->front()), Purpose::connect);
  bool opened = false;

  // What the connecting process says, while this one listens.
  std::string meet(uid_t uid, const Terms* claimed = nullptr) {
    std::atomic<bool> ends{false};
    std::thread listens([&] {
      while (!ends && !opened) {
        opened = acceptor.next({}, always).ok();
        (void)base::wait_for(acceptor.fd(), POLLIN, base::wall_now() + Duration::from_ms(10));
      }
    });
    std::string said = connect_as(uid, acceptor.port(), claimed);
    ends = true;
    listens.join();
    return said;
  }
};

}  // namespace

TEST_CASE("processes of one user on one host need no secret") {
  Door door;
  CHECK(door.meet(geteuid()) == "");
  CHECK(door.opened);
}

TEST_CASE("a process of another user is refused, and both sides say so") {
  if (geteuid() != 0) WEFT_SKIP("crypto", "only root can become another user");
  Door door;
  const std::string said = door.meet(kNobody);
  CHECK(said.find("run both as one user of one host") != std::string::npos);
  CHECK(door.acceptor.last_refusal()->message.find("run both as one user") != std::string::npos);
  CHECK_FALSE(door.opened);
}

TEST_CASE("another user who claims the key of this one does not have it") {
  if (geteuid() != 0) WEFT_SKIP("crypto", "only root can become another user");
  const Terms ours = terms_of({});
  Door door;
  const std::string said = door.meet(kNobody, &ours);
  CHECK(said.find("another secret") != std::string::npos);
  CHECK(door.acceptor.last_refusal()->message.find("another secret") != std::string::npos);
  CHECK_FALSE(door.opened);
}

}  // namespace weft::crypto
