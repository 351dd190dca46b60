// SPDX-License-Identifier: BSD-3-Clause
// The table of IBTA 11.2.5.2 for RC, UC and UD; XRC has RC's column without the attributes of the
// other side (XRC annex). A transition that is not in the table is illegal. Alternate paths and
// path migration are optional (//= roce:C-AV-98; rxe stores them and never uses them) and not
// supported.
#include "lib/transport/qp_attributes.hpp"

#include <array>
#include <bit>
#include <string>

#include "lib/base/check.hpp"

namespace weft::transport {
namespace {

using A = Attribute;

struct Row {
  QpState from, to;
  std::array<Attribute, 3> required;  // by QpType: RC, UC, UD
  std::array<Attribute, 3> optional;
};

constexpr A kNone = A::none;
constexpr A kIdentity = A::pkey_index | A::port;
constexpr A kConnected = A::path | A::path_mtu | A::dest_qpn | A::rq_psn;
constexpr A kRcResponder = A::max_dest_rd_atomic | A::min_rnr_timer;
constexpr A kRcRequester = A::timeout | A::retry_count | A::rnr_retry | A::max_rd_atomic;
constexpr A kAll = static_cast<A>(~0u);
constexpr A without(A set, A some) {
  return static_cast<A>(static_cast<uint32_t>(set) & ~static_cast<uint32_t>(some));
}
constexpr A kResumeRc = A::current_state | A::access | A::min_rnr_timer | A::rate_limit;
constexpr A kResumeUc = A::current_state | A::access | A::rate_limit;
constexpr A kResumeUd = A::current_state | A::qkey | A::rate_limit;
constexpr std::array<A, 3> kNothing = {kNone, kNone, kNone};
constexpr std::array<A, 3> kResume = {kResumeRc, kResumeUc, kResumeUd};
constexpr std::array<A, 3> kInit = {kIdentity | A::access, kIdentity | A::access,
                                    kIdentity | A::qkey};

//= roce:C-STATE-54
//= roce:C-STATE-55
//= roce:C-STATE-56
//= roce:C-STATE-57
constexpr Row kTable[] = {
    {QpState::reset, QpState::reset, kNothing, kNothing},
    {QpState::reset, QpState::init, kInit, kNothing},
    {QpState::init, QpState::init, kNothing, kInit},
    {QpState::init,
     QpState::rtr,
     {kConnected | kRcResponder, kConnected, kNone},
     {A::access | A::pkey_index | A::telemetry | A::selective_repeat, A::access | A::pkey_index,
      A::qkey | A::pkey_index}},
    {QpState::init, QpState::reset, kNothing, kNothing},
    {QpState::init, QpState::err, kNothing, kNothing},
    {QpState::rtr, QpState::rts, {A::sq_psn | kRcRequester, A::sq_psn, A::sq_psn}, kResume},
    {QpState::rtr, QpState::reset, kNothing, kNothing},
    {QpState::rtr, QpState::err, kNothing, kNothing},
    {QpState::rts, QpState::rts, kNothing, kResume},
    {QpState::rts,
     QpState::sqd,
     kNothing,
     {A::sq_drained_event, A::sq_drained_event, A::sq_drained_event}},
    {QpState::rts, QpState::reset, kNothing, kNothing},
    {QpState::rts, QpState::err, kNothing, kNothing},
    {QpState::sqd,
     QpState::sqd,
     kNothing,
     {kIdentity | A::access | A::path | kRcResponder | kRcRequester | A::rate_limit,
      A::pkey_index | A::access | A::path | A::rate_limit,
      A::pkey_index | A::qkey | A::rate_limit}},
    {QpState::sqd, QpState::rts, kNothing, kResume},
    {QpState::sqd, QpState::reset, kNothing, kNothing},
    {QpState::sqd, QpState::err, kNothing, kNothing},
    {QpState::sqe, QpState::rts, kNothing, {kNone, kResumeUc, kResumeUd}},
    {QpState::sqe, QpState::reset, kNothing, kNothing},
    {QpState::sqe, QpState::err, kNothing, kNothing},
    {QpState::err, QpState::reset, kNothing, kNothing},
    {QpState::err, QpState::err, kNothing, kNothing},
};

struct AttributeName {
  Attribute attribute;
  const char* name;
  const char* meaning;
};
constexpr AttributeName kAttributeNames[] = {
    {A::current_state, "current_state", "the state the queue pair is believed to be in"},
    {A::pkey_index, "pkey_index", "the index of the partition key, 0"},
    {A::port, "port", "the port number, 1"},
    {A::access, "access", "what the peer may do through this queue pair"},
    {A::qkey, "qkey", "the key that datagrams must carry"},
    {A::path, "path", "the address of the peer"},
    {A::path_mtu, "path_mtu", "the largest payload of a packet, the same on both sides"},
    {A::dest_qpn, "dest_qpn", "the peer's queue pair number"},
    {A::rq_psn, "rq_psn", "the first packet sequence number of the peer"},
    {A::sq_psn, "sq_psn", "our first packet sequence number"},
    {A::max_dest_rd_atomic, "max_dest_rd_atomic",
     "how many READs and atomics the peer may have outstanding here"},
    {A::max_rd_atomic, "max_rd_atomic",
     "how many READs and atomics we may have outstanding at the peer"},
    {A::min_rnr_timer, "min_rnr_timer", "how long the peer waits when we have no receive posted"},
    {A::timeout, "timeout", "how long to wait for an acknowledgement"},
    {A::retry_count, "retry_count", "how often to send again before giving up"},
    {A::rnr_retry, "rnr_retry", "how often to retry when the peer has no receive posted"},
    {A::sq_drained_event, "sq_drained_event", "whether to report that the queue is drained"},
    {A::telemetry, "telemetry", "whether frames carry telemetry"},
    {A::selective_repeat, "selective_repeat", "whether only lost packets are sent again"},
    {A::rate_limit, "rate_limit", "how fast packets may leave"},
};

const Row* find_row(QpState from, QpState to) {
  for (const Row& row : kTable)
    if (row.from == from && row.to == to) return &row;
  return nullptr;
}

// State names as the specification spells them.
std::string upper_case(std::string_view name) {
  std::string text(name);
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string describe(QpType type, QpState from, QpState to) {
  return upper_case(name(from)) + " -> " + upper_case(name(to)) + " of " +
         (type == QpType::rc || is_xrc(type) ? "an " : "a ") + upper_case(name(type)) +
         " queue pair";
}

std::string list_names(Attribute set) {
  std::string text;
  for (const AttributeName& entry : kAttributeNames)
    if (has(set, entry.attribute)) text += (text.empty() ? "" : ", ") + std::string(entry.name);
  return text.empty() ? "nothing but state" : text;
}

Error illegal_transition(QpType type, QpState from, QpState to) {
  std::string text = describe(type, from, to) + " is not a legal transition; from " +
                     upper_case(name(from)) + " it can go to ";
  bool first = true;
  for (const Row& row : kTable) {
    if (row.from != from) continue;
    text += (first ? "" : ", ") + upper_case(name(row.to));
    first = false;
  }
  return {Code::bad_state, text};
}

Error bad_value(const char* attribute, uint64_t value, const std::string& range) {
  return {Code::invalid_argument, std::string("QueuePairAttributes::") + attribute + " is " +
                                      std::to_string(value) + "; it must be " + range};
}

std::string at_most(uint64_t limit) { return "0 to " + std::to_string(limit); }

Result<void> check_mtu(const QueuePairAttributes& change, const ModifyLimits& limits) {
  if (!change.path_mtu) return {};
  const uint32_t mtu = *change.path_mtu;
  if (std::has_single_bit(mtu) && mtu >= 256 && mtu <= limits.max_mtu) return {};
  std::string choices;  //= roce:C-OPS-71 roce:C-STATE-137
  for (uint32_t choice = 256; choice <= limits.max_mtu; choice *= 2)
    choices += (choices.empty() ? "" : ", ") + std::to_string(choice);
  return bad_value("path_mtu", mtu, "one of " + choices + " on this device");
}

// Attributes whose only rule is a maximum.
Result<void> check_numbers(const QueuePairAttributes& c, const ModifyLimits& limits) {
  struct Number {
    const char* name;
    bool set;
    uint64_t value;
    uint64_t limit;
  };
  const uint64_t rd_atomic = limits.max_rd_atomic;
  const Number numbers[] = {
      {"pkey_index", c.pkey_index.has_value(), c.pkey_index.value_or(0), 0},
      {"path.flow_label", c.path.has_value(), c.path.value_or(AddressVector{}).flow_label, 0xFFFFF},
      {"dest_qpn", c.dest_qpn.has_value(), c.dest_qpn.value_or(QpNum{}).value, 0xFFFFFF},
      {"rq_psn", c.rq_psn.has_value(), c.rq_psn.value_or(Psn{}).value, Psn::kMask},
      {"sq_psn", c.sq_psn.has_value(), c.sq_psn.value_or(Psn{}).value, Psn::kMask},
      {"max_dest_rd_atomic", c.max_dest_rd_atomic.has_value(), c.max_dest_rd_atomic.value_or(0),
       rd_atomic},
      {"max_rd_atomic", c.max_rd_atomic.has_value(), c.max_rd_atomic.value_or(0), rd_atomic},
      {"min_rnr_timer", c.min_rnr_timer.has_value(), c.min_rnr_timer.value_or(0), 31},
      {"timeout", c.timeout.has_value(), c.timeout.value_or(0), 31},
      {"retry_count", c.retry_count.has_value(), c.retry_count.value_or(0), 7},
      {"rnr_retry", c.rnr_retry.has_value(), c.rnr_retry.value_or(0), 7},
  };
  for (const Number& number : numbers)
    if (number.set && number.value > number.limit)
      return bad_value(number.name, number.value, number.limit == 0 ? "0" : at_most(number.limit));
  const Access rights = Access::all | Access::flush_global | Access::flush_persistent;
  if (c.access && (*c.access | rights) != rights)
    return bad_value("access", static_cast<uint32_t>(*c.access), "of local_*, remote_*, flush_*");
  if (c.port && *c.port != 1) return bad_value("port", *c.port, "1");
  const auto is_rate = [](Rate rate) {
    constexpr int64_t kLeast = 1'000, kMost = 1'000'000'000'000'000;
    return rate == Rate{} || (kLeast <= rate.bits_per_second && rate.bits_per_second <= kMost);
  };
  if ((c.rate_limit && !is_rate(c.rate_limit->rate)) || (c.path && !is_rate(c.path->static_rate)))
    return Error{Code::invalid_argument,
                 "QueuePairAttributes::rate_limit and path.static_rate must be 0 (no limit) or "
                 "10^3 to 10^15 bits per second"};
  return {};
}

}  // namespace

Requirement requirement(QpType type, QpState from, QpState to) noexcept {
  const Row* row = find_row(from, to);
  if (row == nullptr) return {};
  if (!is_xrc(type)) {
    const auto column = static_cast<size_t>(type);
    WEFT_DCHECK(column < row->required.size());
    return {true, row->required[column], row->optional[column]};
  }
  const A missing = type == QpType::xrc_initiator ? kRcResponder : kRcRequester;
  const A ours = without(kAll, missing | A::selective_repeat);
  return {true, row->required[0] & ours, row->optional[0] & ours};
}

Attribute attributes_set(const QueuePairAttributes& c) noexcept {
  Attribute set = A::none;
  const auto add = [&set](bool present, Attribute attribute) {
    if (present) set = set | attribute;
  };
  add(c.current_state.has_value(), A::current_state);
  add(c.pkey_index.has_value(), A::pkey_index);
  add(c.port.has_value(), A::port);
  add(c.access.has_value(), A::access);
  add(c.qkey.has_value(), A::qkey);
  add(c.path.has_value(), A::path);
  add(c.path_mtu.has_value(), A::path_mtu);
  add(c.dest_qpn.has_value(), A::dest_qpn);
  add(c.rq_psn.has_value(), A::rq_psn);
  add(c.sq_psn.has_value(), A::sq_psn);
  add(c.max_dest_rd_atomic.has_value(), A::max_dest_rd_atomic);
  add(c.max_rd_atomic.has_value(), A::max_rd_atomic);
  add(c.min_rnr_timer.has_value(), A::min_rnr_timer);
  add(c.timeout.has_value(), A::timeout);
  add(c.retry_count.has_value(), A::retry_count);
  add(c.rnr_retry.has_value(), A::rnr_retry);
  add(c.sq_drained_event.has_value(), A::sq_drained_event);
  add(c.telemetry.has_value(), A::telemetry);
  add(c.selective_repeat.has_value(), A::selective_repeat);
  add(c.rate_limit.has_value(), A::rate_limit);
  return set;
}

Result<void> check_modify(QpType type, QpState current, const QueuePairAttributes& change,
                          const ModifyLimits& limits) {
  WEFT_DCHECK(std::has_single_bit(limits.max_mtu) && limits.max_mtu >= 256);
  const QpState to = change.state.value_or(current);
  const Requirement rule = requirement(type, current, to);
  if (!rule.legal) return illegal_transition(type, current, to);
  WEFT_DCHECK((rule.required & rule.optional) == A::none);

  const Attribute set = attributes_set(change);
  const std::string transition = describe(type, current, to);
  for (const AttributeName& entry : kAttributeNames) {
    if (has(rule.required, entry.attribute) && !has(set, entry.attribute))
      return Error{Code::invalid_argument, transition + " needs `" + entry.name + "`, " +
                                               entry.meaning +
                                               "; set QueuePairAttributes::" + entry.name};
  }
  for (const AttributeName& entry : kAttributeNames) {
    if (has(set, entry.attribute) && !has(rule.required | rule.optional, entry.attribute))
      return Error{Code::invalid_argument, transition + " does not take `" + entry.name +
                                               "`; it takes " +
                                               list_names(rule.required | rule.optional)};
  }
  // The table allows current_state only in transitions to RTS. //= roce:C-STATE-58
  if (change.current_state && *change.current_state != current)
    return Error{Code::bad_state, "QueuePairAttributes::current_state says " +
                                      upper_case(name(*change.current_state)) +
                                      ", but the queue pair is in " + upper_case(name(current))};
  if (const Result<void> mtu = check_mtu(change, limits); !mtu) return mtu;
  return check_numbers(change, limits);
}

}  // namespace weft::transport
