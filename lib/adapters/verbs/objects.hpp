// SPDX-License-Identifier: BSD-3-Clause
// The objects behind the pointers of verbs.h: each holds the ibv_* structure first and the object
// of weft beside it. A pointer that this library gave out is the address of its first member, so it
// is cast back. The functions at the end are exported under WEFT_PRIVATE_1 for our librdmacm.so.1
// and libefa.so.1.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/adapters/verbs/kept.hpp"
#include "lib/base/check.hpp"
#include "weft/weft.hpp"

namespace weft::drop_in {

struct Context;
struct Mr;
struct Qp;
struct Srq;
struct Cq;
struct Xrcd;

// A device of the list (device_list.hpp): it lives as long as the process.
struct DeviceEntry {
  ibv_device device;
  // Libraries of other devices (libmlx5, libefa) read the fields of a struct verbs_device behind
  // the ibv_device to see whether it is theirs: all zero says no.
  unsigned char zero_verbs_device[256];
  std::string spec;   // the string for Device::open()
  uint64_t guid = 0;  // network byte order
  int index = 0;      // of the list

  // All below: under `lock`. The device is open while there is a context; all share it.
  mutable std::mutex lock;
  std::optional<Device> open_device;
  uint32_t fork = 0;               // forks between the first process and this one
  int users = 0;                   // contexts of this process that are not freed
  std::vector<Context*> contexts;  // those that are not closed
  // By queue pair number; more than one where ibv_open_qp() has opened an XRC target.
  std::unordered_multimap<uint32_t, Qp*> qps;
  std::unordered_map<uint32_t, Srq*> srqs;  // by SharedReceiveQueue::number()
  std::unordered_map<uint32_t, Cq*> cqs;    // by CompletionQueue::number()
  std::unordered_map<uint32_t, Mr*> mrs;    // by lkey
  std::vector<Xrcd*> xrcds;                 // those of files
};

// Counts what must be destroyed before an object can be (EBUSY). Any thread.
class Users {
 public:
  explicit Users(int count) : count_(count) {}
  int count() const noexcept { return count_.load(); }
  void add(int step) noexcept { WEFT_CHECK((count_ += step) >= 0); }
  // Returns how many are left.
  int remove() noexcept {
    const int left = --count_;
    WEFT_CHECK(left >= 0);
    return left;
  }

 private:
  std::atomic<int> count_;
};

// ibv_context: the last member of verbs_context, which is why there is context_of().
struct Context {
  verbs_context verbs;
  DeviceEntry* entry;
  Device device;
  uint32_t fork;                // of DeviceEntry, when it was opened: else it is a parent's
  uint8_t sl_of_datagrams = 0;  // ibv_wc::sl, see device/port.hpp
  uint16_t slid = 0;  // ibv_wc::slid; of SRD 0xFFFF: the sender has no address handle here
  int event_ready;    // eventfd: readable while `events` is not empty; async_fd watches it
  std::deque<ibv_async_event> events;  // under DeviceEntry::lock
  // 1 for the program until ibv_close_device, and 1 for each object: the last one frees it.
  Users references{0};
};
inline Context& context_of(ibv_context* context) {
  auto* bytes = reinterpret_cast<char*>(context);
  return *reinterpret_cast<Context*>(bytes - offsetof(verbs_context, context));
}

// Completion channel: `channel.fd` is an epoll descriptor over the descriptors of its queues.
struct Channel {
  ibv_comp_channel channel;
  std::mutex lock;  // of taking an event
};

struct Td {
  ibv_td td;
  Users users{0};
};

struct Pd {
  ibv_pd pd;
  ProtectionDomain domain;
  Pd* original = nullptr;  // of a parent domain: the domain whose rights it has
  Td* td = nullptr;
  Users users{0};
  Users windows{0};  // of these
};

struct Mr {
  ibv_mr mr;
  MemoryRegion region;
  unsigned access = 0;          // of ibv_reg_mr and ibv_rereg_mr
  bool is_changeable = false;   // by ibv_rereg_mr
  bool is_null = false;         // of ibv_alloc_null_mr
  struct Dm* memory = nullptr;  // of ibv_reg_dm_mr
};

// Memory of the device: of this process, reached by functions and regions only.
struct Dm {
  ibv_dm dm;
  std::byte* bytes;
  size_t size;
  Users users{0};  // regions
};

struct Mw {
  ibv_mw mw;
  MemoryWindow window;
};

// The device and inode of a file.
using FileId = std::pair<uint64_t, uint64_t>;

struct Xrcd {
  ibv_xrcd xrcd;
  XrcDomain domain;
  std::optional<FileId> file;  // empty: of none
  Users users{0};
};

struct Ah {
  ibv_ah ah;
  AddressHandle handle;
};

// Reads the sender of an SRD receive: to programs it is the struct efadv_cq of efadv.h.
struct SenderReader {
  uint64_t comp_mask = 0;
  int (*read_sgid)(SenderReader* self, ibv_gid* gid) = nullptr;
  bool (*is_unsolicited)(SenderReader* self) = nullptr;  // in newer headers
  Cq* cq = nullptr;
};

struct Cq {
  ibv_cq_ex cq;  // begins with the members of ibv_cq
  CompletionQueue queue;
  Context* context;
  uint32_t events_reported = 0;        // completion events taken: under Channel::lock
  uint32_t async_events_reported = 0;  // under DeviceEntry::lock
  Users users{0};                      // queue pairs, counted once for each role
  KeptCompletions kept;
  bool with_times = false;   // constant
  std::mutex extended_poll;  // from ibv_start_poll to ibv_end_poll: of all below
  Completion current{};
  Instant current_time{};
  size_t left_to_poll = 0;   // of the completions that were there at ibv_start_poll
  bool polls_again = false;  // there may have been more
  SenderReader sender{};     // constant
};

struct Srq {
  ibv_srq srq;
  SharedReceiveQueue queue;
  Context* context;
  ibv_srq_type type = IBV_SRQT_BASIC;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
  uint32_t async_events_reported = 0;  // under DeviceEntry::lock
  Users users{0};                      // queue pairs
};

struct PendingPosts;  // post_ex.cpp

struct Qp {
  ibv_qp_ex qp;  // begins with the members of ibv_qp
  // The next member of ibv_qp_ex in newer headers: ibv_wr_flush().
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type,
                   uint8_t level) = nullptr;
  QueuePair pair;
  Context* context;
  ibv_qp_init_attr init{};  // with the capacities that were granted
  ibv_ah_attr ah{};         // of the last ibv_modify_qp with IBV_QP_AV
  Xrcd* xrcd = nullptr;
  std::vector<Gid> groups;             // that it is attached to: under DeviceEntry::lock
  uint32_t async_events_reported = 0;  // under DeviceEntry::lock
  PendingPosts* pending = nullptr;     // of ibv_wr_*; null if ibv_qp_to_qp_ex() returns null
};

