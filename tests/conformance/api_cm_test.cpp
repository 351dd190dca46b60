// SPDX-License-Identifier: BSD-3-Clause
// The connection manager through the public API: two devices on sockets or shared memory, events,
// private data, rejection, disconnection; and that closed connections release all resources.
#include <poll.h>

#include <chrono>
#include <cstdio>

#include "tests/conformance/cm_party.hpp"
#include "tests/support/scale.hpp"
#include "weft/cm.hpp"

namespace weft::test {
namespace {

std::vector<std::byte> text(std::string_view words) {
  const auto* const data = reinterpret_cast<const std::byte*>(words.data());
  return {data, data + words.size()};
}

bool begins_with(const std::vector<std::byte>& all, std::string_view words) {
  const std::vector<std::byte> wanted = text(words);
  return all.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), all.begin());
}

void must(const Result<void>& done) {
  if (!done) FAIL(done.error().message);
}

using Party = CmParty;

struct Parties {
  explicit Parties(Wire wire) : spec(device_string(wire)), server(spec), client(spec) {
    listener = *server.channel.create_id();
    REQUIRE(listener.listen(0));
  }
  // A connection between new queue pairs.
  struct Both {
    CmId server, client;
  };
  Both join(QpType type = QpType::rc) {
    Both both;
    both.client = client.way_to(server, listener.port());
    REQUIRE(both.client.connect(client.queue_pair(type), {.private_data = text("may I")}));
    CmEvent asked = server.expect(CmEventType::connect_request);
    REQUIRE(asked.listener == listener);
    REQUIRE(begins_with(asked.peer.private_data, "may I"));
    both.server = asked.id;
    must(both.server.accept(server.queue_pair(type), {.private_data = text("you may")}));
    CmEvent done = client.expect(CmEventType::established);
    REQUIRE(done.id == both.client);
    REQUIRE(begins_with(done.peer.private_data, "you may"));
    REQUIRE(server.expect(CmEventType::established).id == both.server);
    return both;
  }

  std::string spec;
  Party server, client;
  CmId listener;
};

void connect_and_talk(Wire wire) {
  Parties p(wire);
  const Parties::Both both = p.join();
  CHECK(both.server.peer_gid() == p.client.device.attributes().gid);
  const bool iwarp = p.client.device.attributes().only_by_cm;  // no queue pair numbers, no PSNs
  if (!iwarp) {
    CHECK(both.client.peer_qpn() == both.server.qp().number());
    CHECK(both.server.peer_qpn() == both.client.qp().number());
  }
  CHECK(both.client.path_mtu() == both.server.path_mtu());
  CHECK(both.server.peer_port() == both.client.port());
  for (const CmId& id : {both.server, both.client}) CHECK(id.qp().state() == QpState::rts);
  if (!iwarp) {
    CHECK(both.client.qp().query().sq_psn == both.server.qp().query().rq_psn);
    CHECK(both.server.qp().query().sq_psn == both.client.qp().query().rq_psn);
  }

  uint64_t out = 0x1122334455667788, in = 0;
  const MemoryRegion from = *p.client.pd.register_memory(&out, sizeof out, Access::all);
  const MemoryRegion to = *p.server.pd.register_memory(&in, sizeof in, Access::all);
  const Sge receive = to.sge(0, 8), send = from.sge(0, 8);
  REQUIRE(both.server.qp().post_recv({.id = 5, .sges = {&receive, 1}}));
  REQUIRE(both.client.qp().post_send({.id = 6, .sges = {&send, 1}}));
  Completion done;
  REQUIRE(p.server.cq.wait({&done, 1}, kCmSoon) == 1);
  CHECK(done.status == Status::success);
  CHECK(in == out);

  REQUIRE(both.client.disconnect());
  CHECK(p.server.expect(CmEventType::disconnected).id == both.server);
  CHECK(p.client.expect(CmEventType::disconnected).id == both.client);
  for (const CmId& id : {both.server, both.client}) CHECK(id.qp().state() == QpState::err);
  CHECK(both.client.disconnect());  // over already
}
WEFT_ON_EACH_PORT(connect_and_talk, "asked, accepted, used, ended (C-CM-106)")
WEFT_ON_LOSSY_PORTS(connect_and_talk, "asked, accepted, used, ended (C-CM-106)")

void unreliable_connection(Wire wire) {
  Parties p(wire);
  const Parties::Both both = p.join(QpType::uc);
  CHECK(both.server.qp().state() == QpState::rts);
  CHECK(both.client.qp().type() == QpType::uc);
}
WEFT_ON_OUR_PORTS(unreliable_connection, "UC queue pairs are connected too")

