// SPDX-License-Identifier: BSD-3-Clause
// Out of memory at every allocation, threat:A28: connections that are set up and closed, with
// connect() and with the connection manager, and SRD.
// program: own
#include <unistd.h>

#include "tests/conformance/no_memory.hpp"
#include "weft/cm.hpp"

namespace weft::test {
namespace {

constexpr std::string_view kUdp = "roce+udp:lo,single_thread=1";
std::string_view shm(const char* format) { return spec_of(format); }

// What is given to the other side: made before anything runs out.
const std::vector<std::byte> kWords(40, std::byte{7});
// In clear text: OpenSSL keeps what it allocates for a thread.
const ConnectOptions kOptions{
    .private_data = kWords, .limit = Duration::from_s(10), .security = {.insecure = true}};
const CmParameters kParameters{.private_data = kWords};
char address[64];

std::string_view address_of(const Gid& gid, uint16_t port) {
  const auto* const b = gid.bytes.data() + 12;
  const int size =
      std::snprintf(address, sizeof address, "%u.%u.%u.%u:%u", b[0], b[1], b[2], b[3], port);
  return {address, static_cast<size_t>(size)};
}

Code over_tcp() {
  End a, b;
  WEFT_DONE(a.open(kUdp));
  WEFT_DONE(b.open(kUdp));
  WEFT_GIVE(from, a.queue_pair());
  WEFT_GIVE(to, b.queue_pair());
  Result<Listener> listener = Listener::listen("127.0.0.1:0");
  if (!listener) return listener.error().code;
  std::snprintf(address, sizeof address, "127.0.0.1:%u", listener->port());
  Result<Connector> asks = Connector::start(address, from, kOptions);
  if (!asks) return asks.error().code;
  std::optional<Connector> answers;
  Code code = Code::ok;
  bool asked = false, answered = false;
  WEFT_DONE(pump(a, b, [&] {
    if (!answers) {
      Result<Connector> accepted = listener->try_accept(to, kOptions);
      if (accepted)
        answers.emplace(std::move(*accepted));
      else if (accepted.error().code != Code::would_block)
        code = accepted.error().code;
    }
    const auto advance = [&](Connector& side, bool& done) {
      if (done || code != Code::ok) return;
      const Result<Connection> made = side.advance();
      done = made.ok();
      if (!made && made.error().code != Code::would_block) code = made.error().code;
    };
    if (answers) advance(*answers, answered);
    advance(*asks, asked);
    return code != Code::ok || (asked && answered);
  }));
  // One side's shortage is the other's end of the connection.
  if (code == Code::disconnected) return Code::no_memory;
  if (code != Code::ok) return code;
  const Sge out = a.region.sge(0, 64), in = b.region.sge(0, 64);
  WEFT_POST(to.post_recv({.sges = {&in, 1}}));
  WEFT_POST(from.post_send({.sges = {&out, 1}}));
  return wait(a, b, 1, 1);
}

// Half way, then both sides release their ids.
Code given_up() {
  End a;
  WEFT_DONE(a.open(kUdp));
  WEFT_GIVE(from, a.queue_pair());
  WEFT_GIVE(to, a.queue_pair());
  Result<Listener> listener = Listener::listen("127.0.0.1:0");
  if (!listener) return listener.error().code;
  std::snprintf(address, sizeof address, "127.0.0.1:%u", listener->port());
  Result<Connector> asks = Connector::start(address, from, kOptions);
  if (!asks) return asks.error().code;
  Code code = Code::would_block;
  Patience patience;
  while (code == Code::would_block && !patience.spent()) {
    const Result<Connection> moved = asks->advance();
    if (!moved && moved.error().code != Code::would_block) return moved.error().code;
    const Result<Connector> accepted = listener->try_accept(to, kOptions);
    code = accepted ? Code::ok : accepted.error().code;
  }
  return code;
}

struct Managed {
  Code open(std::string_view spec, CmService service = CmService::connections) {
    WEFT_DONE(server.open(spec));
    WEFT_DONE(client.open(spec));
    WEFT_GIVE(one, CmChannel::create(*server.device));
    WEFT_GIVE(other, CmChannel::create(*client.device));
    at_server = one, at_client = other;
    WEFT_GIVE(listening, at_server.create_id(service));
    listener = listening;
    WEFT_OK(listener.listen(0));
    WEFT_GIVE(asking, at_client.create_id(service));
    asks = asking;
    const Gid peer = server.device->attributes().gid;
    WEFT_OK(asks.resolve_address(address_of(peer, listener.port())));
    WEFT_DONE(expect_event(at_client, CmEventType::address_resolved));
    WEFT_OK(asks.resolve_route());
    WEFT_DONE(expect_event(at_client, CmEventType::route_resolved));
    if (service == CmService::datagrams) {
      WEFT_OK(asks.find_service(kWords));
      return expect_event(at_server, CmEventType::connect_request);
    }
    WEFT_GIVE(from, client.queue_pair());
    WEFT_OK(asks.connect(from, kParameters));
    return expect_event(at_server, CmEventType::connect_request);
  }
  // The next event of a channel. An end that was not requested, on either side, is a shortage.
  Code expect_event(const CmChannel& channel, CmEventType wanted) {
    const bool here = &channel == &at_server;
    Patience patience;
    while (!patience.spent()) {
      if (!waiting[0]) waiting[0] = at_client.next();
      if (!waiting[1]) waiting[1] = at_server.next();
      std::optional<CmEvent>& event = waiting[here];
      if (event && event->type == wanted) {
        asker = event->id;
        event.reset();
        return Code::ok;
      }
      if (event) return event->type >= CmEventType::rejected ? Code::no_memory : Code::io_error;
      const std::optional<CmEvent>& other = waiting[!here];
      if (other && other->type >= CmEventType::rejected && other->type != wanted)
        return Code::no_memory;
    }
    return Code::timed_out;
  }
  End server, client;
  CmChannel at_server, at_client;
  CmId listener, asks, asker;
  std::optional<CmEvent> waiting[2];
};

Code accepted() {
  Managed m;
  WEFT_DONE(m.open(kUdp));
  const CmId request = m.asker;
  WEFT_GIVE(to, m.server.queue_pair());
  WEFT_OK(request.accept(to, kParameters));
  WEFT_DONE(m.expect_event(m.at_client, CmEventType::established));
  WEFT_DONE(m.expect_event(m.at_server, CmEventType::established));
  const Sge out = m.client.region.sge(0, 64), in = m.server.region.sge(0, 64);
  WEFT_POST(to.post_recv({.sges = {&in, 1}}));
  WEFT_POST(m.asks.qp().post_send({.sges = {&out, 1}}));
  WEFT_DONE(wait(m.client, m.server, 1, 1));
  WEFT_OK(m.asks.disconnect());
  WEFT_DONE(m.expect_event(m.at_server, CmEventType::disconnected));
  return m.expect_event(m.at_client, CmEventType::disconnected);
}

Code refused() {
  Managed m;
  WEFT_DONE(m.open(kUdp));
  WEFT_OK(m.asker.reject(kWords));
  return m.expect_event(m.at_client, CmEventType::rejected);
}

// Asked, and everything ends with the question open.
Code abandoned() {
  Managed m;
  return m.open(kUdp);
}

// The same of a service of datagrams.
Code served() {
  Managed m;
  WEFT_DONE(m.open(kUdp, CmService::datagrams));
  WEFT_GIVE(serves, m.server.queue_pair({.type = QpType::ud}));
  WEFT_OK(serves.modify(
      {.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .qkey = kCmQkey}));
  WEFT_OK(serves.modify({.state = QpState::rtr}));
  WEFT_OK(m.asker.accept(serves, kParameters));
  return m.expect_event(m.at_client, CmEventType::established);
}
Code not_served() {
  Managed m;
  WEFT_DONE(m.open(kUdp, CmService::datagrams));
  WEFT_OK(m.asker.reject(kWords));
  return m.expect_event(m.at_client, CmEventType::rejected);
}
Code unanswered() {
  Managed m;
  return m.open(kUdp, CmService::datagrams);
}

Code exchanges_srd(std::string_view spec) {
  End a, b;
  WEFT_DONE(a.open(spec));
  WEFT_DONE(b.open(spec));
  WEFT_GIVE(from, a.queue_pair({.type = QpType::srd}));
  WEFT_GIVE(to, b.queue_pair({.type = QpType::srd}));
  for (const QueuePair& qp : {from, to})
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      if (state == QpState::init) change.access = Access::all;
      WEFT_OK(qp.modify(change));
    }
  const AddressHandle handle = a.pd->address_handle({.destination = b.device->attributes().gid});
  const Sge in = b.region.sge(16384, 8192);
  WEFT_POST(to.post_recv({.sges = {&in, 1}}));
  uint32_t sends = 0;
  for (const Opcode opcode : {Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add}) {
    const Sge out = a.region.sge(0, opcode == Opcode::fetch_add ? 8 : 5000);
    WEFT_POST(from.post_send({.opcode = opcode,
                              .sges = {&out, 1},
                              .remote_address = b.address(8192),
                              .rkey = b.region.rkey(),
                              .to = &handle,
                              .remote_qpn = to.number()}));
    ++sends;
  }
  WEFT_DONE(wait(a, b, sends, 1));
  (void)a.device->paths(b.device->attributes().gid, to.number());
  return Code::ok;
}
Code srd_udp() { return exchanges_srd("srd+udp:lo,single_thread=1,paths=4"); }
Code srd_shm() { return exchanges_srd(shm("srd+shm:nomem%d,single_thread=1")); }
Code srd_credits() { return exchanges_srd("srd+udp:lo,single_thread=1,cc=nscc+rccc"); }

WEFT_RUN_OUT(over_tcp)
WEFT_RUN_OUT(given_up)
WEFT_RUN_OUT(accepted)
WEFT_RUN_OUT(refused)
WEFT_RUN_OUT(abandoned)
WEFT_RUN_OUT(served)
WEFT_RUN_OUT(not_served)
WEFT_RUN_OUT(unanswered)
WEFT_RUN_OUT(srd_udp)
WEFT_RUN_OUT(srd_shm)
WEFT_RUN_OUT(srd_credits)

}  // namespace
}  // namespace weft::test
