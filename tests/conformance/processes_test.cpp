// SPDX-License-Identifier: BSD-3-Clause
// Several processes: they share the queue pair numbers of an address, survive kill -9 of each
// other, leave no files or sockets, and fork() has no effect on the parent; some are stopped for a
// while.
#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/peer_process.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

std::string at(int port) { return "127.0.0.1:" + std::to_string(port); }

std::set<std::string> shared_memory_names() {
  std::set<std::string> names;
  DIR* const folder = opendir("/dev/shm");
  while (const dirent* entry = folder != nullptr ? readdir(folder) : nullptr)
    names.insert(entry->d_name);
  if (folder != nullptr) closedir(folder);
  return names;
}

// The statuses that a sender may get when its peer was killed.
std::string_view word_for_dead(const std::string& device) {
  return Side(device).device.attributes().confirms ? "retry_exceeded" : "flushed";
}

// Names in /dev/shm that were not there before and carry the job of `device`.
std::vector<std::string> left_behind(const std::set<std::string>& before,
                                     const std::string& device) {
  const size_t at = device.find("conf-");
  if (at == std::string::npos) return {};
  const std::string job = device.substr(at, device.find(',') - at);
  std::vector<std::string> left;
  for (const std::string& entry : shared_memory_names())
    if (before.count(entry) == 0 && entry.find(job) != std::string::npos) left.push_back(entry);
  return left;
}

