// SPDX-License-Identifier: BSD-3-Clause
// The channel: events of librdmacm, copied, acknowledged and dispatched to their id. See
// cm_channel.hpp.
#include "providers/ibverbs/cm/cm_channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

constexpr const char* kDeviceFile = "/dev/infiniband/rdma_cm";

// What librdmacm says is not always the file's error.
Error no_channel(int error) {
  const bool usable = faccessat(AT_FDCWD, kDeviceFile, R_OK | W_OK, AT_EACCESS) == 0;
  const int access = usable ? 0 : errno;
  if (access == EACCES)
    return {Code::permission_denied, std::string("no right to open ") + kDeviceFile +
                                         ": run as root, or let the user read and write that file"};
  if (access == ENOENT || error == ENODEV || error == ENXIO)
    return {Code::not_found, std::string("the kernel's connection manager is not there: no ") +
                                 kDeviceFile +
                                 "; load it (modprobe rdma_ucm), and in a container pass "
                                 "/dev/infiniband into it"};
  return error_of(error, "no connection manager");
}

std::vector<std::byte> copy_of(const void* data, uint8_t length) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  return bytes != nullptr ? std::vector<std::byte>(bytes, bytes + length)
                          : std::vector<std::byte>();
}

ReceivedEvent copy_of(const rdma_cm_event& event, CmService service) {
  ReceivedEvent received;
  received.type = event.event;
  received.status = event.status;
  if (service == CmService::datagrams) {
    const rdma_ud_param& ud = event.param.ud;
    received.peer.private_data = copy_of(ud.private_data, ud.private_data_len);
    received.service.path.destination = from_verbs(ud.ah_attr.grh.dgid);
    received.service.path.traffic_class = ud.ah_attr.grh.traffic_class;
    received.service.qpn = QpNum{ud.qp_num};
    received.service.qkey = ud.qkey;
    return received;
  }
  const rdma_conn_param& conn = event.param.conn;
  received.peer.private_data = copy_of(conn.private_data, conn.private_data_len);
  received.peer.responder_resources = conn.responder_resources;
  received.peer.initiator_depth = conn.initiator_depth;
  received.peer.rnr_retry = std::min<uint8_t>(conn.rnr_retry_count, 7);
  received.peer.retry_count = std::min<uint8_t>(conn.retry_count, 7);
  received.qpn = QpNum{conn.qp_num};
  return received;
}

}  // namespace

Result<std::shared_ptr<verbs::CmChannel>> CmChannel::create(const Device& device,
                                                            const Context& context,
                                                            const std::string& library) {
  const Result<const CmLibrary*> loaded = load_rdmacm(library);
  if (!loaded) return loaded.error();
  rdma_event_channel* const channel = (*loaded)->create_event_channel();
  if (channel == nullptr) return no_channel(errno);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  base::Undo undo([&] { (*loaded)->destroy_event_channel(channel); });
  std::shared_ptr<verbs::CmChannel> made =
      std::make_shared<CmChannel>(device, context, **loaded, channel);
  undo.forget();
  return made;
}

CmChannel::CmChannel(const Device& device, const Context& context, const CmLibrary& library,
                     rdma_event_channel* channel)
    : device_(device), context_(context), library_(library), channel_(channel) {}

// All ids are destroyed; the kernel refuses pending connection requests.
CmChannel::~CmChannel() {
  if (!context_.forked()) library_.destroy_event_channel(channel_);
}

Result<std::shared_ptr<verbs::CmId>> CmChannel::create_id(CmService service) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  if (service == CmService::datagrams && !context_.attributes().has_ud)
    return Error{Code::not_supported, "device " + context_.attributes().port +
                                          " has no datagrams (DeviceAttributes::has_ud)"};
  rdma_cm_id* id = nullptr;
  const rdma_port_space space = service == CmService::datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (library_.create_id(channel_, &id, nullptr, space) != 0)
    return error_of(errno, "no connection id");
  return std::shared_ptr<verbs::CmId>(own(service, id));
}

// Destroys `id` if its owner cannot be allocated.
std::shared_ptr<CmId> CmChannel::own(CmService service, rdma_cm_id* id) {
  base::Undo undo([&] { library_.destroy_id(id); });
  std::shared_ptr<CmId> made = std::make_shared<CmId>(shared_from_this(), service, id);
  undo.forget();
  return made;
}

namespace {

// An id that an event is about. Its destructor waits in rdma_destroy_id() for the event to be
// acknowledged, so that it is there, if only as a ruin.
std::shared_ptr<CmId> owner_of(const rdma_cm_id* id) {
  auto* const owner = id != nullptr ? static_cast<CmId*>(id->context) : nullptr;
  return owner != nullptr ? owner->weak_from_this().lock() : nullptr;
}

}  // namespace

// Always acknowledges the event, before an id of it is destroyed.
std::optional<CmEvent> CmChannel::process(rdma_cm_event& event) {
  const bool request = event.event == RDMA_CM_EVENT_CONNECT_REQUEST;
  const std::shared_ptr<CmId> listener = request ? owner_of(event.listen_id) : nullptr;
  std::shared_ptr<CmId> id = request ? nullptr : owner_of(event.id);
  const CmService service =
      event.id->ps == RDMA_PS_UDP ? CmService::datagrams : CmService::connections;
  rdma_cm_id* const requester_id = request ? event.id : nullptr;
  ReceivedEvent received;
  const bool copied = base::memory_permitting([&] { received = copy_of(event, service); });
  received.type = event.event;
  library_.ack_cm_event(&event);
  if (requester_id != nullptr && !copied) return library_.destroy_id(requester_id), std::nullopt;
  if (requester_id != nullptr) id = own(service, requester_id);
  if (id == nullptr || (request && listener == nullptr)) return std::nullopt;  // released
  if (request) id->on_request(received);
  std::optional<CmEvent> reported;
  if (!copied || !base::memory_permitting([&] { reported = id->on_event(received); }))
    reported = id->abort_connection();
  if (reported && request) reported->listener = weft::CmId(listener);
  return reported;
}

std::optional<CmEvent> CmChannel::next() {
  const std::lock_guard lock(order_mutex_);
  rdma_cm_event* event = nullptr;
  while (!context_.forked() && library_.get_cm_event(channel_, &event) == 0)
    if (std::optional<CmEvent> reported = process(*event)) return reported;
  return std::nullopt;
}

std::optional<CmEvent> CmChannel::wait(Duration limit) {
  const Instant begin = context_.now();
  for (;;) {
    if (std::optional<CmEvent> event = next()) return event;
    const Duration spent = context_.now() - begin;
    if (context_.forked() || spent >= limit) return std::nullopt;
    pollfd p{channel_->fd, POLLIN, 0};
    (void)poll(&p, 1, static_cast<int>(std::clamp<int64_t>((limit - spent).ms() + 1, 1, 1000)));
  }
}

}  // namespace weft::ibverbs
