// SPDX-License-Identifier: BSD-3-Clause
// The objects of fuzz_verbs that most programs make, made and destroyed with arguments that are
// drawn from the input, and the errno that each call must have. verbs_extended.hpp has the others.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/fuzz/verbs_model.hpp"

#undef ibv_reg_mr

namespace weft::fuzz {

struct Nothing {};
struct OfDomain {
  ibv_pd* pd;
};
struct DomainState {  // of a parent domain: what it was made of
  ibv_pd* original = nullptr;
  ibv_td* td = nullptr;
};
struct RegionState {
  ibv_pd* pd;
  bool changeable = false;  // by ibv_rereg_mr
  ibv_dm* dm = nullptr;
};
struct SharedState {
  ibv_pd* pd;
  ibv_xrcd* xrcd = nullptr;  // of XRC
  ibv_cq* cq = nullptr;
};
struct QueueState {
  ibv_comp_channel* channel;
};
struct PairState {
  ibv_pd* pd;
  ibv_cq *send, *receive;
  ibv_srq* srq;
  ibv_qp_type type;
  ibv_qp_state state;
  uint32_t max_send_sge, max_recv_sge;
};

inline std::array<char, 8192> memory;

inline void set_nonblocking(int fd) {
  require(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "O_NONBLOCK");
}

// The device of all inputs: one of this process alone, in which nothing runs between the calls.
inline ibv_context* device() {
  static ibv_context* const context = [] {
    const std::string spec = "roce+shm:fuzz-" + std::to_string(getpid()) + ",single_thread=1";
    setenv("WEFT_VERBS_DEVICES", spec.c_str(), 1);
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    require(list != nullptr && count == 1, "one device");
    ibv_context* opened = ibv_open_device(list[0]);
    require(opened != nullptr, "the device opens");
    ibv_free_device_list(list);
    set_nonblocking(opened->async_fd);
    return opened;
  }();
  return context;
}

// An object, or null with this errno.
template <class T>
bool made(T* object, int expected, const char* call) {
  const int error = errno;
  require((object != nullptr) == (expected == 0), call);
  require(object != nullptr || error == expected, call);
  return object != nullptr;
}

class VerbsObjects {
 public:
  void end() {
    pairs_.destroy_all(ibv_destroy_qp, [&](const PairState& state) { release(state); });
    windows_.destroy_all(ibv_dealloc_mw, [&](const OfDomain& of) { --domains_.of(of.pd).users; });
    addresses_.destroy_all(ibv_destroy_ah, [&](const OfDomain& of) { --domains_.of(of.pd).users; });
    regions_.destroy_all(ibv_dereg_mr, [&](const RegionState& state) { release(state); });
    memories_.destroy_all(ibv_free_dm, [](Nothing) {});
    shared_.destroy_all(ibv_destroy_srq, [&](const SharedState& state) { release(state); });
    xrc_domains_.destroy_all(ibv_close_xrcd, [](Nothing) {});
    queues_.destroy_all(ibv_destroy_cq, [&](const QueueState& state) { release(state); });
    channels_.destroy_all(ibv_destroy_comp_channel, [](Nothing) {});
    domains_.destroy_all(ibv_dealloc_pd, [&](const DomainState& state) { release(state); });
    threads_.destroy_all(ibv_dealloc_td, [](Nothing) {});
  }

 protected:
  template <class T, class State>
  void add(Objects<T, State>& objects, T* object, State state) {
    const void* const address = object;
    domains_.forget_gone(address), channels_.forget_gone(address), queues_.forget_gone(address);
    regions_.forget_gone(address), shared_.forget_gone(address), pairs_.forget_gone(address);
    addresses_.forget_gone(address), windows_.forget_gone(address);
    threads_.forget_gone(address), memories_.forget_gone(address);
    xrc_domains_.forget_gone(address);
    objects.add(object, state);
  }

  void make_domain(Input&) {
    if (domains_.full()) return;
    ibv_pd* pd = ibv_alloc_pd(device());
    if (made(pd, 0, "ibv_alloc_pd")) add(domains_, pd, {});
  }

  void make_channel(Input&) {
    if (channels_.full()) return;
    ibv_comp_channel* channel = ibv_create_comp_channel(device());
    if (!made(channel, 0, "ibv_create_comp_channel")) return;
    set_nonblocking(channel->fd);
    add(channels_, channel, {});
  }

  void make_queue(Input& input) {
    if (queues_.full()) return;
    const auto number = input.take<uint16_t>();
    int cqe = number % 64 + 1;
    if (number % 16 == 0) cqe = -static_cast<int>(number);
    if (number % 16 == 1) cqe = limits().max_cqe + 1;
    const int vector = number % 32 == 2 ? device()->num_comp_vectors : 0;
    auto* channel = number % 2 == 0 ? nullptr : channels_.any(input);
    const bool wrong = cqe <= 0 || cqe > limits().max_cqe || vector != 0;
    errno = 0;
    ibv_cq* cq = ibv_create_cq(device(), cqe, this, channel ? channel->verbs : nullptr, vector);
    if (!made(cq, wrong ? EINVAL : 0, "ibv_create_cq")) return;
    require(cq->cqe >= cqe && cq->cq_context == this, "members of ibv_cq");
    if (channel != nullptr) ++channel->users;
    add(queues_, cq, {channel != nullptr ? channel->verbs : nullptr});
  }

