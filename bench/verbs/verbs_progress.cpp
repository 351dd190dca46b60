// SPDX-License-Identifier: BSD-3-Clause
// How soon what a program of verbs posts has left, if it then sleeps or waits without a call of
// verbs. Two processes on the drop-in libibverbs, a core each: one posts WRITEs, each of the time
// of its post, and waits as the row says; the other one polls and looks at its memory. `left`:
// from the last post until its packet passes the loopback interface, as the kernel stamps it (as
// root, over udp:lo). `seen`: until the other process sees its data; the row `polls` is the same
// with a sender that polls. The devices are those of WEFT_VERBS_DEVICES:
//
//   WEFT_VERBS_DEVICES=roce+udp:lo verbs_progress
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/perftest/command_line.hpp"

namespace {

// Of the clock that packets are stamped with.
uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}
void need(bool condition, const char* what) {
  if (!condition) fail(what);
}

constexpr uint32_t kMostPosts = 64;
constexpr size_t kBig = 1 << 20;

enum class Wait { polls, reads, in_poll, on_memory };

struct Row {
  const char* name;
  Wait wait;
  uint32_t posts;   // before it waits
  uint32_t prompt;  // posts before these, each polled for at once
  uint32_t bytes;   // of the last post
};
constexpr Row kRows[] = {
    {"polls", Wait::polls, 1, 0, 8},
    {"read()", Wait::reads, 1, 0, 8},
    {"poll()", Wait::in_poll, 1, 0, 8},
    {"own memory", Wait::on_memory, 1, 0, 8},
    {"4 posts, read()", Wait::reads, 4, 0, 8},
    {"16 posts, poll()", Wait::in_poll, 16, 0, 8},
    {"16 posts, own memory", Wait::on_memory, 16, 0, 8},
    {"32 polled, then 16, read()", Wait::reads, 16, 32, 8},
    {"1 MiB, polls", Wait::polls, 1, 0, kBig},
    {"1 MiB, read()", Wait::reads, 1, 0, kBig},
};

// What the ends tell each other.
struct Address {
  ibv_gid gid;
  uint64_t memory;
  uint32_t qpn, rkey;
};

// A queue pair, and memory whose last word is the flag.
struct End {
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_qp* qp;
  ibv_mr* mr;
  std::vector<char> memory = std::vector<char>(kBig + 4096);
  Address peer{};

  explicit End(int socket) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    need(list != nullptr && count != 0, "ibv_get_device_list");
    context = ibv_open_device(list[0]);
    need(context != nullptr, "ibv_open_device");
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 2 * kMostPosts, nullptr, nullptr, 0);
    need(pd != nullptr && cq != nullptr, "ibv_create_cq");
    mr = ibv_reg_mr(pd, memory.data(), memory.size(),
                    unsigned{IBV_ACCESS_LOCAL_WRITE} | unsigned{IBV_ACCESS_REMOTE_WRITE});
    need(mr != nullptr, "ibv_reg_mr");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {kMostPosts, 1, 1, 1, 8};
    qp = ibv_create_qp(pd, &wanted);
    need(qp != nullptr, "ibv_create_qp");
    connect(socket);
  }

  void connect(int socket) {
    Address own{.gid = {}, .memory = address(0), .qpn = qp->qp_num, .rkey = mr->rkey};
    need(ibv_query_gid(context, 1, 0, &own.gid) == 0, "ibv_query_gid");
    need(write(socket, &own, sizeof own) == sizeof own, "write");
    need(read(socket, &peer, sizeof peer) == sizeof peer, "read");
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qpn;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.hop_limit = 64;
    move(attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    move(attr, IBV_QPS_RTR,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER);
    move(attr, IBV_QPS_RTS,
         IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC);
    char ready = 0;
    need(write(socket, &ready, 1) == 1 && read(socket, &ready, 1) == 1, "the other process");
  }
  void move(ibv_qp_attr& attr, ibv_qp_state to, int mask) const {
    attr.qp_state = to;
    need(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE) == 0, "ibv_modify_qp");
  }

  uint64_t address(size_t offset) const {
    return reinterpret_cast<uintptr_t>(memory.data() + offset);
  }
  // The end of the memory that a WRITE of any size here covers.
  uint64_t* flag() { return reinterpret_cast<uint64_t*>(memory.data() + kBig - 8); }
};

