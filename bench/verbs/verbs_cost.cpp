// SPDX-License-Identifier: BSD-3-Clause
// What the provider `ibverbs` adds to libibverbs, and what the drop-in libibverbs adds to weft, a
// request: the same requests are posted and polled by libibverbs itself, through weft, and through
// the drop-in library over weft, on one device that does nothing (idle_device.cpp), in turns of a
// few milliseconds; the differences are ours. Instructions, which have no noise:
//
//   valgrind --tool=callgrind --toggle-collect=through_weft verbs_cost write 10000
//
// and likewise through_libibverbs and through_drop_in; divide by the number of requests that it
// prints. Without arguments: nanoseconds of every kind.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "bench/perftest/both_ends.hpp"
#include "bench/perftest/command_line.hpp"

namespace {

using namespace weft;
using bench::need;

constexpr uint32_t kMost = 32;

struct Kind {
  const char* name;
  Opcode opcode;
  ibv_wr_opcode raw;
  uint32_t batch;  // requests of a call
  bool is_inline;
  bool receives;
};
constexpr Kind kKinds[] = {
    {"write", Opcode::write, IBV_WR_RDMA_WRITE, 1, false, false},
    {"inline", Opcode::send, IBV_WR_SEND, 1, true, false},
    {"atomic", Opcode::fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, false, false},
    {"write16", Opcode::write, IBV_WR_RDMA_WRITE, 16, false, false},
    {"receive", Opcode::send, IBV_WR_SEND, 1, false, true},
    {"receive16", Opcode::send, IBV_WR_SEND, 16, false, true},
};

std::filesystem::path folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}
std::string idle_library() { return folder() / "libidle_verbs.so"; }
std::string drop_in_library() { return folder().parent_path() / "lib/drop-in/libibverbs.so.1"; }
std::string device_string() { return "ibverbs:idle0,library=" + idle_library(); }

struct Weft {
  Weft()
      : device(need(Device::open(device_string()))),
        pd(need(device.protection_domain())),
        cq(need(device.completion_queue({.capacity = 256}))),
        qp(need(pd.queue_pair({.send_cq = cq, .recv_cq = cq}))),
        region(need(pd.register_memory(words, sizeof words, Access::all))) {
    QueuePairAttributes to_init{.state = QpState::init};
    to_init.pkey_index = 0;
    to_init.port = 1;
    to_init.access = Access::all;
    need(qp.modify(to_init));
    QueuePairAttributes to_rtr{.state = QpState::rtr};
    to_rtr.path = AddressVector{.destination = device.attributes().gid};
    to_rtr.path_mtu = 1024;
    to_rtr.dest_qpn = QpNum{17};
    to_rtr.rq_psn = Psn{1};
    to_rtr.max_dest_rd_atomic = 1;
    to_rtr.min_rnr_timer = 1;
    need(qp.modify(to_rtr));
    QueuePairAttributes to_rts{.state = QpState::rts};
    to_rts.sq_psn = Psn{1};
    to_rts.max_rd_atomic = 1;
    to_rts.timeout = 14;
    to_rts.retry_count = 7;
    to_rts.rnr_retry = 7;
    need(qp.modify(to_rts));
  }
  static void need(const Result<void>& done) {
    if (!done) bench::fail(done.error());
  }
  template <class T>
  static T need(Result<T> result) {
    return bench::need(std::move(result));
  }

  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  QueuePair qp;
  uint64_t words[8] = {};
  MemoryRegion region;
};