  void make_region(Input& input) {
    auto* domain = domains_.any(input);
    if (domain == nullptr || regions_.full()) return;
    const auto access = static_cast<int>(input.take<uint16_t>() % 2048);
    const auto length = input.take<uint16_t>() % memory.size();
    const bool is_mapped = input.take<uint8_t>() % 8 != 0;
    void* address = is_mapped ? memory.data() : reinterpret_cast<void*>(uintptr_t{4096});
    constexpr int kRemoteWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    constexpr int kFlushPersistent = 1 << 9, kUnknown = 1 << 10;
    if ((access & kFlushPersistent) != 0) return;  // the memory is not persistent
    int expected = length == 0 || (access & kUnknown) != 0 ? EINVAL : 0;
    if ((access & kRemoteWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) expected = EINVAL;
    if (expected == 0 && !is_mapped) {
      if ((access & IBV_ACCESS_ON_DEMAND) != 0) return;  // is looked at when it is used
      expected = EFAULT;
    }
    errno = 0;
    ibv_mr* mr = ibv_reg_mr(domain->verbs, address, length, access);
    if (!made(mr, expected, "ibv_reg_mr")) return;
    require(mr->length == length && mr->pd == domain->verbs, "members of ibv_mr");
    ++domain->users;
    add(regions_, mr, {.pd = domain->verbs, .changeable = true});
  }

  void make_shared(Input& input) {
    auto* domain = domains_.any(input);
    if (domain == nullptr || shared_.full()) return;
    const auto number = input.take<uint8_t>();
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = number % 8 == 0 ? 0 : number;
    attr.attr.max_sge = number % 8 == 1 ? static_cast<uint32_t>(limits().max_srq_sge) + 1 : 1;
    errno = 0;
    ibv_srq* srq = ibv_create_srq(domain->verbs, &attr);
    if (!made(srq, number % 8 < 2 ? EINVAL : 0, "ibv_create_srq")) return;
    ++domain->users;
    add(shared_, srq, {.pd = domain->verbs});
  }

  void make_pair(Input& input) {
    auto* domain = domains_.any(input);
    auto* send = queues_.any(input);
    auto* receive = queues_.any(input);
    if (domain == nullptr || send == nullptr || pairs_.full()) return;
    const auto number = input.take<uint16_t>();
    auto* srq = number % 4 == 0 ? shared_.any(input) : nullptr;
    const bool fits = srq != nullptr && srq->state.pd == domain->verbs && !srq->state.xrcd;
    if (!fits) srq = nullptr;
    static constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC,         IBV_QPT_RC,
                                             IBV_QPT_UC,         IBV_QPT_UD,
                                             IBV_QPT_RAW_PACKET, static_cast<ibv_qp_type>(77)};
    ibv_qp_init_attr attr{};
    attr.qp_type = kTypes[number / 4 % std::size(kTypes)];
    attr.send_cq = number % 64 == 1 ? nullptr : send->verbs;
    attr.recv_cq = number % 64 == 2 ? nullptr : receive->verbs;
    attr.srq = srq != nullptr ? srq->verbs : nullptr;
    attr.cap = {.max_send_wr = number % 32U,
                .max_recv_wr = number % 16U,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = number % 128U};
    if (number % 64 == 3) attr.cap.max_send_wr = static_cast<uint32_t>(limits().max_qp_wr) + 1;
    if (number % 64 == 5) attr.cap.max_send_sge = static_cast<uint32_t>(limits().max_sge) + 1;
    const bool no_type = attr.qp_type == IBV_QPT_RAW_PACKET || attr.qp_type == 77;
    const unsigned odd = number % 64;
    const bool wrong = odd == 1 || odd == 2 || odd == 3 || odd == 5;
    errno = 0;
    ibv_qp* qp = ibv_create_qp(domain->verbs, &attr);
    if (!made(qp, no_type ? EOPNOTSUPP : wrong ? EINVAL : 0, "ibv_create_qp")) return;
    require(qp->state == IBV_QPS_RESET && qp->qp_type == attr.qp_type, "members of ibv_qp");
    ++domain->users, ++send->users, ++receive->users;
    if (srq != nullptr) ++srq->users;
    add(pairs_, qp,
        PairState{domain->verbs, send->verbs, receive->verbs, attr.srq, attr.qp_type, IBV_QPS_RESET,
                  attr.cap.max_send_sge, attr.cap.max_recv_sge});
  }

