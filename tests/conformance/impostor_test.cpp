// SPDX-License-Identifier: BSD-3-Clause
// Another process of the same user that knows everything of a connection: addresses, queue pair
// numbers, PSNs, keys. Through this library it cannot impersonate a side, because a device sends
// from its own address only. //= threat:A31
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "tests/conformance/fixture.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kTries = 20;
constexpr Walk kImpostorWalk{.timeout = 8, .retry_count = 1};

// What the impostor knows, and what became of it; shared by both processes.
struct Secrets {
  char spec[256];
  Gid address;  // of whom it deceives
  QpNum number;
  Psn expected;
  uint64_t memory;
  RKey rkey;
  std::atomic<bool> known{false};  // all of the above
  uint32_t refused = 0;
  uint32_t believed = 0;
  uint32_t took_address = 0;
};

// One request of each kind as the true peer would send it next; no answer is received.
void impersonate(Secrets& s) {
  const Result<Device> device = Device::open(s.spec);
  if (!device) return;
  const CompletionQueue cq = *device->completion_queue({.capacity = 64});
  const ProtectionDomain pd = *device->protection_domain();
  std::vector<std::byte> bytes(64, std::byte{0xEE});
  const MemoryRegion region = *pd.register_memory(bytes.data(), bytes.size(), Access::all);
  const Sge sge = region.sge(0, 8);
  constexpr Opcode kOps[] = {Opcode::write, Opcode::send, Opcode::read, Opcode::fetch_add};
  for (uint32_t i = 0; i < kTries; ++i) {
    const QueuePair qp = *pd.queue_pair({.send_cq = cq, .recv_cq = cq});
    QueuePairAttributes rtr{.state = QpState::rtr,
                            .path = AddressVector{.destination = s.address},
                            .path_mtu = kImpostorWalk.mtu,
                            .dest_qpn = s.number,
                            .rq_psn = Psn{1},
                            .max_dest_rd_atomic = uint8_t{1},
                            .min_rnr_timer = uint8_t{1}};
    if (!qp.modify(to_init(kImpostorWalk)) || !qp.modify(rtr) ||
        !qp.modify(to_rts(kImpostorWalk, s.expected)))
      return;
    if (!qp.post_send({.opcode = kOps[i % 4],
                       .sges = {&sge, 1},
                       .remote_address = s.memory,
                       .rkey = s.rkey,
                       .compare_add = 1}))
      return;
    Completion c;
    if (cq.wait({&c, 1}, Duration::from_s(20)) == 0) return;
    ++(c.status == Status::success ? s.believed : s.refused);
  }
  // Nor can it have the other's address.
  if (device->attributes().port != "udp") return;
  s.took_address = Device::open("roce+udp:" + to_string(s.address)).ok();
}

void impostor(Wire wire) {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  Secrets& s = *new (page) Secrets;
  const std::string spec = device_string(wire);
  REQUIRE(spec.size() < sizeof s.spec);
  std::copy(spec.begin(), spec.end(), s.spec);
  const pid_t child = fork();  // before anything is open
  REQUIRE(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!s.known) usleep(1000);
    impersonate(s);
    _exit(0);
  }
  {
    Side a(spec), b(spec);
    const QueuePair qa = a.queue_pair(), qb = b.queue_pair();
    connect(qa, qb);
    Buffer near(a, 4096), far(b, 4096);
    const std::vector<std::byte> before(far.bytes().begin(), far.bytes().end());
    s.address = b.device.attributes().gid;
    s.number = qb.number();
    s.expected = qb.query().rq_psn.value();
    s.memory = far.address();
    s.rkey = far.region.rkey();
    const Sge in = far.sge(0, 64);
    REQUIRE(qb.post_recv({.id = 1, .sges = {&in, 1}}));
    s.known = true;
    int status = 0;
    pid_t ended = 0;
    REQUIRE(pump_until({&a, &b}, [&] { return (ended = waitpid(child, &status, WNOHANG)) != 0; }));
    CHECK(status == 0);
    CHECK(s.believed == 0);
    CHECK(s.refused == kTries);
    CHECK(s.took_address == 0);
    CHECK(b.counter("rx_bad_source") >= 2 * kTries);  // each is said again once
    CHECK(b.got.empty());
    CHECK(qb.state() == QpState::rts);
    CHECK(equal(far.bytes(), before));
    // The true peer says the same words.
    const Sge out = near.sge(0, 8);
    REQUIRE(qa.post_send({.opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
    REQUIRE(pump_until({&a, &b}, [&] { return !a.got.empty(); }));
    CHECK(a.got[0].status == Status::success);
  }
  munmap(page, 4096);
}
WEFT_ON_WIRE(impostor, "another process cannot impersonate a queue pair, threat:A31", udp)
WEFT_ON_WIRE(impostor, "another process cannot impersonate a queue pair, threat:A31", shm)

}  // namespace
}  // namespace weft::test