[[noreturn]] void wrong(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// Through a libibverbs: that of the idle device, or the drop-in one.
struct Raw {
  explicit Raw(const std::string& name) : library(dlopen(name.c_str(), RTLD_NOW)) {
    if (library == nullptr) wrong(dlerror());
    int count = 0;
    ibv_device** const list = call<decltype(ibv_get_device_list)>("ibv_get_device_list")(&count);
    context = call<decltype(ibv_open_device)>("ibv_open_device")(list[0]);
    pd = call<decltype(ibv_alloc_pd)>("ibv_alloc_pd")(context);
    cq = call<decltype(ibv_create_cq)>("ibv_create_cq")(context, 256, nullptr, nullptr, 0);
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {128, 128, 4, 4, 64};
    qp = call<decltype(ibv_create_qp)>("ibv_create_qp")(pd, &wanted);
    to_rts();
  }
  void to_rts() const {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = 17;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = attr.min_rnr_timer = 1;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
    call<decltype(ibv_query_gid)>("ibv_query_gid")(context, 1, 0, &attr.ah_attr.grh.dgid);
    constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    constexpr int kRtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    constexpr int kRts = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_MAX_QP_RD_ATOMIC;
    for (const auto& [state, mask] : {std::pair{IBV_QPS_INIT, kInit}, std::pair{IBV_QPS_RTR, kRtr},
                                      std::pair{IBV_QPS_RTS, kRts}}) {
      attr.qp_state = state;
      if (call<decltype(ibv_modify_qp)>("ibv_modify_qp")(qp, &attr, mask | IBV_QP_STATE) != 0)
        wrong("ibv_modify_qp fails");
    }
  }
  // Of the library, not of one that the program is linked with.
  template <class Function>
  Function* call(const char* symbol) const {
    return reinterpret_cast<Function*>(dlsym(library, symbol));
  }
  void* library;
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_qp* qp;
  uint64_t words[8] = {};
};

}  // namespace

// Not in a namespace, so that callgrind finds them by these names.
extern "C" __attribute__((noinline)) void through_weft(Weft& w, const Kind& kind, uint32_t rounds) {
  SendRequest sends[kMost];
  RecvRequest receives[kMost];
  Completion done[kMost];
  for (uint32_t round = 0; round < rounds; ++round) {
    const Sge entry = w.region.sge(0, 8);
    PostStatus status;
    for (uint32_t i = 0; i < kind.batch; ++i) {
      if (kind.receives) {
        receives[i] = {.id = round, .sges = {&entry, 1}};
        continue;
      }
      SendRequest& r = sends[i];
      r.id = round;
      r.opcode = kind.opcode;
      r.flags = kind.is_inline ? SendFlags::signaled | SendFlags::inline_data : SendFlags::signaled;
      r.sges = {&entry, 1};
      r.remote_address = 64 * round;
      r.rkey = RKey{7};
      r.compare_add = round;
    }
    if (kind.receives)
      status = w.qp.post_recv(std::span<const RecvRequest>(receives, kind.batch));
    else
      status = w.qp.post_send(std::span<const SendRequest>(sends, kind.batch));
    if (!status) wrong(status.reason);
    const size_t n = w.cq.poll({done, kind.batch});
    for (size_t i = 0; i < n; ++i)
      if (done[i].status != Status::success || done[i].id != round) wrong("weft: another request");
    if (n != kind.batch) wrong("weft: not as many as were posted");
  }
}

inline void post_and_poll(Raw& w, const Kind& kind, uint32_t rounds) {
  ibv_send_wr sends[kMost]{}, *bad_send = nullptr;
  ibv_recv_wr receives[kMost]{}, *bad_receive = nullptr;
  ibv_wc done[kMost];
  for (uint32_t round = 0; round < rounds; ++round) {
    ibv_sge entry{reinterpret_cast<uint64_t>(w.words), 8, 7};
    for (uint32_t i = 0; i < kind.batch; ++i) {
      const bool last = i + 1 == kind.batch;
      if (kind.receives) {
        receives[i] = {round, last ? nullptr : &receives[i + 1], &entry, 1};
        continue;
      }
      ibv_send_wr& r = sends[i];
      r.wr_id = round;
      r.next = last ? nullptr : &sends[i + 1];
      r.opcode = kind.raw;
      r.send_flags = kind.is_inline ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
      r.sg_list = &entry;
      r.num_sge = 1;
      if (kind.raw == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        r.wr.atomic.remote_addr = 64 * round;
        r.wr.atomic.rkey = 7;
        r.wr.atomic.compare_add = round;
      } else {
        r.wr.rdma.remote_addr = 64 * round;
        r.wr.rdma.rkey = 7;
      }
    }
    const int error = kind.receives ? ibv_post_recv(w.qp, receives, &bad_receive)
                                    : ibv_post_send(w.qp, sends, &bad_send);
    if (error != 0) wrong("libibverbs: refused");
    const int n = ibv_poll_cq(w.cq, static_cast<int>(kind.batch), done);
    for (int i = 0; i < n; ++i)
      if (done[i].status != IBV_WC_SUCCESS || done[i].wr_id != round)
        wrong("libibverbs: another request");
    if (n != static_cast<int>(kind.batch)) wrong("libibverbs: not as many as were posted");
  }
}

