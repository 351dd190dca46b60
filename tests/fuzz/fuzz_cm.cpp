// SPDX-License-Identifier: BSD-3-Clause
// The connection manager with arbitrary datagrams, in any state: the input is a list of datagrams,
// each optionally a valid next message of the peer with changed bytes. No crash, bounded memory,
// every timer ends, and no state is left at the end.
#include <vector>

#include "lib/roce/cm/agent.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::cm;
using fuzz::require;

namespace {

constexpr uint64_t kService = kPortSpaceTcp | 1, kDatagrams = kPortSpaceUdp | 1;
const Gid kPeers[] = {Gid::from_ipv4(10, 0, 0, 2), Gid::from_ipv4(10, 0, 0, 3)};

struct World {
  base::SecureRandom random{1};
  Agent agent{{.address = Gid::from_ipv4(10, 0, 0, 1), .max_half_open = 4, .max_connections = 16},
              random};
  Inbox inbox;
  Instant now;
  std::vector<uint32_t> ids;
  uint32_t last_id = 0, last_peer_id = 0;

  void drain() {
    while (const roce::ManagementDatagram* d = agent.next_datagram()) {
      const Req& words = body_of<Req>(d->bytes);
      last_id = words.local_id;
    }
    Event event;
    while (agent.next(inbox, event)) {
      if (event.kind == EventKind::request) ids.push_back(event.id);
      if (event.kind == EventKind::reply) (void)agent.confirm(event.id, now);
      if (event.kind >= EventKind::rejected) agent.release(event.id, now);
    }
  }
};

// A message of a peer to the connection that sent last.
Mad proposal(World& w, uint8_t kind, const Gid& from) {
  switch (kind % 10) {
    case 0: {
      Req req{};
      req.local_id = ++w.last_peer_id;
      req.service_id = kService;
      req.local_qpn = w.last_peer_id % 5 + 2;
      req.mtu_rnr = 3 << 4;
      req.primary.local_gid = from;
      req.primary.remote_gid = Gid::from_ipv4(10, 0, 0, 1);
      return make(req, 1);
    }
    case 1: {
      Rep rep{};
      rep.local_id = ++w.last_peer_id;
      rep.remote_id = w.last_id;
      rep.local_qpn = w.last_peer_id % 5 + 2;
      return make(rep, 1);
    }
    case 2:
      return make(Rtu{.local_id = w.last_peer_id, .remote_id = w.last_id}, 1);
    case 3:
      return make(Rej{.local_id = w.last_peer_id, .remote_id = w.last_id}, 1);
    case 4:
      return make(Mra{.local_id = w.last_peer_id, .remote_id = w.last_id}, 1);
    case 5:
      return make(Dreq{.local_id = w.last_peer_id, .remote_id = w.last_id, .remote_qpn = 7u}, 1);
    case 6:
      return make(Drep{.local_id = w.last_peer_id, .remote_id = w.last_id}, 1);
    case 8:
      return make(SidrReq{.request_id = ++w.last_peer_id, .service_id = kDatagrams}, 1);
    case 9:  // its name is the first word of the question
      return make(SidrRep{.request_id = w.last_id, .status = uint8_t(from == kPeers[1])}, 1);
    default:
      return Mad{};
  }
}

void step(World& w, fuzz::Input& in) {
  const auto what = in.take<uint8_t>();
  const auto detail = in.take<uint8_t>();
  const Gid& from = kPeers[detail & 1];
  if (what < 160) {
    Mad mad = proposal(w, what, from);
    for (uint32_t i = detail >> 4; i != 0; --i)
      mad[in.take<uint8_t>()] = static_cast<std::byte>(in.take<uint8_t>());
    const size_t length = detail & 2 && what % 10 == 7 ? in.take<uint8_t>() : kMadLength;
    w.agent.on_datagram({mad.data(), length}, from, w.now);
  } else if (what < 180) {
    if (detail & 2)
      (void)w.agent.connect(from, kService, {.qpn = {7}}, w.inbox, w.now);
    else
      (void)w.agent.find_service(from, kDatagrams, 1, {}, w.inbox, w.now);
  } else if (what < 240 && !w.ids.empty()) {
    const uint32_t id = w.ids[detail % w.ids.size()];
    if (what < 190)
      (void)w.agent.serve(id, {7}, 1, {}, w.now);
    else if (what < 200)
      (void)w.agent.accept(id, {.qpn = {7}}, w.now);
    else if (what < 210)
      (void)w.agent.reject(id, Reason::consumer, {}, w.now);
    else if (what < 225)
      (void)w.agent.disconnect(id, w.now);
    else
      w.agent.release(id, w.now);
  } else {
    w.now = w.now + Duration::from_ms(int64_t{1} << (detail & 15));
    w.agent.expire(w.now);
  }
  w.drain();
  w.agent.check_invariants();
  require(w.agent.connections() <= 2 * 16 + w.ids.size(), "bounded");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in{data, size};
  World w;
  (void)w.agent.listen(kService, w.inbox);
  (void)w.agent.listen(kDatagrams, w.inbox);
  while (in.left != 0) step(w, in);
  for (const uint32_t id : w.ids) w.agent.release(id, w.now);
  for (int round = 0; round < 4096 && !w.agent.next_deadline().is_never(); ++round) {
    w.now = std::max(w.now, w.agent.next_deadline());
    w.agent.expire(w.now);
    w.drain();
    // Those that stand are the application's to end.
    for (const uint32_t id : w.ids) w.agent.release(id, w.now);
  }
  require(w.agent.next_deadline().is_never(), "every timer ends");
  return 0;
}