void refusals(Wire wire) {
  Parties p(wire);
  const CmId unserved = p.client.way_to(p.server, static_cast<uint16_t>(p.listener.port() ^ 1));
  const bool iwarp = p.client.device.attributes().only_by_cm;  // TCP knows it at once
  const Result<void> asked = unserved.connect(p.client.queue_pair());
  if (iwarp) {
    CHECK(asked.error().code == Code::disconnected);
    CHECK(asked.error().message.find("no listener") != std::string::npos);
    return;
  }
  must(asked);
  CmEvent event = p.client.expect(CmEventType::rejected);
  CHECK(event.reason == kCmNoListener);
  CHECK(event.error->message.find("no listener") != std::string::npos);

  const CmId id = p.client.way_to(p.server, p.listener.port());
  CHECK(id.connect(p.client.queue_pair(), {.private_data = std::vector<std::byte>(57)})
            .error()
            .code == Code::invalid_argument);
  REQUIRE(id.connect(p.client.queue_pair()));
  REQUIRE(p.server.expect(CmEventType::connect_request).id.reject(text("not today")));
  event = p.client.expect(CmEventType::rejected);
  CHECK(event.reason == kCmConsumer);
  CHECK(begins_with(event.peer.private_data, "not today"));
  CHECK(event.peer.private_data.size() == 148);

  // Letting go of a request is refusing it.
  const CmId again = p.client.way_to(p.server, p.listener.port());
  REQUIRE(again.connect(p.client.queue_pair()));
  (void)p.server.expect(CmEventType::connect_request);
  CHECK(p.client.expect(CmEventType::rejected).reason == kCmConsumer);
  // And letting go of a connection is ending it.
  Parties::Both both = p.join();
  both.client = {};
  CHECK(p.server.expect(CmEventType::disconnected).id == both.server);
  // And letting go of a listener is listening no more: its port is free.
  const uint16_t port = p.listener.port();
  p.listener = {};
  const CmId late = p.client.way_to(p.server, port);
  REQUIRE(late.connect(p.client.queue_pair()));
  CHECK(p.client.expect(CmEventType::rejected).reason == kCmNoListener);
  CHECK(p.server.channel.create_id()->listen(port));
}
WEFT_ON_EACH_PORT(refusals,
                  "a rejection carries its reason, also when the id is destroyed (C-CM-106)")

// Datagrams: the server's queue pair is found, and what is sent there arrives.
void find_and_send(Wire wire) {
  Parties p(wire);
  if (!p.client.device.attributes().has_ud) return;
  const CmId service = *p.server.channel.create_id(CmService::datagrams);
  REQUIRE(service.listen(p.listener.port()));  // ports of its own
  const QueuePair server = p.server.queue_pair(QpType::ud),
                  client = p.client.queue_pair(QpType::ud);
  for (const QueuePair& qp : {server, client}) {
    REQUIRE(qp.modify(
        {.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}, .qkey = kCmQkey}));
    REQUIRE(qp.modify({.state = QpState::rtr}));
    REQUIRE(qp.modify({.state = QpState::rts, .sq_psn = Psn{0}}));
  }
  const CmId id = p.client.way_to(p.server, service.port(), CmService::datagrams);
  REQUIRE(id.find_service(text("who")));
  const CmEvent asked = p.server.expect(CmEventType::connect_request);
  CHECK(asked.listener == service);
  CHECK(begins_with(asked.peer.private_data, "who"));
  CHECK(asked.id.peer_port() == id.port());
  CHECK(asked.id.accept(p.server.queue_pair(QpType::ud)).error().code == Code::bad_state);
  CHECK(asked.id.accept(p.server.queue_pair()).error().code == Code::invalid_argument);
  if (wire == Wire::ibverbs) {  // the kernel would tell the client another key
    REQUIRE(server.modify({.qkey = kCmQkey + 1}));
    CHECK(asked.id.accept(server).error().code == Code::not_supported);
    REQUIRE(server.modify({.qkey = kCmQkey}));
  }
  REQUIRE(asked.id.accept(server, {.private_data = text("me")}));
  const CmEvent found = p.client.expect(CmEventType::established);
  CHECK(begins_with(found.peer.private_data, "me"));
  REQUIRE(found.service);
  CHECK(found.service->qpn == server.number());
  CHECK(found.service->qkey == kCmQkey);
  CHECK(found.service->path.destination == p.server.device.attributes().gid);

  std::vector<std::byte> in(kNetworkHeaderLength + 8), out = text("datagram");
  const MemoryRegion from = *p.client.pd.register_memory(out.data(), out.size(), Access::all);
  const MemoryRegion to = *p.server.pd.register_memory(in.data(), in.size(), Access::all);
  const Sge receive = to.sge(0, static_cast<uint32_t>(in.size())), send = from.sge(0, 8);
  REQUIRE(server.post_recv({.sges = {&receive, 1}}));
  const AddressHandle way(found.service->path);
  REQUIRE(client.post_send({.sges = {&send, 1},
                            .to = &way,
                            .remote_qpn = found.service->qpn,
                            .remote_qkey = found.service->qkey}));
  Completion done;
  REQUIRE(p.server.cq.wait({&done, 1}, kCmSoon) == 1);
  CHECK(done.status == Status::success);
  CHECK(std::equal(out.begin(), out.end(), in.begin() + kNetworkHeaderLength));
}
WEFT_ON_EACH_PORT(find_and_send, "a service of datagrams is found (SIDR, C-CM-106)")

