// SPDX-License-Identifier: BSD-3-Clause
// What stand-ins for librdmacm's programs share: one device, one queue pair, one connection; and
// the end of the program with a message when something goes wrong.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "weft/weft.hpp"

namespace weft::interop {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(*result);
}
inline void must(Result<void> result) {
  if (!result) fail(result.error().message);
}

// An open device and its channel.
class CmEnd {
 public:
  explicit CmEnd(const char* spec) : device(must(Device::open(spec))) {}

  CmEvent expect(CmEventType type) const {
    std::optional<CmEvent> event = channel.wait(Duration::from_s(20));
    if (!event) fail("no event within 20 s, wanted " + std::string(name(type)));
    if (event->type != type)
      fail("event " + std::string(name(event->type)) +
           (event->error ? ": " + event->error->message : std::string()));
    return std::move(*event);
  }
  // Prints `listening` when it does.
  CmId listen(uint16_t port, CmService service = CmService::connections) const {
    const CmId listener = must(channel.create_id(service));
    must(listener.listen(port));
    std::printf("listening\n");
    std::fflush(stdout);
    return listener;
  }
  CmId way_to(const char* address, CmService service = CmService::connections) const {
    const CmId id = must(channel.create_id(service));
    must(id.resolve_address(address));
    (void)expect(CmEventType::address_resolved);
    must(id.resolve_route());
    (void)expect(CmEventType::route_resolved);
    return id;
  }

  Device device;
  CmChannel channel = must(CmChannel::create(device));
  CompletionQueue cq = must(device.completion_queue({.capacity = 64}));
  ProtectionDomain pd = must(device.protection_domain());
};

// With an RC queue pair, in INIT from the beginning, so that receives are there when the connection
// is.
class CmSide : public CmEnd {
 public:
  explicit CmSide(const char* spec) : CmEnd(spec) {
    must(qp.modify({.state = QpState::init,
                    .pkey_index = uint16_t{0},
                    .port = uint8_t{1},
                    .access = Access::all}));
  }

  // Waits for one client on a port.
  CmId await(uint16_t port) const {
    const CmId listener = listen(port);
    const CmEvent asked = expect(CmEventType::connect_request);
    must(asked.id.accept(qp, {.responder_resources = 1, .initiator_depth = 1}));
    (void)expect(CmEventType::established);
    return asked.id;
  }
  CmId dial(const char* address) const {
    const CmId id = way_to(address);
    must(id.connect(qp, {.responder_resources = 1, .initiator_depth = 1}));
    (void)expect(CmEventType::established);
    return id;
  }

  QueuePair qp = must(pd.queue_pair({.send_cq = cq, .recv_cq = cq}));
};

}  // namespace weft::interop
