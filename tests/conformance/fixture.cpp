// SPDX-License-Identifier: BSD-3-Clause
// The shared parts of the conformance tests; see fixture.hpp.
#include "tests/conformance/fixture.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <random>

#include "tests/conformance/by_cm.hpp"
#include "tests/support/free_end.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {

namespace {

std::string capture_file() {
  const char* folder = std::getenv("TMPDIR");
  static std::atomic<int> files{0};
  return std::string(folder != nullptr ? folder : "/tmp") + "/weft-conf-" +
         std::to_string(getpid()) + "-" + std::to_string(files.fetch_add(1)) + ".pcap";
}

// Files of captures, removed when the program ends.
struct Captures {
  std::vector<std::string> files;
  ~Captures() {
    for (const std::string& file : files) std::remove(file.c_str());
  }
};

}  // namespace

bool long_run() {
  const char* text = std::getenv("WEFT_TEST_LONG");
  return text != nullptr && std::strcmp(text, "1") == 0;
}

uint64_t test_seed(std::string_view program) {
  const char* text = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device{}();
  std::printf("replay: WEFT_TEST_SEED=%llu %.*s\n", static_cast<unsigned long long>(seed),
              static_cast<int>(program.size()), program.data());
  return seed;
}

void fill(std::span<std::byte> bytes, uint64_t seed) {
  Random random(seed);
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(&bytes[i], &word, 8);
  }
  for (; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.next());
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

int64_t clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Deadline::Deadline(Duration limit) : end_ns_(clock_ns() + limit.ns()) {}
bool Deadline::passed() const { return clock_ns() > end_ns_; }

namespace {

Device open(const std::string& spec) {
  static Captures captures;
  std::string text = spec;
  if (text.ends_with("pcap=")) text += captures.files.emplace_back(capture_file());
  Result<Device> device = open_free_end(text);
  if (!device) FAIL(device.error().message);
  return std::move(*device);
}

}  // namespace

Side::Side(const std::string& spec, uint32_t cq_capacity)
    : device(open(spec)),
      pd(*device.protection_domain()),
      engine(device.attributes().engines - 1),
      cq(*queue({.capacity = std::min(cq_capacity, device.attributes().max_cqe)})) {}

Result<CompletionQueue> Side::queue(CompletionQueueOptions options) const {
  options.engine = engine;
  return device.completion_queue(options);
}

QueuePair Side::queue_pair(QueuePairOptions options) const {
  options.send_cq = options.recv_cq = cq;
  if (options.type == QpType::rc) options.type = device.attributes().qp_type;
  Result<QueuePair> qp = pd.queue_pair(options);
  if (!qp) FAIL(qp.error().message);
  return *qp;
}

uint64_t Side::counter(std::string_view counter_name) const {
  for (const Counter& counter : device.counters())
    if (counter.name == counter_name) return counter.value;
  FAIL("no counter " << counter_name);
  return 0;
}

bool Side::counts(std::string_view counter_name) const {
  for (const Counter& counter : device.counters())
    if (counter.name == counter_name) return true;
  return false;
}

void Side::poll() {
  Completion some[64];
  const size_t n = cq.poll(some);
  got.insert(got.end(), some, some + n);
  if (n == 0 && device.attributes().only_by_cm) drain_cm_events();
}

void Buffer::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{4096});
}

Buffer::Buffer(const ProtectionDomain& pd, size_t size, Access access)
    : size_(size),
      memory_(static_cast<std::byte*>(::operator new (size + 1, std::align_val_t{4096}))) {
  std::memset(memory_.get(), 0, size);
  Result<MemoryRegion> registered = pd.register_memory(memory_.get(), size, access);
  if (!registered) FAIL(registered.error().message);
  region = std::move(*registered);
}

QueuePairAttributes to_init(const Walk& walk) {
  QueuePairAttributes init;
  init.state = QpState::init;
  init.pkey_index = uint16_t{0};
  init.port = uint8_t{1};
  init.access = walk.access;
  return init;
}

QueuePairAttributes to_rtr(const Walk& walk, const QueuePair& peer, Psn rq_psn) {
  QueuePairAttributes rtr;
  rtr.state = QpState::rtr;
  rtr.path = AddressVector{.destination = peer.device().attributes().gid};
  rtr.path_mtu = walk.mtu;
  rtr.dest_qpn = peer.number();
  rtr.rq_psn = rq_psn;
  rtr.max_dest_rd_atomic = walk.max_rd_atomic;
  rtr.min_rnr_timer = walk.min_rnr_timer;
  return rtr;
}

