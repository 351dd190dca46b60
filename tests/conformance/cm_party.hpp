// SPDX-License-Identifier: BSD-3-Clause
// One side of a connection of the connection manager: a device and its channel.
#pragma once

#include "tests/conformance/fixture.hpp"
#include "tests/support/free_end.hpp"
#include "weft/cm.hpp"

namespace weft::test {

inline constexpr Duration kCmSoon = Duration::from_s(10);

// One side: a device and its channel.
struct CmParty {
  explicit CmParty(const std::string& spec) : device(*open_free_end(spec)) {}
  Device device;
  CompletionQueue cq = *device.completion_queue({.capacity = 64});
  ProtectionDomain pd = *device.protection_domain();
  CmChannel channel = *CmChannel::create(device);

  QueuePair queue_pair(QpType type = QpType::rc) const {
    QueuePairOptions options{.type = type, .send_cq = cq, .recv_cq = cq};
    if (type == QpType::xrc_target) options.xrc_domain = *device.xrc_domain();
    return *pd.queue_pair(options);
  }
  CmEvent expect(CmEventType type) const { return expect(channel, type); }
  static CmEvent expect(const CmChannel& channel, CmEventType type) {
    std::optional<CmEvent> event = channel.wait(kCmSoon);
    REQUIRE(event);
    INFO("got " << name(event->type) << (event->error ? ": " + event->error->message : ""));
    REQUIRE(event->type == type);
    return std::move(*event);
  }
  CmId way_to(const CmParty& other, uint16_t port, CmService service = CmService::connections,
              uint16_t own_port = 0) const {
    const CmId id = *channel.create_id(service);
    if (own_port != 0) REQUIRE(id.bind(own_port));
    const Gid gid = other.device.attributes().gid;
    const std::string host = to_string(gid);
    const bool v6 = host.find(':') != std::string::npos;
    REQUIRE(id.resolve_address((v6 ? "[" + host + "]" : host) + ":" + std::to_string(port)));
    REQUIRE(expect(CmEventType::address_resolved).id == id);
    REQUIRE(id.resolve_route());
    REQUIRE(expect(CmEventType::route_resolved).id == id);
    return id;
  }
};

}  // namespace weft::test
