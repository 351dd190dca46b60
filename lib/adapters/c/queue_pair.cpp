// SPDX-License-Identifier: BSD-3-Clause
// C API: queue pairs and their attributes.
#include "lib/adapters/c/call.hpp"

using weft::c::call;
using weft::c::failed;

static_assert(static_cast<int>(weft::QpState::err) == WEFT_QP_ERR);

static weft_qp_options defaults() {
  const weft::QueuePairOptions options;
  weft_qp_options it{};
  it.size = sizeof it;
  it.max_send_wr = options.max_send_wr;
  it.max_recv_wr = options.max_recv_wr;
  it.max_send_sge = options.max_send_sge;
  it.max_recv_sge = options.max_recv_sge;
  it.max_inline = options.max_inline;
  return it;
}

void weft_qp_options_init(weft_qp_options* options, size_t size) {
  weft::c::initialise(options, size, defaults());
}

weft_code weft_qp_create(const weft_pd* pd, const weft_qp_options* options, weft_qp** qp) {
  return call({{"pd", pd}, {"options", options}, {"qp", qp}}, [&] {
    auto it = defaults();
    if (const weft_code bad = weft::c::known(options, it, "weft_qp_options"); bad != WEFT_OK)
      return bad;
    if (it.send_cq == nullptr || it.recv_cq == nullptr)
      return failed(weft::Code::invalid_argument,
                    "weft_qp_options: send_cq and recv_cq are needed, and may be the same");
    if (it.type < WEFT_QP_RC || it.type > WEFT_QP_SRD)
      return failed(weft::Code::invalid_argument, "weft_qp_options: there is no type " +
                                                      std::to_string(static_cast<int>(it.type)));
    weft::QueuePairOptions wanted;
    wanted.type = static_cast<weft::QpType>(it.type);
    wanted.send_cq = it.send_cq->it;
    wanted.recv_cq = it.recv_cq->it;
    wanted.max_send_wr = it.max_send_wr;
    wanted.max_recv_wr = it.max_recv_wr;
    wanted.max_send_sge = it.max_send_sge;
    wanted.max_recv_sge = it.max_recv_sge;
    wanted.max_inline = it.max_inline;
    wanted.signal_all = it.signal_all;
    if (it.congestion != nullptr) wanted.congestion = it.congestion;
    return weft::c::made(pd->it.queue_pair(wanted), qp);
  });
}

void weft_qp_destroy(weft_qp* qp) { delete qp; }

uint32_t weft_qp_number(const weft_qp* qp) { return qp != nullptr ? qp->it.number().value : 0; }
weft_qp_type weft_qp_type_of(const weft_qp* qp) {
  return qp != nullptr ? static_cast<weft_qp_type>(qp->it.type()) : WEFT_QP_RC;
}
weft_qp_state weft_qp_state_of(const weft_qp* qp) {
  return qp != nullptr ? static_cast<weft_qp_state>(qp->it.state()) : WEFT_QP_RESET;
}

void weft_qp_attributes_init(weft_qp_attributes* attributes, size_t size) {
  weft::c::initialise(attributes, size, weft_qp_attributes{});
}