QueuePairAttributes to_rts(const Walk& walk, Psn sq_psn) {
  QueuePairAttributes rts;
  rts.state = QpState::rts;
  rts.sq_psn = sq_psn;
  rts.timeout = walk.timeout;
  rts.retry_count = walk.retry_count;
  rts.rnr_retry = walk.rnr_retry;
  rts.max_rd_atomic = walk.max_rd_atomic;
  return rts;
}

QueuePairAttributes own_half(const QueuePair& qp, QueuePairAttributes change) {
  const bool unreliable = qp.type() == QpType::uc;
  if (qp.type() == QpType::xrc_initiator || unreliable) {
    change.max_dest_rd_atomic.reset();
    change.min_rnr_timer.reset();
  }
  if (qp.type() == QpType::xrc_target || unreliable) {
    change.max_rd_atomic.reset();
    change.timeout.reset();
    change.retry_count.reset();
    change.rnr_retry.reset();
  }
  return change;
}

namespace {

void step(const QueuePair& qp, const QueuePairAttributes& change) {
  const Result<void> done = qp.modify(own_half(qp, change));
  if (!done) FAIL(done.error().message);
}

}  // namespace

void connect(const QueuePair& a, const QueuePair& b, const Walk& requested) {
  if (a.device().attributes().only_by_cm) return connect_by_cm(a, b, requested);
  Walk walk = requested;
  walk.mtu = std::min(requested.mtu, a.device().attributes().active_mtu);
  if (a.state() == QpState::reset) step(a, to_init(walk));
  if (b.state() == QpState::reset) step(b, to_init(walk));
  step(a, to_rtr(walk, b, walk.psn_b));
  step(b, to_rtr(walk, a, walk.psn_a));
  step(a, to_rts(walk, walk.psn_a));
  step(b, to_rts(walk, walk.psn_b));
}

namespace {

PairOptions hastened(Wire wire, PairOptions options) {
  // 17 ms; a sanitizer's build takes ten times as long for a window of data.
  if (lossy(wire) && options.walk.timeout == Walk{}.timeout)
    options.walk.timeout = test_scale() < 1 ? 15 : 12;
  return options;
}

}  // namespace

Pair::Pair(Wire wire, const PairOptions& options)
    : Pair(device_string(wire), hastened(wire, options)) {}

Pair::Pair(const std::string& spec, const PairOptions& options)
    : a(spec, options.cq_capacity),
      b(spec, options.cq_capacity),
      qa(a.queue_pair(options.qp)),
      qb(b.queue_pair(options.qp)),
      options_(options) {
  connect(qa, qb, options_.walk);
}

void Pair::renew() {
  qa = {};
  qb = {};
  for (Side* side : {&a, &b}) {
    side->poll();
    side->got.clear();
  }
  qa = a.queue_pair(options_.qp);
  qb = b.queue_pair(options_.qp);
  connect(qa, qb, options_.walk);
}

namespace {

void print_counters(const char* side, const Device& device) {
  std::printf("counters of %s:", side);
  for (const Counter& counter : device.counters()) {
    if (counter.value == 0) continue;
    std::printf(" %.*s=%llu", static_cast<int>(counter.name.size()), counter.name.data(),
                static_cast<unsigned long long>(counter.value));
  }
  std::printf("\n");
}

}  // namespace

Pair::~Pair() {
  if (std::uncaught_exceptions() != 0) print();
}

void Pair::print() const {
  if (qa && qb)
    std::printf("a is in %s, b in %s\n", weft::name(qa.state()).data(),
                weft::name(qb.state()).data());
  print_counters("a", a.device);
  print_counters("b", b.device);
}

std::vector<Completion> Pair::wait(Side& side, size_t count) {
  const bool all = pump_until({&a, &b}, [&] { return side.got.size() >= count; });
  if (!all) {
    FAIL(side.got.size() << " of " << count << " completions after half a minute; QPs are in "
                         << weft::name(qa.state()) << " and " << weft::name(qb.state()));
  }
  const auto end = side.got.begin() + static_cast<ptrdiff_t>(count);
  std::vector<Completion> handed(side.got.begin(), end);
  side.got.erase(side.got.begin(), end);
  return handed;
}

void Pair::poll_for(Duration time) {
  const Deadline end(time);
  while (!end.passed()) {
    a.poll();
    b.poll();
  }
}

bool is_rxe(const Side& side) {
  const DeviceAttributes& a = side.device.attributes();
  return a.provider == "ibverbs" && a.port.starts_with("rxe");
}

bool is_siw(const Side& side) {
  const DeviceAttributes& a = side.device.attributes();
  return a.provider == "ibverbs" && a.port.starts_with("siw");
}

bool saw_event(const Device& device, EventType type) {
  bool seen = false;
  while (const std::optional<AsyncEvent> event = device.next_event())
    seen = seen || event->type == type;
  return seen;
}

}  // namespace weft::test
