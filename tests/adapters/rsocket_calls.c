// SPDX-License-Identifier: BSD-3-Clause
// Calls of rsockets that no program of rdmacm-utils makes: options, and a peer that is gone.
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno);              \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

enum { kPort = 7412 };

static struct sockaddr_in local(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kPort)};
  address.sin_addr.s_addr = inet_addr("127.0.0.21");
  return address;
}

static int set(int fd, int level, int name, int value) {
  return rsetsockopt(fd, level, name, &value, sizeof value);
}

static int get(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  CHECK(rgetsockopt(fd, level, name, &value, &length) == 0 && length == sizeof value);
  return value;
}

// `largest` and more are cut to it; 0: it is a flag.
struct option {
  int level, name, value, largest;
};

// What programs of TCP ask of every socket.
static void flags_and_forms_of_their_own(int fd) {
  CHECK(rfcntl(fd, F_GETFL) == O_RDWR && rfcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  CHECK(rfcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK) && rfcntl(fd, F_SETFL, 0) == 0);
  CHECK(rfcntl(fd, F_GETFD) == 0 && rfcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
  CHECK(rfcntl(fd, F_GETFD) == FD_CLOEXEC && rfcntl(fd, F_GETOWN) == -1 && errno == EINVAL);
  CHECK(get(fd, IPPROTO_IP, IP_TOS) == 0 && set(fd, IPPROTO_IP, IP_TOS, 0x60) == 0);
  CHECK(get(fd, IPPROTO_IP, IP_TOS) == 0x60);
  char name[16] = "";
  socklen_t length = sizeof name;
  CHECK(rsetsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0);
  CHECK(rgetsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && name[0] != 0);
  CHECK(length <= sizeof name && name[length - 1] == 0);
  struct tcp_info about;
  length = sizeof about;
  CHECK(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &about, &length) == 0);
  CHECK(length == sizeof about && about.tcpi_state == TCP_CLOSE);
}

// The length that rgetsockname() says is that of the whole address, however little room there is.
static void names(void) {
  struct sockaddr_in at = local(), has = {0};
  socklen_t length = 0;
  const int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(rfcntl(fd, F_GETFD) == FD_CLOEXEC);
  CHECK(rbind(fd, (struct sockaddr *)&at, sizeof at) == 0);
  CHECK(rgetsockname(fd, NULL, &length) == 0 && length == sizeof at);
  length = 4;
  CHECK(rgetsockname(fd, (struct sockaddr *)&has, &length) == 0 && length == sizeof at);
  CHECK(has.sin_port == at.sin_port && has.sin_addr.s_addr == 0);
  length = sizeof has;
  CHECK(rgetsockname(fd, (struct sockaddr *)&has, &length) == 0);
  CHECK(has.sin_addr.s_addr == at.sin_addr.s_addr);
  CHECK(rclose(fd) == 0);
}

static void options(void) {
  static const struct option kinds[] = {
      {SOL_SOCKET, SO_REUSEADDR, 1, 0},       {SOL_SOCKET, SO_KEEPALIVE, 1, 0},
      {SOL_SOCKET, SO_OOBINLINE, 1, 0},       {IPPROTO_TCP, TCP_NODELAY, 1, 0},
      {IPPROTO_IPV6, IPV6_V6ONLY, 1, 0},      {SOL_SOCKET, SO_SNDBUF, 65536, 1 << 28},
      {SOL_SOCKET, SO_RCVBUF, 65536, 1 << 28}, {IPPROTO_TCP, TCP_KEEPIDLE, 10, 32767},
      {IPPROTO_TCP, TCP_KEEPINTVL, 3, 32767}, {IPPROTO_TCP, TCP_KEEPCNT, 4, 127},
      {SOL_RDMA, RDMA_SQSIZE, 100, 16384},    {SOL_RDMA, RDMA_RQSIZE, 100, 16384},
      {SOL_RDMA, RDMA_INLINE, 16, 64},        {SOL_RDMA, RDMA_IOMAPSIZE, 8, 128}};
  const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const struct option *o = &kinds[i];
    CHECK(set(fd, o->level, o->name, o->value) == 0 && get(fd, o->level, o->name) == o->value);
    if (o->largest == 0) {
      CHECK(set(fd, o->level, o->name, 0) == 0 && get(fd, o->level, o->name) == 0);
      continue;
    }
    CHECK(set(fd, o->level, o->name, 0x7FFFFFFF) == 0);
    CHECK(get(fd, o->level, o->name) == o->largest);
  }
  CHECK(set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0) == -1 && errno == EINVAL);
  CHECK(set(fd, SOL_SOCKET, SO_BROADCAST, 1) == -1 && errno == ENOPROTOOPT);
  CHECK(set(fd, SOL_RDMA, RDMA_ROUTE, 0) == -1 && errno == EOPNOTSUPP);
  CHECK(rsetsockopt(fd, SOL_RDMA, RDMA_INLINE, "", 1) == -1 && errno == EINVAL);
  CHECK(set(fd, IPPROTO_TCP, TCP_MAXSEG, 100) == 0 && get(fd, IPPROTO_TCP, TCP_MAXSEG) >= 256);
  struct linger linger = {.l_onoff = 1, .l_linger = 5}, has = {0};
  socklen_t length = sizeof has;
  CHECK(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
  CHECK(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &has, &length) == 0);
  CHECK(has.l_onoff == 1 && has.l_linger == 5);
  flags_and_forms_of_their_own(fd);
  CHECK(rclose(fd) == 0);
}

// Without SO_KEEPALIVE nothing would tell the one that waits that its peer is gone.
static void peer_that_is_killed(void) {
  struct sockaddr_in at = local();
  const pid_t child = fork();
  if (child == 0) {
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 500 && rconnect(fd, (struct sockaddr *)&at, sizeof at) != 0; ++i) {
      CHECK(rclose(fd) == 0);  // nothing listens yet
      usleep(20000);
      fd = rsocket(AF_INET, SOCK_STREAM, 0);
    }
    char byte;
    CHECK(rrecv(fd, &byte, 1, 0) == 1 && rsend(fd, "x", 1, 0) == 1);
    pause();
    _exit(0);
  }
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  CHECK(child > 0 && listener >= 0 && rbind(listener, (struct sockaddr *)&at, sizeof at) == 0);
  CHECK(rlisten(listener, 1) == 0);
  const int accepted = raccept(listener, NULL, NULL);
  char byte;
  CHECK(accepted >= 0 && rsend(accepted, "x", 1, 0) == 1 && rrecv(accepted, &byte, 1, 0) == 1);
  usleep(200000);  // the peer has acknowledged all
  CHECK(set(accepted, IPPROTO_TCP, TCP_KEEPIDLE, 1) == 0);
  CHECK(set(accepted, SOL_SOCKET, SO_KEEPALIVE, 1) == 0);
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
  CHECK(rrecv(accepted, &byte, 1, 0) == -1 && errno == ETIMEDOUT);
  CHECK(rclose(accepted) == 0 && rclose(listener) == 0);
}

int main(void) {
  peer_that_is_killed();
  options();
  names();
  printf("all done\n");
  return 0;
}