void no_service(Wire wire) {
  Parties p(wire);
  if (!p.client.device.attributes().has_ud) {
    CHECK(p.client.channel.create_id(CmService::datagrams).error().code == Code::not_supported);
    return;
  }
  // A port of connections is none of datagrams.
  const CmId unserved = p.client.way_to(p.server, p.listener.port(), CmService::datagrams);
  REQUIRE(unserved.find_service());
  CmEvent event = p.client.expect(CmEventType::rejected);
  CHECK(event.reason == kCmNoListener);
  const CmId service = *p.server.channel.create_id(CmService::datagrams);
  REQUIRE(service.listen(0));
  const CmId id = p.client.way_to(p.server, service.port(), CmService::datagrams);
  CHECK(id.connect(p.client.queue_pair()).error().code == Code::bad_state);
  CHECK(id.find_service(std::vector<std::byte>(181)).error().code == Code::invalid_argument);
  REQUIRE(id.find_service());
  const CmEvent asked = p.server.expect(CmEventType::connect_request);
  REQUIRE(asked.id.reject(text("no")));
  event = p.client.expect(CmEventType::rejected);
  CHECK(event.reason == kCmConsumer);
  CHECK(p.client.way_to(p.server, 1).find_service().error().code == Code::bad_state);
}
WEFT_ON_EACH_PORT(no_service, "a port without datagram service rejects (SIDR, C-CM-106)")

TEST_CASE("calls that do not fit say what to do") {
  Parties p(Wire::udp);
  const CmId id = *p.client.channel.create_id();
  CHECK(CmId().listen(1).error().code == Code::bad_state);
  CHECK(id.connect(p.client.queue_pair()).error().code == Code::bad_state);
  CHECK(id.resolve_address("nowhere").error().code == Code::invalid_argument);
  CHECK(id.resolve_address("[fd00::1]:5").error().code == Code::not_found);
  CHECK(id.accept(p.client.queue_pair()).error().code == Code::bad_state);
  CHECK(id.reject().error().code == Code::bad_state);
  CHECK(id.disconnect().error().code == Code::bad_state);
  const CmId second = *p.server.channel.create_id();
  CHECK(second.listen(p.listener.port()).error().code == Code::address_in_use);
  const CmId way = p.client.way_to(p.server, p.listener.port());
  CHECK(way.connect(p.client.queue_pair(QpType::ud)).error().code == Code::invalid_argument);
  CHECK(way.connect(p.server.queue_pair()).error().code == Code::invalid_argument);
  CHECK(way.connect(p.client.queue_pair(), {.path_mtu = 1000}).error().code ==
        Code::invalid_argument);
  const Device srd = *Device::open("srd+udp:lo");
  CHECK(CmChannel::create(srd).error().code == Code::not_supported);
}