// The last 8 of `bytes` are the time.
void post(End& end, uint32_t bytes) {
  const size_t offset = kBig - bytes;
  ibv_sge entry{.addr = end.address(offset), .length = bytes, .lkey = end.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED | (bytes == 8 ? unsigned{IBV_SEND_INLINE} : 0U);
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.wr.rdma = {.remote_addr = end.peer.memory + offset, .rkey = end.peer.rkey};
  *end.flag() = now_ns();
  need(ibv_post_send(end.qp, &wr, &bad) == 0, "ibv_post_send");
}

void poll_for(End& end, uint32_t completions) {
  ibv_wc wc[16];
  while (completions > 0) {
    const int n = ibv_poll_cq(end.cq, 16, wc);
    for (int i = 0; i < n; ++i) need(wc[i].status == IBV_WC_SUCCESS, "a completion");
    completions -= static_cast<uint32_t>(n);
  }
}

// What passes the loopback interface.
class Capture {
 public:
  Capture() : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    if (socket_ < 0) return;  // not permitted
    const int on = 1, bytes = 1 << 25;
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
    need(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { close(socket_); }

  // When the first packet with these 8 bytes passed, or 0; all that have passed are forgotten.
  uint64_t stamp_of(uint64_t word) {
    uint64_t found = 0;
    for (;;) {
      alignas(cmsghdr) char control[128];
      iovec io{packet_.data(), packet_.size()};
      msghdr message{};
      message.msg_iov = &io;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t size = recvmsg(socket_, &message, 0);
      if (size <= 0) return found;
      const cmsghdr* header = CMSG_FIRSTHDR(&message);
      if (found != 0 || header == nullptr) continue;
      timespec t{};
      std::memcpy(&t, CMSG_DATA(header), sizeof t);
      if (memmem(packet_.data(), static_cast<size_t>(size), &word, sizeof word) != nullptr)
        found = static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
    }
  }

 private:
  const int socket_;
  std::vector<char> packet_ = std::vector<char>(1 << 17);
};

// Shared by the processes: the time of the last post, and when its data were seen.
struct Shared {
  std::atomic<uint64_t> expected{0}, seen{0};
  std::atomic<bool> ends{false};
};

void wait_for(Wait wait, int ms, int timer, Shared& shared, End& end) {
  const itimerspec once{{}, {0, ms * 1'000'000L}};
  need(timerfd_settime(timer, 0, &once, nullptr) == 0, "timerfd_settime");
  pollfd polled{timer, POLLIN, 0};
  uint64_t expired;
  ibv_wc wc;
  switch (wait) {
    case Wait::polls:
      while (shared.seen.load() == 0) (void)ibv_poll_cq(end.cq, 0, &wc);
      break;
    case Wait::in_poll:
      (void)poll(&polled, 1, -1);
      break;
    case Wait::on_memory:
      for (const uint64_t until = now_ns() + static_cast<uint64_t>(ms) * 1'000'000;
           now_ns() < until;) {
      }
      break;
    default:
      break;
  }
  if (wait != Wait::polls) need(read(timer, &expired, sizeof expired) > 0, "read of a timer");
}

// Median, 90 %, 99 % and the largest of them.
void print(std::vector<double>& us) {
  if (us.empty()) return (void)std::printf("%36s", "");
  std::sort(us.begin(), us.end());
  for (const double share : {0.5, 0.9, 0.99, 1.0})
    std::printf(" %8.1f", us[static_cast<size_t>(share * static_cast<double>(us.size() - 1))]);
}

void measure(const Row& row, uint32_t rounds, End& end, Shared& shared, Capture& capture) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  std::vector<double> left, seen;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < row.prompt; ++i) post(end, 8), poll_for(end, 1);
    shared.seen = 0;
    for (uint32_t i = 0; i + 1 < row.posts; ++i) post(end, 8);
    post(end, row.bytes);
    const uint64_t posted = *end.flag();
    shared.expected = posted;
    wait_for(row.wait, row.bytes == 8 ? 2 : 20, timer, shared, end);
    poll_for(end, row.posts);
    while (shared.seen == 0) {
    }
    seen.push_back(static_cast<double>(shared.seen - posted) / 1e3);
    if (const uint64_t stamp = capture.stamp_of(posted))
      left.push_back(static_cast<double>(stamp - posted) / 1e3);
  }
  close(timer);
  std::printf("%-28s", row.name);
  print(left);
  print(seen);
  std::printf("\n");
  std::fflush(stdout);
}

// Polls, and looks for the last post.
void receive(End& end, Shared& shared) {
  ibv_wc wc;
  while (!shared.ends) {
    (void)ibv_poll_cq(end.cq, 1, &wc);
    const uint64_t expected = shared.expected;
    if (expected != 0 && __atomic_load_n(end.flag(), __ATOMIC_ACQUIRE) == expected) {
      shared.expected = 0;
      shared.seen = now_ns();
    }
  }
}

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t rounds = 1000;
  bool pinned = false;
  CLI::App app("verbs_progress: how soon what a program of verbs posts leaves if it then sleeps.");
  app.option_defaults()->always_capture_default();
  app.add_option("rounds", rounds, "Rounds of each row")->check(CLI::PositiveNumber);
  app.add_flag("--pinned", pinned,
               "Each process with its threads on one core (default: where the kernel puts them)");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(page != MAP_FAILED, "mmap");
  Shared& shared = *new (page) Shared;
  int sockets[2];
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
  const pid_t child = fork();
  need(child >= 0, "fork");
  if (pinned) stay_on(child == 0 ? 1 : 0);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    End end(sockets[1]);
    receive(end, shared);
    std::_Exit(0);
  }
  (void)std::signal(SIGCHLD, [](int) { std::_Exit(1); });  // it has said why
  End end(sockets[0]);
  Capture capture;
  std::printf("%-28s", "us");
  for (const char* what : {"left", "seen"}) std::printf(" %8s     90 %%     99 %%      max", what);
  std::printf("\n");
  for (const Row& row : kRows) measure(row, rounds, end, shared, capture);
  (void)std::signal(SIGCHLD, SIG_DFL);
  shared.ends = true;
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