extern "C" __attribute__((noinline)) void through_libibverbs(Raw& w, const Kind& kind,
                                                             uint32_t rounds) {
  post_and_poll(w, kind, rounds);
}
extern "C" __attribute__((noinline)) void through_drop_in(Raw& w, const Kind& kind,
                                                          uint32_t rounds) {
  post_and_poll(w, kind, rounds);
}

namespace {

double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

struct Times {
  std::vector<double> all;
  void add(double start, double end, uint32_t requests) { all.push_back((end - start) / requests); }
  double median() const { return quantile(all, 0.5); }
};

// Medians and quartiles of the differences of pairs.
void print_added(const std::vector<double>& more, const std::vector<double>& less) {
  std::vector<double> added;
  for (size_t i = 0; i < more.size(); ++i) added.push_back(more[i] - less[i]);
  std::printf(" %8.1f (%.1f .. %.1f)", quantile(added, 0.5), quantile(added, 0.25),
              quantile(added, 0.75));
}

// Nanoseconds a request.
void measure(Weft& w, Raw& raw, Raw& drop_in, const Kind& kind) {
  constexpr uint32_t kRounds = 400, kRequests = 32'000;
  const uint32_t rounds = kRequests / kind.batch, requests = rounds * kind.batch;
  Times theirs, ours, over;
  for (uint32_t i = 0; i < kRounds; ++i) {
    const double start = now_ns();
    through_libibverbs(raw, kind, rounds);
    const double one = now_ns();
    through_weft(w, kind, rounds);
    const double two = now_ns();
    theirs.add(start, one, requests);
    ours.add(one, two, requests);
    through_drop_in(drop_in, kind, rounds);
    over.add(two, now_ns(), requests);
  }
  std::printf("%-10s %8.1f %8.1f", kind.name, theirs.median(), ours.median());
  print_added(ours.all, theirs.all);
  std::printf(" %8.1f", over.median());
  print_added(over.all, ours.all);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  uint32_t rounds = 1000;
  CLI::App app(
      "verbs_cost: what the provider ibverbs adds to libibverbs, and the drop-in libibverbs to "
      "weft.");
  app.option_defaults()->always_capture_default();
  app.add_option("kind", only,
                 "Run this kind of request, to be counted by callgrind (default: all, "
                 "measured)");
  app.add_option("rounds", rounds, "Posts and polls of that kind");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  setenv("WEFT_VERBS_DEVICES", device_string().c_str(), 1);
  Weft w;
  Raw raw(idle_library());
  Raw drop_in(drop_in_library());
  if (only.empty())
    std::printf("%-10s %8s %8s %8s %20s %8s\n", "ns", "verbs", "weft", "added", "drop-in", "added");
  for (const Kind& kind : kKinds) {
    if (only.empty()) {
      measure(w, raw, drop_in, kind);
    } else if (kind.name == only) {
      through_libibverbs(raw, kind, rounds);
      through_weft(w, kind, rounds);
      through_drop_in(drop_in, kind, rounds);
      std::printf("%u requests each: %s\n", rounds * kind.batch, kind.name);
      return 0;
    }
  }
  if (only.empty()) return 0;
  std::fprintf(stderr, "there is no kind %s; without arguments all are measured\n", only.c_str());
  return 2;
}