namespace {

// Calls visit(bit, member of C, member of C++) for each attribute but state and path, which are of
// other types.
template <class C, class Cpp, class Visit>
void for_each_number(C& c, Cpp& cpp, Visit visit) {
  visit(WEFT_ATTR_PKEY_INDEX, c.pkey_index, cpp.pkey_index);
  visit(WEFT_ATTR_PORT, c.port, cpp.port);
  visit(WEFT_ATTR_ACCESS, c.access, cpp.access);
  visit(WEFT_ATTR_QKEY, c.qkey, cpp.qkey);
  visit(WEFT_ATTR_PATH_MTU, c.path_mtu, cpp.path_mtu);
  visit(WEFT_ATTR_DEST_QPN, c.dest_qpn, cpp.dest_qpn);
  visit(WEFT_ATTR_RQ_PSN, c.rq_psn, cpp.rq_psn);
  visit(WEFT_ATTR_SQ_PSN, c.sq_psn, cpp.sq_psn);
  visit(WEFT_ATTR_MAX_DEST_RD_ATOMIC, c.max_dest_rd_atomic, cpp.max_dest_rd_atomic);
  visit(WEFT_ATTR_MAX_RD_ATOMIC, c.max_rd_atomic, cpp.max_rd_atomic);
  visit(WEFT_ATTR_MIN_RNR_TIMER, c.min_rnr_timer, cpp.min_rnr_timer);
  visit(WEFT_ATTR_TIMEOUT, c.timeout, cpp.timeout);
  visit(WEFT_ATTR_RETRY_COUNT, c.retry_count, cpp.retry_count);
  visit(WEFT_ATTR_RNR_RETRY, c.rnr_retry, cpp.rnr_retry);
}

// The number of an attribute: as it is, of a flag set, or in a type of its own (QpNum, Psn).
template <class T>
uint32_t number_in(const T& of) {
  if constexpr (requires { of.value; })
    return of.value;
  else
    return static_cast<uint32_t>(of);
}

constexpr uint64_t kKnownBits = (uint64_t{WEFT_ATTR_RNR_RETRY} << 1) - 1;

weft::QueuePairAttributes attributes_of(const weft_qp_attributes& from) {
  weft::QueuePairAttributes to;
  for_each_number(from, to, [&](uint64_t bit, auto number, auto& member) {
    using Value = typename std::remove_reference_t<decltype(member)>::value_type;
    if ((from.mask & bit) == 0) return;
    if constexpr (std::is_enum_v<Value>)
      member = static_cast<Value>(number);
    else
      member = Value{number};
  });
  if ((from.mask & WEFT_ATTR_STATE) != 0) to.state = static_cast<weft::QpState>(from.state);
  if ((from.mask & WEFT_ATTR_CURRENT_STATE) != 0)
    to.current_state = static_cast<weft::QpState>(from.current_state);
  if ((from.mask & WEFT_ATTR_PATH) != 0) to.path = weft::c::path_of(from.path);
  return to;
}

weft_qp_attributes attributes_of(const weft::QueuePairAttributes& from) {
  weft_qp_attributes to{};
  for_each_number(to, from, [&](uint64_t bit, auto& number, const auto& member) {
    if (!member) return;
    number = static_cast<std::remove_reference_t<decltype(number)>>(number_in(*member));
    to.mask |= bit;
  });
  if (from.state) {
    to.state = static_cast<weft_qp_state>(*from.state);
    to.mask |= WEFT_ATTR_STATE;
  }
  if (from.path) {
    to.path = weft::c::path_of(*from.path);
    to.mask |= WEFT_ATTR_PATH;
  }
  return to;
}

bool is_state(weft_qp_state state) { return state >= WEFT_QP_RESET && state <= WEFT_QP_ERR; }

}  // namespace

weft_code weft_qp_modify(const weft_qp* qp, const weft_qp_attributes* attributes) {
  return call({{"qp", qp}, {"attributes", attributes}}, [&] {
    weft_qp_attributes it{};
    if (const weft_code bad = weft::c::known(attributes, it, "weft_qp_attributes"); bad != WEFT_OK)
      return bad;
    if ((it.mask & ~kKnownBits) != 0)
      return failed(weft::Code::not_supported,
                    "weft_qp_attributes: mask has bits that this library does not know");
    if (!is_state(it.state) || !is_state(it.current_state))
      return failed(weft::Code::invalid_argument,
                    "weft_qp_attributes: state or current_state is no state of a queue pair");
    return weft::c::done(qp->it.modify(attributes_of(it)));
  });
}

weft_code weft_qp_query(const weft_qp* qp, weft_qp_attributes* attributes) {
  return call({{"qp", qp}, {"attributes", attributes}}, [&] {
    return weft::c::fill(attributes, attributes_of(qp->it.query()), "weft_qp_attributes");
  });
}

weft_code weft_qp_attach_multicast(const weft_qp* qp, const weft_gid* group) {
  return call({{"qp", qp}, {"group", group}},
              [&] { return weft::c::done(qp->it.attach_multicast(weft::c::gid_of(*group))); });
}

weft_code weft_qp_detach_multicast(const weft_qp* qp, const weft_gid* group) {
  return call({{"qp", qp}, {"group", group}},
              [&] { return weft::c::done(qp->it.detach_multicast(weft::c::gid_of(*group))); });
}
