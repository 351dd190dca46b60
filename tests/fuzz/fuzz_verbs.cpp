// SPDX-License-Identifier: BSD-3-Clause
// The drop-in libibverbs with sequences of calls whose arguments are drawn from the input, against
// a model of which must fail with which errno (verbs_model.hpp). A call that fails changes nothing;
// at the end each object can be destroyed. The queue pairs have no peer.
#include "tests/fuzz/verbs_extended.hpp"

using weft::fuzz::device;
using weft::fuzz::Input;
using weft::fuzz::require;
using weft::fuzz::Transition;
using weft::fuzz::transition;

namespace {

class Program : public weft::fuzz::ExtendedObjects {
 public:
  void step(Input& input) {
    static constexpr void (Program::*kCalls[])(Input&) = {
        &Program::make_domain,
        &Program::make_channel,
        &Program::make_queue,
        &Program::make_region,
        &Program::make_shared,
        &Program::make_pair,
        &Program::make_pair,
        &Program::make_address,
        &Program::make_window,
        &Program::destroy_any,
        &Program::destroy_any,
        &Program::modify,
        &Program::modify,
        &Program::modify,
        &Program::post_send,
        &Program::post_receive,
        &Program::query_pair,
        &Program::query_port,
        &Program::resize_queue,
        &Program::poll,
        &Program::change_group,
        &Program::resize_shared,
        &Program::destroy_any,
        &Program::make_thread_domain,
        &Program::make_memory,
        &Program::make_region_of_memory,
        &Program::make_null_region,
        &Program::change_region,
        &Program::make_xrc_domain,
        &Program::make_shared_of_xrc,
        &Program::post_shared_receive,
        &Program::make_parent_domain,
        &Program::take_events,
        &Program::query_tables,
        &Program::refused,
    };
    (this->*kCalls[input.take<uint8_t>() % std::size(kCalls)])(input);
  }

 private:
  // A transition, mostly a legal one with what it needs, and sometimes an attribute more or less.
  void modify(Input& input) {
    auto* pair = pairs_.any(input);
    if (pair == nullptr) return;
    static constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                               IBV_QPS_RTS, IBV_QPS_ERR};
    const auto number = input.take<uint16_t>();
    const ibv_qp_state from = pair->state.state;
    ibv_qp_state to = kStates[number % 5];
    if (number % 3 != 0 && from < IBV_QPS_RTS) to = static_cast<ibv_qp_state>(from + 1);
    const Transition rule = transition(pair->state.type, from, to);
    const bool is_open = from == IBV_QPS_RTS || from == IBV_QPS_SQE;
    if (!rule.legal && (is_open || from == to)) return;  // no row in the model
    int mask = IBV_QP_STATE | rule.needed;
    if (number / 16 % 4 == 0) mask ^= 1 << (number / 64 % 21);
    if ((mask & IBV_QP_STATE) == 0) return;
    ibv_qp_attr attr{};
    attr.qp_state = to;
    attr.cur_qp_state = from;
    attr.port_num = number / 1024 % 16 == 0 ? 2 : 1;
    const bool no_mtu = number / 1024 % 16 == 1;
    attr.path_mtu = no_mtu ? static_cast<ibv_mtu>(9) : IBV_MTU_1024;
    attr.path_mig_state = IBV_MIG_MIGRATED;
    attr.dest_qp_num = 77;
    attr.ah_attr = address(input);
    constexpr int kNotSupported = IBV_QP_ALT_PATH | IBV_QP_CAP;
    const bool fits = (mask & rule.needed) == rule.needed &&
                      (mask & ~(IBV_QP_STATE | rule.needed | rule.taken)) == 0;
    const bool wrong = ((mask & IBV_QP_PORT) != 0 && attr.port_num != 1) ||
                       ((mask & IBV_QP_PATH_MTU) != 0 && no_mtu) ||
                       ((mask & IBV_QP_AV) != 0 && address_is_wrong_);
    int expected = rule.legal && fits && !wrong ? 0 : EINVAL;
    if ((mask & kNotSupported) != 0) expected = EOPNOTSUPP;
    const int error = ibv_modify_qp(pair->verbs, &attr, mask);
    if (error != expected)
      std::fprintf(stderr, "type %d from %d to %d mask 0x%x: errno %d, not %d\n",
                   int{pair->state.type}, int{from}, int{to}, static_cast<unsigned>(mask), error,
                   expected);
    require(error == expected, "ibv_modify_qp");
    if (expected == 0) pair->state.state = to;
    require(pair->verbs->state == pair->state.state, "ibv_qp::state after ibv_modify_qp");
  }