void descriptor(Wire wire) {
  Parties p(wire);
  pollfd fd{p.server.channel.fd(), POLLIN, 0};
  CHECK(poll(&fd, 1, 0) == 0);
  const CmId id = p.client.way_to(p.server, p.listener.port());
  REQUIRE(id.connect(p.client.queue_pair()));
  REQUIRE(poll(&fd, 1, 10'000) == 1);  // only the progress thread makes progress
  CmEvent asked = p.server.expect(CmEventType::connect_request);
  CHECK_FALSE(p.server.channel.next());
  CHECK(poll(&fd, 1, 0) == 0);
}
WEFT_ON_IBVERBS(descriptor, "the descriptor says when there is an event, and not else")
WEFT_ON_WIRE(descriptor, "the descriptor says when there is an event, and not else", udp)

void released(Wire wire) {
  Parties p(wire);
  if (p.client.device.attributes().only_by_cm) return;  // siw waits for its own 10 s, twice
  { const CmId id = *p.client.channel.create_id(); }
  {  // event not taken
    const std::string own = to_string(p.client.device.attributes().gid);
    (void)p.client.channel.create_id()->resolve_address(own + ":1");
  }
  CHECK_FALSE(p.client.channel.next());
  for (const bool taken : {false, true}) {
    CmId id = p.client.way_to(p.server, p.listener.port());
    REQUIRE(id.connect(p.client.queue_pair()));
    if (taken) (void)p.server.expect(CmEventType::connect_request);
    id = {};
    CHECK_FALSE(p.client.channel.wait(Duration::from_ms(5)));
  }
  // A reply that is not taken, and a channel destroyed with events and ids.
  const CmId asking = p.client.way_to(p.server, p.listener.port());
  REQUIRE(asking.connect(p.client.queue_pair()));
  CmEvent asked = p.server.expect(CmEventType::connect_request);
  Result<void> accepted = asked.id.accept(p.server.queue_pair());
  // The kernel also reports requests of clients that ended before they were taken.
  for (int stale = 0; wire == Wire::ibverbs && !accepted && stale < 6; ++stale) {
    CHECK(accepted.error().code == Code::bad_state);
    std::optional<CmEvent> next = p.server.channel.wait(kCmSoon);
    REQUIRE(next);
    if (next->type != CmEventType::connect_request) continue;
    asked = std::move(*next);
    accepted = asked.id.accept(p.server.queue_pair());
  }
  REQUIRE(accepted);
  p.server.channel = {};
  p.client.channel = {};
}
WEFT_ON_IBVERBS(released, "an id that is released in any state leaves nothing behind")
WEFT_ON_WIRE(released, "an id that is released in any state leaves nothing behind", udp)

void come_and_go(Wire wire) {
  Parties p(wire);
  const uint64_t count = wire == Wire::ibverbs ? 100 : scaled(1000);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < count; ++i) {
    const Parties::Both both = p.join();
    REQUIRE(both.client.disconnect());
    (void)p.server.expect(CmEventType::disconnected);
    (void)p.client.expect(CmEventType::disconnected);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f connections a second, one after the other\n",
              static_cast<double>(count) / spent.count());
  CHECK_FALSE(p.server.channel.next());
  CHECK_FALSE(p.client.channel.next());
}
WEFT_ON_IBVERBS(come_and_go, "connections come and go, and nothing is left (C-CM-107)")
WEFT_ON_WIRE(come_and_go, "connections come and go, and nothing is left (C-CM-107)", udp)

// Parameters that the kernel decides are refused on ibverbs.
void decided_by_the_kernel(Wire wire) {
  Parties p(wire);
  const CmId way = p.client.way_to(p.server, p.listener.port());
  CHECK(way.connect(p.client.queue_pair(), {.rq_psn = Psn{5}}).error().code == Code::not_supported);
  const uint32_t other = p.client.device.attributes().active_mtu / 2;
  const Result<void> said = way.connect(p.client.queue_pair(), {.path_mtu = other});
  CHECK(said.error().message.find("leave it 0") != std::string::npos);
  if (p.client.device.attributes().has_uc)
    CHECK(way.connect(p.client.queue_pair(QpType::uc)).error().code == Code::not_supported);
  CHECK(way.accept(p.client.queue_pair()).error().code == Code::bad_state);
  CHECK(way.disconnect().error().code == Code::bad_state);
  const CmId second = *p.server.channel.create_id();
  CHECK(second.listen(p.listener.port()).error().code == Code::address_in_use);
}
WEFT_ON_IBVERBS(decided_by_the_kernel, "calls that do not fit say what to do")

TEST_CASE("an address without a host is unreachable, within seconds (C-CM-107)") {
  Party client(device_string(Wire::udp));
  const CmId id = *client.channel.create_id();
  REQUIRE(id.resolve_address("127.250.0.1:7174"));
  (void)client.expect(CmEventType::address_resolved);
  REQUIRE(id.resolve_route());
  (void)client.expect(CmEventType::route_resolved);
  REQUIRE(id.connect(client.queue_pair()));
  const CmEvent event = client.expect(CmEventType::unreachable);
  CHECK(event.error->code == Code::timed_out);
}

}  // namespace
}  // namespace weft::test
