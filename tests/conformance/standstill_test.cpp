// SPDX-License-Identifier: BSD-3-Clause
// Processes that are stopped for a while during transfers (SIGSTOP, SIGCONT): with a long timeout
// the transfer continues, with a short one it fails once; no byte is wrong and no process hangs.
// Each transfer compares the data read with the data written. //= threat:A27
#include <thread>

#include "tests/conformance/peer_process.hpp"
#include "tests/conformance/steps.hpp"

namespace weft::test {
namespace {

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
}  // namespace weft::test