void ring_of_processes(Wire wire) {
  const std::string device = device_string(wire);
  const std::set<std::string> before = shared_memory_names();
  {
    std::vector<std::unique_ptr<PeerProcess>> peers;
    for (int i = 0; i < 4; ++i) peers.push_back(std::make_unique<PeerProcess>(device, 2));
    for (size_t i = 0; i < 4; ++i)
      for (size_t k = 0; k < 2; ++k) peers[i]->go(k, at(peers[(i + 1) % 4]->ports[k]));
    sleep_ms(200);
    peers[2]->kill();
    for (size_t k = 0; k < 2; ++k) {  // its peers detect it, within their retries
      const PeerProcess::Report r = peers[1]->report(k);
      // Or another test's device has the address of loopback by now, and says that it is new there.
      CHECK((r.status == word_for_dead(device) || r.status == "remote_aborted"));
      CHECK(r.last_ms < 20'000);  // 8 times 34 ms where nothing else runs
      std::printf("death of the peer known after %lld ms\n", static_cast<long long>(r.last_ms));
    }
    peers[0]->stop();  // process 3 goes on with its devices
    sleep_ms(200);
    for (const size_t i : {1u, 3u}) peers[i]->stop();
    for (const size_t i : {0u, 3u}) {
      for (size_t k = 0; k < 2; ++k) {
        const PeerProcess::Report r = peers[i]->report(k);
        CHECK(r.status == "success");
        CHECK(r.rounds > 0);
      }
    }
    for (const size_t i : {0u, 1u, 3u}) CHECK(peers[i]->join() == 0);
  }
  CHECK(left_behind(before, device).empty());
}
WEFT_ON_SHARED_PORTS_AND_SRD(ring_of_processes,
                             "four processes of two devices and one is killed (C-AV-97)")

void killed_client(Wire wire) {
  const std::string device = device_string(wire);
  const std::set<std::string> before = shared_memory_names();
  {
    PeerProcess server(device, 1);
    for (int round = 0; round < 3; ++round) {
      PeerProcess client(device, 1);
      client.go(0, at(server.ports[0]));
      sleep_ms(50);
      client.kill();  // in the middle of a transfer
    }
    PeerProcess client(device, 1);
    client.go(0, at(server.ports[0]));
    sleep_ms(50);
    client.stop();
    const PeerProcess::Report r = client.report(0);
    CHECK(r.status == "success");
    CHECK(r.rounds > 0);
    CHECK(client.join() == 0);
    server.stop();
    CHECK(server.join() == 0);
  }
  CHECK(left_behind(before, device).empty());
}
WEFT_ON_EACH_PORT_AND_SRD(killed_client, "a server outlives clients that are killed")

void all_killed(Wire wire) {
  const std::string device = device_string(wire);
  const std::set<std::string> before = shared_memory_names();
  {
    PeerProcess server(device, 1), client(device, 1);
    client.go(0, at(server.ports[0]));
    sleep_ms(50);
    client.kill();
    server.kill();
  }
  CHECK(left_behind(before, device).empty());
  PeerProcess server(device, 1), client(device, 1);  // the same job again
  client.go(0, at(server.ports[0]));
  client.stop();
  CHECK(client.report(0).status == "success");
}
WEFT_ON_EACH_PORT_AND_SRD(all_killed, "nothing is left when all processes are killed")

// Uses the parent's objects in a child of fork(); returns the first unexpected result.
const char* in_the_child(Wire wire, Pair& p, const Buffer& near) try {
  const Sge sge = near.sge(0, 8);
  Completion c;
  if (p.qa.post_send({.sges = {&sge, 1}}).code != Code::permission_denied) return "post_send";
  if (p.qa.post_recv({.sges = {&sge, 1}}).code != Code::permission_denied) return "post_recv";
  const Result<void> modified = p.qa.modify({.state = QpState::err});
  if (modified || modified.error().code != Code::permission_denied) return "modify";
  if (modified.error().message.find("fork") == std::string::npos) return "message";
  if (p.a.pd.register_memory(near.at(), 64, Access::none)) return "register_memory";
  if (p.a.device.completion_queue({})) return "completion_queue";
  if (p.a.pd.queue_pair({.send_cq = p.a.cq, .recv_cq = p.a.cq})) return "queue_pair";
  if (p.a.cq.poll({&c, 1}) != 0) return "poll";
  p.a.cq.arm();
  if (p.a.cq.wait({&c, 1}, Duration::from_ms(1)) != 0) return "wait";
  (void)p.qa.state();
  (void)p.qa.query();
  (void)p.a.device.counters();
  if (p.a.device.next_event()) return "next_event";
#if defined(__SANITIZE_THREAD__)  // still has the parent's threads, and takes a new one for one of
                                  // them
  (void)wire;
  return nullptr;
#endif
  Pair own(wire);  // a device opened by the child works
  const Buffer from(own.a, 64), to(own.b, 64);
  const Sge out = from.sge(0, 64);
  if (!own.qa.post_send({.opcode = Opcode::write,
                         .sges = {&out, 1},
                         .remote_address = to.address(),
                         .rkey = to.region.rkey()}))
    return "own post_send";
  return own.next(own.a).status == Status::success ? nullptr : "own WRITE";
} catch (...) {  // a failed REQUIRE must not run the parent's other tests here
  return "exception";
}

void forked(Wire wire) {
  auto p = std::make_unique<Pair>(wire, PairOptions{.qp = {.max_send_wr = 64}});
  const Buffer near(p->a, 1 << 20), far(p->b, 1 << 20);
  fill(near.bytes(), 1);
  const Sge whole = near.sge(0, 1 << 20);
  for (int round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 16; ++i)  // in flight across the fork
      REQUIRE(p->qa.post_send({.id = i,
                               .opcode = Opcode::write,
                               .sges = {&whole, 1},
                               .remote_address = far.address(),
                               .rkey = far.region.rkey()}));
    p->poll_for(Duration::from_us(200));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const char* wrong = in_the_child(wire, *p, near);
      if (wrong != nullptr) std::fprintf(stderr, "in the child: %s\n", wrong);
      p.reset();  // destroys the objects; the parent's connection stays
      _exit(wrong != nullptr);
    }
    for (const Completion& c : p->wait(p->a, 16)) CHECK(c.status == Status::success);
    int status = -1;
    REQUIRE(pump_until({&p->a, &p->b}, [&] { return waitpid(child, &status, WNOHANG) == child; }));
    CHECK(status == 0);
    CHECK(equal(near.bytes(), far.bytes()));
    const Sge word = near.sge(0, 8), word_there = far.sge(0, 8);
    REQUIRE(p->qb.post_recv({.id = 1, .sges = {&word_there, 1}}));
    REQUIRE(p->qa.post_send(
        {.id = 2,
         .opcode = p->a.device.attributes().has_immediate ? Opcode::write_with_imm : Opcode::send,
         .sges = {&word, 1},
         .remote_address = far.address(),
         .rkey = far.region.rkey()}));
    CHECK(p->next(p->b).status == Status::success);
    CHECK(p->next(p->a).status == Status::success);
  }
}
WEFT_ON_SHARED_PORTS_AND_SRD(forked,
                             "a child of fork is refused and its parent unharmed (C-EVT-111)")

int processes_shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str());
}

// Two network namespaces joined by a veth pair.
class Namespaces {
 public:
  Namespaces() {
    usable = processes_shell("ip netns add " + near) == 0 &&
             processes_shell("ip netns add " + far) == 0 &&
             processes_shell("ip link add " + link + "a netns " + near + " type veth peer name " +
                             link + "b netns " + far) == 0 &&
             set_up(near, link + "a", "10.77.0.1") && set_up(far, link + "b", "10.77.0.2");
  }
  ~Namespaces() {
    processes_shell("ip netns del " + near);
    processes_shell("ip netns del " + far);
  }
  static bool set_up(const std::string& space, const std::string& device, const char* address) {
    const std::string ip = "ip -n " + space;
    return processes_shell(ip + " addr add " + address + "/24 dev " + device) == 0 &&
           processes_shell(ip + " link set lo up") == 0 &&
           processes_shell(ip + " link set " + device + " up") == 0;
  }
  std::vector<std::string> inside(const std::string& space) const {
    return {"ip", "netns", "exec", space, "env", "WEFT_INSECURE=1"};
  }
  const std::string link = "wf" + std::to_string(getpid() % 1'000'000);
  const std::string near = "weft-near-" + std::to_string(getpid());
  const std::string far = "weft-far-" + std::to_string(getpid());
  bool usable = false;
};

