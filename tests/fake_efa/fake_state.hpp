// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for libibverbs and libefa on a machine without an EFA: one library that exports the
// functions of both which the provider looks up, with one device whose queue pairs reach each other
// inside the process. It refuses what libefa of rdma-core 44 refuses (other flags, requests that
// are not signaled, too many entries, the wrong state) and writes down the calls. What passes here
// shows that the provider makes the calls that libefa expects; it shows nothing of hardware.
#pragma once

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake_efa {

inline constexpr uint16_t kNoHandle = 0xFFFF;
inline constexpr uint32_t kMostSend = 8192;
inline constexpr uint32_t kSendEntries = 2, kInline = 32;
inline const ibv_gid kGid = {{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xFF, 0xFE, 0, 0, 1}};

struct Entry {  // of a completion queue
  uint64_t id = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint32_t vendor = 0, qpn = 0, bytes = 0, immediate = 0, source = 0;
  bool has_immediate = false;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  uint16_t handle = kNoHandle;
  uint32_t unknown_peer = 0;  // part of the sender's address
};

struct Channel {
  ibv_comp_channel channel{};
  ibv_cq* cq = nullptr;
};

struct Cq {
  ibv_cq_ex ex{};
  efadv_cq efa{};
  Channel* channel = nullptr;
  bool armed = false;
  std::deque<Entry> entries;
  Entry current;

  void add(const Entry& entry);
};

struct Pd {
  ibv_pd pd{};
};

struct Ah {
  ibv_ah ah{};
  Pd* pd = nullptr;
  ibv_gid gid{};
  uint16_t number = 0;
};

struct Mr {
  ibv_mr mr{};
  int access = 0;
};

struct Receive {
  uint64_t id = 0;
  std::vector<ibv_sge> sges;
};

struct Work {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  uint32_t rkey = 0, immediate = 0, qpn = 0, qkey = 0;
  uint64_t remote = 0;
  std::string bytes;  // of a SEND
  std::vector<ibv_sge> sges;
  Ah* ah = nullptr;
};

struct Qp {
  ibv_qp_ex ex{};
  Cq *send = nullptr, *receive = nullptr;
  Pd* pd = nullptr;
  ibv_qp_state state = IBV_QPS_RESET;
  uint32_t qkey = 0;
  uint64_t operations = 0;
  ibv_qp_cap cap{};
  std::deque<Receive> receives;
  std::vector<Work> batch;
  int error = 0;
};

// Everything under this lock, which ibv_wr_start() takes and ibv_wr_complete() gives back.
inline std::recursive_mutex mutex;
inline std::string calls;
inline uint32_t caps = 7, max_rdma = 1u << 20;
inline Entry forced;
inline bool is_forced = false;
inline uint32_t refused_immediate = 0;
inline bool has_events = false, unknown_peers = false;
inline uint32_t last_unknown_peer = 0;
inline std::map<uint32_t, Qp*> qps;
inline std::map<uint32_t, Mr*> regions;
inline std::vector<Ah*> handles;

inline void call(const std::string& text) { calls += (calls.empty() ? "" : " ") + text; }
inline std::string text(uint64_t value) { return std::to_string(value); }
inline Qp& of(ibv_qp_ex* ex) { return *reinterpret_cast<Qp*>(ex); }
inline Cq& of(ibv_cq_ex* ex) { return *reinterpret_cast<Cq*>(ex); }

// The entries of posting and polling, as libefa fills them in.
void fill(Qp& qp);
void fill(Cq& cq);
int arm(ibv_cq* cq, int solicited_only);
int post_recv(ibv_qp* raw, ibv_recv_wr* work, ibv_recv_wr** bad);

}  // namespace fake_efa
