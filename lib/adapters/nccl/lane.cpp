// SPDX-License-Identifier: BSD-3-Clause
// See lane.hpp.
#include "lib/adapters/nccl/lane.hpp"

#include <sys/random.h>

#include <algorithm>

namespace weft::nccl {
namespace {

// Retransmission of RC: 7 times after 134 ms, so that a peer without a processor for a moment is
// not given up. SRD has the device's own limit (patience_ms).
constexpr uint8_t kTimeout = 15, kRetries = 7, kRnrRetries = 7, kRnrTimer = 12;

Result<Lane> create_lane(const std::shared_ptr<OpenDevice>& device, const QueueSizes& sizes) {
  Lane lane{.device = device};
  const DeviceAttributes& a = device->device.attributes();
  Result<CompletionQueue> cq =
      device->device.completion_queue({.capacity = sizes.sends + sizes.receives + 16});
  if (!cq) return cq.error();
  lane.cq = std::move(*cq);
  Result<QueuePair> qp = device->domain.queue_pair({.type = a.qp_type,
                                                    .send_cq = lane.cq,
                                                    .recv_cq = lane.cq,
                                                    .max_send_wr = sizes.sends,
                                                    .max_recv_wr = sizes.receives,
                                                    .max_send_sge = 1,
                                                    .max_recv_sge = 1,
                                                    .max_inline = 0});
  if (!qp) return qp.error();
  lane.qp = std::move(*qp);
  const Result<uint64_t> number = random_number();
  if (!number) return number.error();
  lane.psn = {static_cast<uint32_t>(*number) & Psn::kMask};
  if (const Result<void> moved = lane.qp.modify({.state = QpState::init,
                                                 .pkey_index = uint16_t{0},
                                                 .port = uint8_t{1},
                                                 .access = Access::remote_write});
      !moved)
    return moved.error();
  return lane;
}

Result<void> connect_lane(Lane& lane, const LaneAddress& peer, uint8_t traffic_class) {
  if (lane.qp.state() == QpState::rts) return {};
  lane.peer = peer;
  const DeviceAttributes& a = lane.device->device.attributes();
  QueuePairAttributes rtr{.state = QpState::rtr};
  rtr.path = AddressVector{.destination = peer.gid, .traffic_class = traffic_class};
  rtr.path_mtu = std::min(a.active_mtu, peer.path_mtu);
  rtr.dest_qpn = peer.qpn;
  rtr.rq_psn = peer.psn;
  rtr.max_dest_rd_atomic = uint8_t{1};
  rtr.min_rnr_timer = kRnrTimer;
  if (const Result<void> moved = lane.qp.modify(rtr); !moved) return moved;
  QueuePairAttributes rts{.state = QpState::rts, .sq_psn = lane.psn};
  if (a.qp_type == QpType::rc) {
    rts.max_rd_atomic = uint8_t{1};
    rts.timeout = kTimeout;
    rts.retry_count = kRetries;
    rts.rnr_retry = kRnrRetries;
  }
  return lane.qp.modify(rts);
}

}  // namespace

bool Lane::is_from_peer(const Completion& received) {
  const Device& on = device->device;
  if (on.attributes().qp_type != QpType::srd) return true;
  if (received.source_qp != peer.qpn) return false;
  if (received.source_peer == peer_number) return true;
  const std::optional<Gid> address = on.peer_address(received.source_peer);
  if (address && *address != peer.gid) return false;
  peer_number = received.source_peer;
  return true;
}

Result<uint64_t> random_number() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) == static_cast<ssize_t>(sizeof value)) return value;
  return Error{Code::io_error, "getrandom() failed: there is no source of random numbers"};
}

Result<std::vector<Lane>> create_lanes(const NetDevice& device, const QueueSizes& sizes) {
  std::vector<Lane> lanes;
  for (const std::shared_ptr<OpenDevice>& each : device.devices) {
    Result<Lane> lane = create_lane(each, sizes);
    if (!lane) return Error{lane.error().code, device.name + ": " + lane.error().message};
    lanes.push_back(std::move(*lane));
  }
  return lanes;
}

Result<void> connect_lanes(std::vector<Lane>& lanes, const std::vector<LaneAddress>& peer,
                           uint8_t traffic_class) {
  if (lanes.size() > peer.size())
    lanes.erase(lanes.begin() + static_cast<ptrdiff_t>(peer.size()), lanes.end());
  for (size_t i = 0; i < lanes.size(); ++i)
    if (const Result<void> done = connect_lane(lanes[i], peer[i], traffic_class); !done)
      return done;
  return {};
}

std::vector<LaneAddress> addresses_of(const std::vector<Lane>& lanes) {
  std::vector<LaneAddress> addresses;
  for (const Lane& lane : lanes) {
    const DeviceAttributes& a = lane.device->device.attributes();
    addresses.push_back({a.gid, lane.qp.number(), lane.psn, a.active_mtu});
  }
  return addresses;
}

Result<void> top_up(Lane& lane) {
  while (lane.posted < lane.needed) {
    if (const PostStatus posted = lane.qp.post_recv(RecvRequest{}); !posted)
      return Error{posted.code, std::string("post_recv: ") + posted.reason};
    ++lane.posted;
  }
  return {};
}

}  // namespace weft::nccl