  void query_pair(Input& input) {
    auto* pair = pairs_.any(input);
    if (pair == nullptr) return;
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    require(ibv_query_qp(pair->verbs, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
    // A request that fails ends in ERR, of UC and UD in SQE.
    const bool is_rc = pair->state.type == IBV_QPT_RC;
    if (attr.qp_state == IBV_QPS_ERR || (attr.qp_state == IBV_QPS_SQE && !is_rc))
      pair->state.state = attr.qp_state;
    if (attr.qp_state != pair->state.state)
      std::fprintf(stderr, "type %d: state %d, not %d\n", int{pair->state.type}, int{attr.qp_state},
                   int{pair->state.state});
    require(attr.qp_state == pair->state.state, "the state that ibv_query_qp says");
    require(init.send_cq == pair->state.send && init.qp_type == pair->state.type, "attributes");
  }

  void post_send(Input& input) {
    auto* pair = pairs_.any(input);
    if (pair == nullptr) return;
    const auto number = input.take<uint16_t>();
    ibv_sge entries[4] = {};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = static_cast<ibv_wr_opcode>(number % 20);
    wr.num_sge = number / 32 % 8 - 2;
    wr.sg_list = entries;
    if (wr.num_sge > 4 || wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_ATOMIC_WRITE) return;
    const ibv_qp_state state = pair->state.state;
    const int error = ibv_post_send(pair->verbs, &wr, &bad);
    const bool can = state >= IBV_QPS_RTS;
    require(can || error == EINVAL, "ibv_post_send before RTS");
    const bool known = wr.opcode <= IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV;
    require(known || error == EINVAL, "ibv_post_send with an unknown opcode");
    require(pair->state.type != IBV_QPT_UD || error == EINVAL, "ibv_post_send without an ah");
    const bool too_many = wr.opcode != IBV_WR_LOCAL_INV && wr.num_sge > 0 &&
                          static_cast<uint32_t>(wr.num_sge) > pair->state.max_send_sge;
    require(!too_many || error == EINVAL || error == ENOMEM, "ibv_post_send with too many entries");
    if (can && pair->state.type == IBV_QPT_RC && wr.opcode < IBV_WR_RDMA_READ && wr.num_sge >= 0 &&
        !too_many)
      require(error == 0 || error == ENOMEM, "ibv_post_send of RC");
    require(wr.num_sge >= 0 || error == EINVAL, "ibv_post_send with a negative num_sge");
    require(error == 0 || error == EINVAL || error == ENOMEM || error == EOPNOTSUPP, "its errno");
    require(error == 0 || bad == &wr, "bad_wr of ibv_post_send");
  }

  void post_receive(Input& input) {
    auto* pair = pairs_.any(input);
    if (pair == nullptr) return;
    const auto number = input.take<uint8_t>();
    ibv_sge entries[2] = {};
    ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = entries, .num_sge = number % 4 - 1};
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(pair->verbs, &wr, &bad);
    const bool wrong = pair->state.state == IBV_QPS_RESET || wr.num_sge < 0 ||
                       static_cast<uint32_t>(wr.num_sge) > pair->state.max_recv_sge;
    if (pair->state.srq != nullptr) return require(error == EINVAL, "ibv_post_recv with an SRQ");
    require(wrong ? error == EINVAL || error == ENOMEM : error == 0 || error == ENOMEM,
            "ibv_post_recv");
    require(error == 0 || bad == &wr, "bad_wr of ibv_post_recv");
  }

  void query_port(Input& input) {
    const auto port = input.take<uint8_t>() % 4;
    ibv_port_attr attr;
    require(ibv_query_port(device(), static_cast<uint8_t>(port), &attr) == (port == 1 ? 0 : EINVAL),
            "ibv_query_port");
  }

  void resize_queue(Input& input) {
    auto* queue = queues_.any(input);
    if (queue == nullptr) return;
    const auto number = input.take<uint8_t>();
    const int cqe = number % 4 == 0 ? -number : number % 4 == 1 ? limits().max_cqe + 1 : 64;
    const int error = ibv_resize_cq(queue->verbs, cqe);
    const bool wrong = cqe <= 0 || cqe > limits().max_cqe;
    require(error == (wrong ? EINVAL : 0), "ibv_resize_cq");
  }

  void resize_shared(Input& input) {
    auto* srq = shared_.any(input);
    if (srq == nullptr) return;
    const int mask = input.take<uint8_t>() % 8;
    ibv_srq_attr attr{.max_wr = 512, .max_sge = 1, .srq_limit = 1};
    require(ibv_modify_srq(srq->verbs, &attr, mask) == ((mask & 4) != 0 ? EINVAL : 0),
            "ibv_modify_srq");
  }

  void poll(Input& input) {
    auto* queue = queues_.any(input);
    if (queue == nullptr) return;
    ibv_wc wc[4];
    const int count = ibv_poll_cq(queue->verbs, 4, wc);
    require(count >= 0 && count <= 4, "ibv_poll_cq");
    require(ibv_req_notify_cq(queue->verbs, count % 2) == 0, "ibv_req_notify_cq");
  }

  void change_group(Input& input) {
    auto* pair = pairs_.any(input);
    if (pair == nullptr) return;
    ibv_gid gid{};
    gid.raw[0] = input.take<uint8_t>() % 2 == 0 ? 0xFF : 0xFE;
    gid.raw[1] = 0x0E;
    gid.raw[15] = input.take<uint8_t>();
    const bool can = pair->state.type == IBV_QPT_UD && gid.raw[0] == 0xFF;
    const int attached = ibv_attach_mcast(pair->verbs, &gid, 0);
    require(can || attached == EINVAL, "ibv_attach_mcast");
    const int detached = ibv_detach_mcast(pair->verbs, &gid, 0);
    require(detached == (attached == 0 ? 0 : EINVAL), "ibv_detach_mcast");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input{data, size};
  Program program;
  while (input.left > 0) program.step(input);
  program.end();
  return 0;
}
