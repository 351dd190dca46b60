// SPDX-License-Identifier: BSD-3-Clause
// Payload by reference: pulled where the kernel permits, copied where it does not, and never read
// after its owner took it back.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <thread>

#include "tests/ports/shm/shm_support.hpp"

using namespace shm_test;

namespace {

const Options kAlways = {{"by_reference", "1"}, {"threshold", "16k"}};

// From here on process_vm_readv fails with EPERM in this process, as in many containers.
bool deny_pulls() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs in a child process, whose exit status says which check failed (0 = none).
int in_child(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

TEST_CASE(
    "shm: large stable payload is pulled from the sender's memory, small or unstable is not") {
  auto a = open_port(job(), kAlways);
  auto b = open_port(job());
  link_up(*a, *b);
  CHECK(a->capabilities().by_reference);
  CHECK(a->capabilities().reference_threshold == 16384);
  for (const bool stable : {true, false}) {
    for (const size_t size : {size_t{16383}, size_t{16384}, size_t{1} << 20}) {
      const Bytes header = pattern(32, size), payload = pattern(size, 5);
      REQUIRE(send(*a, b->address(), header, payload, stable));
      const auto got = receive(*b, 1, a.get());
      REQUIRE(got.size() == 1);
      CHECK(got[0].pulled);
      CHECK(got[0].bytes == joined(header, payload));
      CHECK(got[0].remote_length == (stable && size >= 16384 ? size : 0));
    }
  }
}

TEST_CASE("shm: by_reference=0 on either side copies through the ring") {
  const bool sender = GENERATE(false, true);
  auto a = open_port(job(), sender ? Options{{"by_reference", "0"}} : kAlways);
  auto b = open_port(job(), sender ? kAlways : Options{{"by_reference", "0"}});
  link_up(*a, *b);
  const Bytes header = pattern(32, 1), payload = pattern(1 << 20, 5);
  REQUIRE(send(*a, b->address(), header, payload, true));
  const auto got = receive(*b, 1, a.get());
  REQUIRE(got.size() == 1);
  CHECK(got[0].bytes == joined(header, payload));
  CHECK(got[0].remote_length == 0);
  CHECK(a->capabilities().by_reference == !sender);
}

TEST_CASE("shm: a reference to unmapped memory fails, and the next frame arrives") {
  auto a = open_port(job(), kAlways);
  auto b = open_port(job());
  link_up(*a, *b);
  const Bytes header = pattern(32, 1), payload = pattern(100'000, 5);
  Path path;
  path.destination = b->address();
  void* gone = mmap(nullptr, 100'000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Span span{static_cast<std::byte*>(gone), 100'000};
  TxFrame frame;
  frame.path = &path;
  frame.head = header.data();
  frame.head_length = frame.header_length = 32;
  frame.spans = &span;
  frame.span_count = 1;
  frame.payload_length = span.length;
  frame.stable = true;
  REQUIRE(a->transmit(std::span(&frame, 1)) == 1);
  REQUIRE(send(*a, b->address(), header, payload, true));
  const auto got = receive(*b, 2, a.get());
  REQUIRE(got.size() == 2);
  CHECK_FALSE(got[0].pulled);
  CHECK(got[1].pulled);
  CHECK(got[1].bytes == joined(header, payload));
  munmap(gone, 100'000);
}

TEST_CASE("shm: detach revokes unclaimed references (threat:A36)") {
  auto a = open_port(job(), kAlways);
  auto b = open_port(job());
  link_up(*a, *b);
  Bytes one = pattern(50'000, 1), two = pattern(50'000, 2);
  REQUIRE(send(*a, b->address(), pattern(32, 1), one, true));
  REQUIRE(send(*a, b->address(), pattern(32, 2), two, true));
  REQUIRE(send(*a, b->address(), pattern(32, 3)));
  a->detach(one.data(), one.size());
  std::fill(one.begin(), one.end(), std::byte{0});
  const auto got = receive(*b, 2, a.get());
  REQUIRE(got.size() == 2);
  CHECK(got[0].bytes == joined(pattern(32, 2), two));
  CHECK(got[1].bytes == pattern(32, 3));
  CHECK(counter(*b, "shm_rx_revoked") == 1);
  CHECK(counter(*a, "shm_detach_cuts") == 0);
}

TEST_CASE("shm: detach waits for a claimed reference, and cuts a peer that keeps it (threat:A36)") {
  auto a = open_port(job(), kAlways);
  auto b = open_port(job());
  link_up(*a, *b);
  const Bytes payload = pattern(50'000, 1);
  const bool released = GENERATE(true, false);
  REQUIRE(send(*a, b->address(), pattern(32, 1), payload, true));
  Frame frames[8];
  REQUIRE(b->receive(frames) == 1);
  REQUIRE(frames[0].remote_length == 50'000);
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (released) b->release(std::span(frames, 1));
  });
  const auto begin = std::chrono::steady_clock::now();
  a->detach(const_cast<std::byte*>(payload.data()), payload.size());
  const auto time = std::chrono::steady_clock::now() - begin;
  holder.join();
  CHECK(time >= std::chrono::milliseconds(90));
  CHECK(counter(*a, "shm_detach_cuts") == (released ? 0 : 1));
  if (!released) b->release(std::span(frames, 1));
  // Afterwards the two get on again.
  REQUIRE(counter(*a, "shm_rx_corrupt") == 0);
  std::vector<Received> got;
  const Deadline deadline(20'000);
  while (got.empty() && !deadline.passed()) {
    send(*a, b->address(), pattern(32, 9));
    collect(*b, got);
  }
  CHECK_FALSE(got.empty());
}

TEST_CASE("shm: where process_vm_readv is denied from the start, everything is copied") {
  const int failed = in_child([] {
    if (!deny_pulls()) return 77;
    if (weft::port::open_shm_port({job(), {{"by_reference", "1"}}})) return 1;
    auto a = weft::port::open_shm_port({job(), {}}), b = weft::port::open_shm_port({job(), {}});
    if (!a || !b) return 2;
    if ((*a)->capabilities().by_reference) return 3;
    const Bytes header = pattern(32, 1), payload = pattern(1 << 20, 5);
    if (!send(**a, (*b)->address(), header, payload, true)) return 4;
    const auto got = receive(**b, 1, a->get());
    if (got.size() != 1 || got[0].remote_length != 0) return 5;
    return got[0].bytes == joined(header, payload) ? 0 : 6;
  });
  CHECK(failed == 0);
}

TEST_CASE("shm: where process_vm_readv is denied later, the sender falls back to copying") {
  const int failed = in_child([] {
    auto a = weft::port::open_shm_port({job(), kAlways}),
         b = weft::port::open_shm_port({job(), {}});
    if (!a || !b) return 1;
    link_up(**a, **b);
    const Bytes header = pattern(32, 1), payload = pattern(1 << 20, 5);
    for (const bool denied : {false, true}) {
      if (denied && !deny_pulls()) return 77;
      if (!send(**a, (*b)->address(), header, payload, true)) return 2;
      const auto got = receive(**b, 1, a->get());
      if (got.size() != 1 || got[0].remote_length != (1u << 20)) return 3;
      if (got[0].pulled == denied) return 4;
    }
    if (!send(**a, (*b)->address(), header, payload, true)) return 5;
    const auto got = receive(**b, 1, a->get());
    if (got.size() != 1 || got[0].remote_length != 0) return 6;
    return got[0].bytes == joined(header, payload) ? 0 : 7;
  });
  CHECK(failed == 0);
}