inline Pd& of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }
inline Td& of(ibv_td* td) { return *reinterpret_cast<Td*>(td); }
inline Mr& of(ibv_mr* mr) { return *reinterpret_cast<Mr*>(mr); }
inline Dm& of(ibv_dm* dm) { return *reinterpret_cast<Dm*>(dm); }
inline Mw& of(ibv_mw* mw) { return *reinterpret_cast<Mw*>(mw); }
inline Xrcd& of(ibv_xrcd* xrcd) { return *reinterpret_cast<Xrcd*>(xrcd); }
inline Ah& of(ibv_ah* ah) { return *reinterpret_cast<Ah*>(ah); }
inline Cq& of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
inline Cq& of(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }
inline Srq& of(ibv_srq* srq) { return *reinterpret_cast<Srq*>(srq); }
inline Qp& of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
inline Qp& of(ibv_qp_ex* qp) { return *reinterpret_cast<Qp*>(qp); }
inline Channel& of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
inline ibv_cq* cq_of(Cq& cq) { return ibv_cq_ex_to_cq(&cq.cq); }

}  // namespace weft::drop_in

// For librdmacm.so.1 and libefa.so.1 (version node WEFT_PRIVATE_1). The references are valid as
// long as the object of verbs is.
extern "C" {
// The string of a device of the list, or null: it is one of the system's library. Which device
// answers for an address is known only once it is open (weft_verbs_device).
const char* weft_verbs_device_spec(const ibv_device* device);
const weft::Device& weft_verbs_device(ibv_context* context);
const weft::ProtectionDomain& weft_verbs_domain(ibv_pd* pd);
const weft::CompletionQueue& weft_verbs_cq(ibv_cq* cq);
const weft::SharedReceiveQueue& weft_verbs_srq(ibv_srq* srq);
const weft::QueuePair& weft_verbs_qp(ibv_qp* qp);
// For libefa.so.1. The device of a context; null: it has no SRD, or is the system's library's.
const weft::Device* weft_verbs_srd_device(ibv_context* context);
ibv_qp* weft_verbs_create_srd_qp(ibv_context* context, ibv_qp_init_attr_ex* attr);
weft::drop_in::SenderReader* weft_verbs_sender_reader(ibv_cq_ex* cq);
const weft::AddressHandle& weft_verbs_ah(ibv_ah* ah);
// Sets ibv_qp::state from the state of the queue pair, after the connection manager has moved it.
void weft_verbs_refresh_state(ibv_qp* qp);
// device/events.hpp: as wait_readable().
bool weft_verbs_wait_readable(int fd);
// device/events.hpp: as signals_end_calls().
bool weft_verbs_signals_end_calls();
// With WEFT_VERBS_LOG=1, writes "weft: CALL: REASON" to stderr; sets errno to `error`; returns -1.
int weft_verbs_refuse(int error, const char* call, const char* reason);
}