TEST_CASE("two processes share one veth address and one is killed") {
  const Namespaces spaces;
  if (!spaces.usable) WEFT_SKIP("two processes share one veth address", "no network namespaces");
  const std::string here = "roce+udp:" + spaces.link + "a", there = "roce+udp:" + spaces.link + "b";
  PeerProcess first(here, 1, spaces.inside(spaces.near));
  PeerProcess second(here, 1, spaces.inside(spaces.near));
  PeerProcess other(there, 3, spaces.inside(spaces.far));
  const auto near = [](int port) { return "10.77.0.1:" + std::to_string(port); };
  const auto far = [](int port) { return "10.77.0.2:" + std::to_string(port); };
  first.go(0, far(other.ports[0]));
  second.go(0, far(other.ports[1]));
  other.go(0, near(first.ports[0]));  // and against the stream
  other.go(1, near(second.ports[0]));
  sleep_ms(200);
  first.kill();
  CHECK(other.report(0).status == "retry_exceeded");
  sleep_ms(200);
  second.stop();
  const PeerProcess::Report alone = second.report(0);
  CHECK(alone.status == "success");
  CHECK(alone.rounds > 0);
  other.stop();
  // `second` may have ended first: then its absence is what `other` reports.
  CHECK(other.report(1).rounds > 0);
}

// Processes that are stopped for a while during transfers (SIGSTOP, SIGCONT): with a long timeout
// the transfer continues, with a short one it fails once; no byte is wrong and no process hangs.
// Each transfer compares the data read with the data written. //= threat:A27

using Report = PeerProcess::Report;
constexpr int kPatient = 18;    // 1.07 s, eight times
constexpr int kImpatient = 13;  // 34 ms, eight times: 1.1 s at most
constexpr int kDozing = 16;     // 268 ms, eight times: less than the long stop

std::string standstill_at(int port) { return "127.0.0.1:" + std::to_string(port); }

// Stops it, and says how it went.
Report end_of(PeerProcess& client) {
  client.stop();
  const Report r = client.report(0);
  CHECK(client.join() == 0);
  return r;
}

// Rounds that a connection makes from now on until it has ended well.
void check_fresh(const std::string& device, PeerProcess& server) {
  PeerProcess fresh(device, 1);
  fresh.go(0, standstill_at(server.ports[0]));
  sleep_ms(50);
  const Report r = end_of(fresh);
  CHECK(r.status == "success");
  CHECK(r.rounds > 0);
}

// For so short that everybody is patient enough, on both sides in turn.
void short_stops(Wire wire) {
  const std::string device = device_string(wire);
  PeerProcess server(device, 1), client(device, 1);
  client.go(0, standstill_at(server.ports[0]), 2, kPatient);
  for (int i = 0; i < 4; ++i) {
    PeerProcess& stopped = i % 2 == 0 ? server : client;
    sleep_ms(50);
    stopped.pause();
    sleep_ms(300);
    stopped.resume();
  }
  sleep_ms(2500);  // the longest wait that two lost transmissions make
  const Report r = end_of(client);
  CHECK(r.status == "success");
  CHECK(r.rounds > 0);
  server.stop();
  CHECK(server.join() == 0);
}
WEFT_ON_WIRE(short_stops, "processes that stand still for a moment go on, threat:A27", udp)
WEFT_ON_WIRE(short_stops, "processes that stand still for a moment go on, threat:A27", shm)

// Five seconds: a server with clients of both kinds, and a client of another server.
void long_stop(Wire wire) {
  const std::string device = device_string(wire);
  PeerProcess server(device, 1), other(device, 1);
  PeerProcess patient(device, 1), impatient(device, 1), sleeper(device, 1);
  patient.go(0, standstill_at(server.ports[0]), 1, kPatient);
  impatient.go(0, standstill_at(server.ports[0]), 1, kImpatient);
  sleeper.go(0, standstill_at(other.ports[0]), 1, kDozing);
  sleep_ms(100);
  server.pause();
  sleeper.pause();
  sleep_ms(5000);
  // It has timed out, and reports that once.
  const Report given_up = impatient.report(0);
  CHECK(given_up.status == "retry_exceeded");
  CHECK(given_up.last_ms < 5000);
  server.resume();
  sleeper.resume();
  sleep_ms(2500);
  const Report went_on = end_of(patient);
  CHECK(went_on.status == "success");
  CHECK(went_on.last_ms < 10'000);
  // Its own clock jumped, its peer's did not: nothing had been lost.
  CHECK(end_of(sleeper).status == "success");
  impatient.stop();
  CHECK(impatient.join() == 0);
  check_fresh(device, server);
  check_fresh(device, other);
  for (PeerProcess* each : {&server, &other}) {
    each->stop();
    CHECK(each->join() == 0);
  }
}
WEFT_ON_WIRE(long_stop, "processes that stand still for five seconds, threat:A27", udp)

}  // namespace
}  // namespace weft
