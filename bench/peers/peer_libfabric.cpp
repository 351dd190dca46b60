// SPDX-License-Identifier: BSD-3-Clause
// A stream of tagged messages over libfabric, since Debian has its library but not its benchmarks:
//
//   peer_libfabric PROVIDER SIZE SECONDS PORT          the receiver
//   peer_libfabric PROVIDER SIZE SECONDS PORT HOST     the sender; prints "x GB/s y M/s"
//
// bench/peers/peers.py builds it with `g++ -lfabric`; it uses nothing of weft. 64 messages are in
// flight, one buffer is sent again and again, and the clock stops when the receiver says that it
// has all.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kWindow = 64;
constexpr uint64_t kData = 1;
constexpr uint64_t kEnd = 2;

void check(long result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "peer_libfabric: %s: %s\n", what, fi_strerror(static_cast<int>(-result)));
  std::exit(1);
}

// Exchanges the two sides' fabric addresses over TCP.
std::vector<char> exchange(const std::vector<char>& ours, const char* host, int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host != nullptr ? host : "127.0.0.1", &at.sin_addr);
  const auto* address = reinterpret_cast<const sockaddr*>(&at);
  if (host != nullptr) {
    for (int i = 0; i < 100 && connect(fd, address, sizeof at) != 0; ++i) usleep(50'000);
  } else {
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(fd, address, sizeof at), "bind");
    check(listen(fd, 1), "listen");
    fd = accept(fd, nullptr, nullptr);
  }
  uint32_t size = static_cast<uint32_t>(ours.size());
  check(write(fd, &size, sizeof size), "write");
  check(write(fd, ours.data(), size), "write");
  check(recv(fd, &size, sizeof size, MSG_WAITALL), "read");
  std::vector<char> theirs(size < 4096 ? size : 0);
  check(recv(fd, theirs.data(), theirs.size(), MSG_WAITALL), "read");
  close(fd);
  return theirs;
}

struct Endpoint {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_ep* ep = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_mr* mr = nullptr;
  void* desc = nullptr;
  fi_addr_t peer = 0;
  std::vector<char> buffer;
  fi_context contexts[kWindow + 1]{};

  void open(const char* provider, size_t size) {
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED | FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->tx_attr->size = hints->rx_attr->size = 2 * kWindow;
    const bool local = std::strcmp(provider, "shm") == 0;
    check(fi_getinfo(FI_VERSION(1, 15), local ? nullptr : "127.0.0.1", nullptr,
                     local ? 0 : FI_SOURCE, hints, &info),
          "fi_getinfo");
    check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    check(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.size = 4 * kWindow;
    check(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
    fi_av_attr av_attr{};
    av_attr.type = FI_AV_TABLE;
    check(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
    check(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
    check(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(ep), "fi_enable");
    buffer.resize(size);
    if ((info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
      check(fi_mr_reg(domain, buffer.data(), size, FI_SEND | FI_RECV, 0, 1, 0, &mr, nullptr),
            "fi_mr_reg");
      desc = fi_mr_desc(mr);
    }
  }

  void meet(const char* host, int port) {
    std::vector<char> name(512);
    size_t size = name.size();
    check(fi_getname(&ep->fid, name.data(), &size), "fi_getname");
    name.resize(size);
    const std::vector<char> theirs = exchange(name, host, port);
    if (fi_av_insert(av, theirs.data(), 1, &peer, 0, nullptr) != 1)
      check(-FI_EINVAL, "fi_av_insert");
  }

  // Completions since the last call; `ended` if the message of the end was among them.
  int reap(bool* ended) {
    fi_cq_tagged_entry entries[16];
    const ssize_t n = fi_cq_read(cq, entries, 16);
    if (n == -FI_EAGAIN) return 0;
    check(n, "fi_cq_read");
    for (ssize_t i = 0; i < n; ++i)
      if ((entries[i].flags & FI_RECV) != 0 && entries[i].op_context == &contexts[kWindow])
        *ended = true;
    return static_cast<int>(n);
  }

  template <class Call>
  void post(Call call, const char* what) {
    long result = call();
    bool ignored = false;
    while (result == -FI_EAGAIN) {
      pending += reap(&ignored);
      result = call();
    }
    check(result, what);
  }
  int pending = 0;  // completions that post() took

  void send(uint64_t tag, size_t size, int context) {
    post([&] { return fi_tsend(ep, buffer.data(), size, desc, peer, tag, &contexts[context]); },
         "fi_tsend");
  }
  void receive(uint64_t tag, int context) {
    post(
        [&] {
          return fi_trecv(ep, buffer.data(), buffer.size(), desc, peer, tag, 0, &contexts[context]);
        },
        "fi_trecv");
  }
};

void stream(Endpoint& e, size_t size, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  bool ended = false;
  e.receive(kEnd, kWindow);
  uint64_t sent = 0;
  uint64_t done = 0;
  const Clock::time_point start = Clock::now();
  for (bool running = true; running;) {
    while (sent - done < kWindow) e.send(kData, size, static_cast<int>(sent++ % kWindow));
    done += static_cast<uint64_t>(e.reap(&ended) + e.pending);
    e.pending = 0;
    running = sent % 256 != 0 || since(start) < seconds;
  }
  e.send(kEnd, 8, 0);
  while (!ended) (void)e.reap(&ended);
  const double took = since(start);
  std::printf("%.4f GB/s %.4f M/s\n", static_cast<double>(sent * size) / took / 1e9,
              static_cast<double>(sent) / took / 1e6);
}

void sink(Endpoint& e) {
  bool ended = false;
  e.receive(kEnd, kWindow);
  for (int i = 0; i < kWindow; ++i) e.receive(kData, i);
  for (int next = 0; !ended;) {
    int n = e.reap(&ended) + e.pending;
    e.pending = 0;
    if (ended) --n;
    for (; n > 0; --n) e.receive(kData, next++ % kWindow);
  }
  e.send(kEnd, 8, 0);
  for (int i = 0; i < 100'000; ++i) (void)e.reap(&ended);  // until the last message has left
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "see the head of bench/peers/peer_libfabric.cpp\n"), 2;
  const size_t size = std::strtoul(argv[2], nullptr, 10);
  const char* host = argc > 5 ? argv[5] : nullptr;
  Endpoint e;
  e.open(argv[1], size < 8 ? 8 : size);
  e.meet(host, std::atoi(argv[4]));
  if (host != nullptr)
    stream(e, size, std::atof(argv[3]));
  else
    sink(e);
  return 0;
}
