// SPDX-License-Identifier: BSD-3-Clause
// The objects behind the pointers of rdma_cma.h: each holds the public structure first and what
// this library keeps beside it, so that a pointer that it gave out is cast back.
//
// Threads: a Channel's `turn` is held while its events are collected, and while ids enter or leave
// it. An Id is used by one thread at a time, as rdma_cma.h demands, and by the collecting thread.
#pragma once

#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/adapters/verbs/rdmacm/contexts.hpp"
#include "weft/cm.hpp"

namespace weft::rdmacm {

struct Id;

struct Event {
  rdma_cm_event event{};
  Id* counted_at = nullptr;  // whose destruction waits for the acknowledgement
  std::vector<std::byte> private_data;
};

struct Channel {
  rdma_event_channel channel{.fd = -1};  // an epoll descriptor over `ready` and those of `devices`
  int ready = -1;                        // eventfd: readable while `queue` is not empty
  std::mutex turn;                       // of all below
  std::deque<std::unique_ptr<Event>> queue;
  struct OfDevice {
    Context* context;
    CmChannel channel;
  };
  std::vector<OfDevice> devices;
  std::unordered_map<const void*, Id*> ids;  // by CmId::impl()
};

// A multicast group that an id has joined.
struct Membership {
  Gid group;
  bool attached = false;  // the id's queue pair is
};

struct Id {
  rdma_cm_id id{};
  bool synchronous = false;      // the channel is its own, and calls wait for their event
  bool resolves_itself = false;  // the destination is no service: no call of `cm` resolves it
  bool ended = false;            // its last event was collected
  Context* context = nullptr;    // of id.verbs; null: no device yet
  // The id of weft on its device; of a listener on every address: one for each device.
  struct OnDevice {
    Context* context;
    CmId cm;
  };
  std::vector<OnDevice> devices;
  // From rdma_bind_addr() to rdma_listen(): the ids that will listen, which do already, and the
  // requests that came to them.
  struct Early {
    std::vector<OnDevice> devices;
    std::vector<std::pair<Context*, CmEvent>> requests;
  } early;
  uint8_t tos = 0;
  std::optional<uint8_t> ack_timeout;
  bool reuses_address = false;
  Gid destination;
  uint8_t responder_resources = RDMA_MAX_RESP_RES;  // of rdma_connect(): as asked for
  uint8_t initiator_depth = RDMA_MAX_INIT_DEPTH;
  std::optional<uint8_t> rnr_retries;  // likewise: those of the peer, for our receives
  std::vector<Membership> groups;
  ibv_sa_path_rec path{};
  // rdma_create_ep(): of the queue pairs of requests, and private data of rdma_connect().
  std::optional<ibv_qp_init_attr> request_qp;
  std::vector<std::byte> connect_data;

  std::mutex lock;  // of all below
  std::condition_variable acknowledged;
  uint32_t events_reported = 0, events_completed = 0;
};

inline Channel& of(rdma_event_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
inline Id& of(rdma_cm_id* id) { return *reinterpret_cast<Id*>(id); }
inline Event& of(rdma_cm_event* event) { return *reinterpret_cast<Event*>(event); }
inline Channel& channel_of(Id& id) { return of(id.id.channel); }
// The id is of a device and does not listen on others.
inline const CmId& cm_of(const Id& id) { return id.devices.front().cm; }
inline bool is_xrc_type(ibv_qp_type type) {
  return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}
inline bool is_of_datagrams(const Id& id) { return id.id.qp_type == IBV_QPT_UD; }

}  // namespace weft::rdmacm