  ibv_ah_attr address(Input& input) {
    ibv_ah_attr attr{};
    const auto number = input.take<uint8_t>();
    attr.grh.dgid = own_gid();
    attr.is_global = number % 16 == 0 ? 0 : 1;
    attr.port_num = number % 16 == 1 ? 2 : 1;
    attr.grh.sgid_index = number % 16 == 2 ? 200 : 0;
    if (number % 16 == 3) attr.grh.dgid = {};
    address_is_wrong_ = number % 16 < 4;
    return attr;
  }

  void make_address(Input& input) {
    auto* domain = domains_.any(input);
    if (domain == nullptr || addresses_.full()) return;
    ibv_ah_attr attr = address(input);
    errno = 0;
    ibv_ah* ah = ibv_create_ah(domain->verbs, &attr);
    if (!made(ah, address_is_wrong_ ? EINVAL : 0, "ibv_create_ah")) return;
    ++domain->users;
    add(addresses_, ah, {domain->verbs});
  }

  void make_window(Input& input) {
    auto* domain = domains_.any(input);
    if (domain == nullptr || windows_.full()) return;
    const auto type = static_cast<ibv_mw_type>(input.take<uint8_t>() % 4);
    errno = 0;
    ibv_mw* mw = ibv_alloc_mw(domain->verbs, type);
    const bool known = type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2;
    if (!made(mw, known ? 0 : EINVAL, "ibv_alloc_mw")) return;
    ++domain->users;
    add(windows_, mw, {domain->verbs});
  }

  void release(const DomainState& state) {
    if (state.original != nullptr) --domains_.of(state.original).users;
    if (state.td != nullptr) --threads_.of(state.td).users;
  }
  void release(const RegionState& state) {
    --domains_.of(state.pd).users;
    if (state.dm != nullptr) --memories_.of(state.dm).users;
  }
  void release(const SharedState& state) {
    --domains_.of(state.pd).users;
    if (state.xrcd == nullptr) return;
    --xrc_domains_.of(state.xrcd).users, --queues_.of(state.cq).users;
  }
  void release(const QueueState& state) {
    if (state.channel != nullptr) --channels_.of(state.channel).users;
  }
  void release(const PairState& state) {
    --domains_.of(state.pd).users, --queues_.of(state.send).users;
    --queues_.of(state.receive).users;
    if (state.srq != nullptr) --shared_.of(state.srq).users;
  }

  void destroy_any(Input& input) {
    const auto of_domain = [&](const OfDomain& of) { --domains_.of(of.pd).users; };
    const auto of_all = [&](const auto& state) { release(state); };
    const auto nothing = [](Nothing) {};
    const verbs_context& calls = *verbs_get_ctx(device());  // verbs.h itself reads the object
    switch (input.take<uint8_t>() % 11) {
      case 0:
        return domains_.destroy(input, ibv_dealloc_pd, of_all);
      case 1:
        return channels_.destroy(input, ibv_destroy_comp_channel, nothing);
      case 2:
        return queues_.destroy(input, ibv_destroy_cq, of_all);
      case 3:
        return regions_.destroy(input, ibv_dereg_mr, of_all);
      case 4:
        return shared_.destroy(input, ibv_destroy_srq, of_all);
      case 5:
        return pairs_.destroy(input, ibv_destroy_qp, of_all);
      case 6:
        return addresses_.destroy(input, ibv_destroy_ah, of_domain);
      case 7:
        return threads_.destroy(input, calls.dealloc_td, nothing);
      case 8:
        return memories_.destroy(input, calls.free_dm, nothing);
      case 9:
        return xrc_domains_.destroy(input, calls.close_xrcd, nothing);
      default:
        return windows_.destroy(input, device()->ops.dealloc_mw, of_domain);
    }
  }

  // Asked once: it reads the interface, which took half of the time of all calls.
  static const ibv_gid& own_gid() {
    static const ibv_gid has = [] {
      ibv_gid gid{};
      require(ibv_query_gid(device(), 1, 0, &gid) == 0, "ibv_query_gid");
      return gid;
    }();
    return has;
  }
  static const ibv_device_attr& limits() {
    static const ibv_device_attr has = [] {
      ibv_device_attr attr{};
      require(ibv_query_device(device(), &attr) == 0, "ibv_query_device");
      return attr;
    }();
    return has;
  }

  bool address_is_wrong_ = false;  // the last one drawn
  Objects<ibv_pd, DomainState> domains_;
  Objects<ibv_comp_channel, Nothing> channels_;
  Objects<ibv_cq, QueueState> queues_;
  Objects<ibv_mr, RegionState> regions_;
  Objects<ibv_srq, SharedState> shared_;
  Objects<ibv_qp, PairState> pairs_;
  Objects<ibv_ah, OfDomain> addresses_;
  Objects<ibv_mw, OfDomain> windows_;
  Objects<ibv_td, Nothing> threads_;
  Objects<ibv_dm, Nothing> memories_;
  Objects<ibv_xrcd, Nothing> xrc_domains_;
};

}  // namespace weft::fuzz
