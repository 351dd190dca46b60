// SPDX-License-Identifier: BSD-3-Clause
// lib/transport/qp_attributes: the 7 x 7 x 5 matrix of transitions, written here as text in another
// form than the table's; each needed attribute left out, each other one added; the range of every
// value; and that messages name the attribute and the remedy.
#include <map>
#include <string>
#include <vector>

#include "lib/transport/qp_attributes.hpp"
#include "tests/support/catch.hpp"

using weft::Access;
using weft::Code;
using weft::has;
using weft::operator|;
using weft::Psn;
using weft::QpNum;
using weft::QpState;
using weft::QpType;
using weft::QueuePairAttributes;
using weft::Result;
using weft::transport::Attribute;
using weft::transport::attributes_set;
using weft::transport::check_modify;
using weft::transport::ModifyLimits;
using weft::transport::Requirement;
using weft::transport::requirement;

namespace {

constexpr ModifyLimits kLimits = {.max_mtu = 4096, .max_rd_atomic = 16};
const std::vector<QpType> kTypes = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_initiator,
                                    QpType::xrc_target};
const std::vector<QpState> kStates = {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                                      QpState::sqd,   QpState::sqe,  QpState::err};

// How to set each attribute to a legal value, by its bit.
using Setter = void (*)(QueuePairAttributes&);
const std::map<Attribute, std::pair<std::string, Setter>> kSetters = {
    {Attribute::pkey_index, {"pkey_index", [](auto& a) { a.pkey_index = 0; }}},
    {Attribute::port, {"port", [](auto& a) { a.port = 1; }}},
    {Attribute::access, {"access", [](auto& a) { a.access = Access::all; }}},
    {Attribute::qkey, {"qkey", [](auto& a) { a.qkey = 0x11111111; }}},
    {Attribute::path, {"path", [](auto& a) { a.path = weft::AddressVector{}; }}},
    {Attribute::path_mtu, {"path_mtu", [](auto& a) { a.path_mtu = 1024; }}},
    {Attribute::dest_qpn, {"dest_qpn", [](auto& a) { a.dest_qpn = QpNum{17}; }}},
    {Attribute::rq_psn, {"rq_psn", [](auto& a) { a.rq_psn = Psn{0xFFFFFF}; }}},
    {Attribute::sq_psn, {"sq_psn", [](auto& a) { a.sq_psn = Psn{0}; }}},
    {Attribute::max_dest_rd_atomic,
     {"max_dest_rd_atomic", [](auto& a) { a.max_dest_rd_atomic = 16; }}},
    {Attribute::max_rd_atomic, {"max_rd_atomic", [](auto& a) { a.max_rd_atomic = 0; }}},
    {Attribute::min_rnr_timer, {"min_rnr_timer", [](auto& a) { a.min_rnr_timer = 31; }}},
    {Attribute::timeout, {"timeout", [](auto& a) { a.timeout = 31; }}},
    {Attribute::retry_count, {"retry_count", [](auto& a) { a.retry_count = 7; }}},
    {Attribute::rnr_retry, {"rnr_retry", [](auto& a) { a.rnr_retry = 7; }}},
    {Attribute::sq_drained_event, {"sq_drained_event", [](auto& a) { a.sq_drained_event = true; }}},
    {Attribute::telemetry, {"telemetry", [](auto& a) { a.telemetry = true; }}},
    {Attribute::selective_repeat, {"selective_repeat", [](auto& a) { a.selective_repeat = true; }}},
    {Attribute::rate_limit, {"rate_limit", [](auto& a) { a.rate_limit = weft::RateLimit{}; }}},
};

QueuePairAttributes change_to(QpState to, Attribute set) {
  QueuePairAttributes change;
  change.state = to;
  for (const auto& [attribute, setter] : kSetters)
    if (has(set, attribute)) setter.second(change);
  return change;
}

Attribute without(Attribute set, Attribute one) {
  return static_cast<Attribute>(static_cast<uint32_t>(set) & ~static_cast<uint32_t>(one));
}

Code code_of(const Result<void>& result) { return result ? Code::ok : result.error().code; }

bool says(const Result<void>& result, const std::string& words) {
  return !result && result.error().message.find(words) != std::string::npos;
}

// A row per state it comes from; the letters are RESET, INIT, rtR, rtS, sqD, sqE, eRr by column.
const std::map<QpState, std::string> kLegal = {
    {QpState::reset, "yy....."}, {QpState::init, "yyy...y"}, {QpState::rtr, "y..y..y"},
    {QpState::rts, "y..yy.y"},   {QpState::sqd, "y..yy.y"},  {QpState::sqe, "y..y..y"},
    {QpState::err, "y.....y"},
};

using Names = std::map<std::pair<QpState, QpState>, std::map<QpType, std::string>>;
// IBTA 11.2.5.2 as the conformance rules spell it. Transitions that are not listed need nothing.
const Names kRequired = {
    {{QpState::reset, QpState::init},
     {{QpType::rc, "pkey_index port access"},
      {QpType::uc, "pkey_index port access"},
      {QpType::ud, "pkey_index port qkey"}}},
    {{QpState::init, QpState::rtr},
     {{QpType::rc, "path path_mtu dest_qpn rq_psn max_dest_rd_atomic min_rnr_timer"},
      {QpType::uc, "path path_mtu dest_qpn rq_psn"},
      {QpType::ud, ""}}},
    {{QpState::rtr, QpState::rts},
     {{QpType::rc, "timeout retry_count rnr_retry sq_psn max_rd_atomic"},
      {QpType::uc, "sq_psn"},
      {QpType::ud, "sq_psn"}}},
};
const std::map<QpType, std::string> kResume = {{QpType::rc, "access min_rnr_timer rate_limit"},
                                               {QpType::uc, "access rate_limit"},
                                               {QpType::ud, "qkey rate_limit"}};
const Names kOptional = {
    {{QpState::init, QpState::init},
     {{QpType::rc, "pkey_index port access"},
      {QpType::uc, "pkey_index port access"},
      {QpType::ud, "pkey_index port qkey"}}},
    {{QpState::init, QpState::rtr},
     {{QpType::rc, "pkey_index access telemetry selective_repeat"},
      {QpType::uc, "pkey_index access"},
      {QpType::ud, "pkey_index qkey"}}},
    {{QpState::rtr, QpState::rts}, kResume},
    {{QpState::rts, QpState::rts}, kResume},
    {{QpState::sqd, QpState::rts}, kResume},
    {{QpState::sqe, QpState::rts},
     {{QpType::rc, ""}, {QpType::uc, "access rate_limit"}, {QpType::ud, "qkey rate_limit"}}},
    {{QpState::rts, QpState::sqd},
     {{QpType::rc, "sq_drained_event"},
      {QpType::uc, "sq_drained_event"},
      {QpType::ud, "sq_drained_event"}}},
    {{QpState::sqd, QpState::sqd},
     {{QpType::rc,
       "pkey_index port access path max_dest_rd_atomic max_rd_atomic min_rnr_timer timeout "
       "retry_count rnr_retry rate_limit"},
      {QpType::uc, "pkey_index access path rate_limit"},
      {QpType::ud, "pkey_index qkey rate_limit"}}},
};

// XRC: RC without what is the other end's, and without selective repeat.
bool of_other_end(QpType type, const std::string& name) {
  const std::string answers = " max_dest_rd_atomic min_rnr_timer ",
                    asks = " timeout retry_count rnr_retry max_rd_atomic ";
  return name == "selective_repeat" ||
         (type == QpType::xrc_initiator ? answers : asks).find(" " + name + " ") !=
             std::string::npos;
}

// Whether `name` is one of the words that the rules list for a transition.
bool lists(const Names& names, QpState from, QpState to, QpType type, const std::string& name) {
  const auto found = names.find({from, to});
  if (found == names.end()) return false;
  if (is_xrc(type)) return !of_other_end(type, name) && lists(names, from, to, QpType::rc, name);
  return (" " + found->second.at(type) + " ").find(" " + name + " ") != std::string::npos;
}

template <class Fn>
void for_each_legal(Fn fn) {
  for (const QpType type : kTypes)
    for (const QpState from : kStates)
      for (const QpState to : kStates)
        if (const Requirement rule = requirement(type, from, to); rule.legal)
          fn(type, from, to, rule.required, rule.optional);
}

}  // namespace

TEST_CASE("roce:C-STATE-54 the matrix of transitions for all types") {
  for (const QpType type : kTypes)
    for (const QpState from : kStates)
      for (const QpState to : kStates) {
        const bool legal = kLegal.at(from)[static_cast<size_t>(to)] == 'y';
        INFO(name(type) << " " << name(from) << " -> " << name(to));
        const Requirement rule = requirement(type, from, to);
        CHECK(rule.legal == legal);
        const Result<void> result = check_modify(type, from, change_to(to, rule.required), kLimits);
        CHECK(code_of(result) == (legal ? Code::ok : Code::bad_state));
      }
}

TEST_CASE("roce:C-STATE-55 roce:C-STATE-56 exactly the listed attributes are needed") {
  for_each_legal([](QpType type, QpState from, QpState to, Attribute required, Attribute optional) {
    for (const auto& [attribute, setter] : kSetters) {
      INFO(name(type) << " " << name(from) << " -> " << name(to) << " " << setter.first);
      const bool needed = lists(kRequired, from, to, type, setter.first);
      CHECK(has(required, attribute) == needed);
      const Result<void> result =
          check_modify(type, from, change_to(to, without(required | optional, attribute)), kLimits);
      CHECK(code_of(result) == (needed ? Code::invalid_argument : Code::ok));
      if (needed) CHECK(says(result, "needs `" + setter.first + "`"));
      if (needed) CHECK(says(result, "set QueuePairAttributes::" + setter.first));
    }
  });
}

TEST_CASE("roce:C-STATE-57 exactly the listed attributes are allowed") {
  for_each_legal([](QpType type, QpState from, QpState to, Attribute required, Attribute) {
    for (const auto& [attribute, setter] : kSetters) {
      INFO(name(type) << " " << name(from) << " -> " << name(to) << " " << setter.first);
      const bool allowed = lists(kRequired, from, to, type, setter.first) ||
                           lists(kOptional, from, to, type, setter.first);
      const Result<void> result =
          check_modify(type, from, change_to(to, required | attribute), kLimits);
      CHECK(code_of(result) == (allowed ? Code::ok : Code::invalid_argument));
      if (!allowed) CHECK(says(result, "does not take `" + setter.first + "`"));
    }
  });
}

TEST_CASE("roce:C-STATE-58 current_state only where the table allows it, and only if it is right") {
  for_each_legal([](QpType type, QpState from, QpState to, Attribute required, Attribute) {
    const bool allowed =
        to == QpState::rts && (from != QpState::sqe || type == QpType::uc || type == QpType::ud);
    for (const QpState claimed : kStates) {
      QueuePairAttributes change = change_to(to, required);
      change.current_state = claimed;
      const Code expected = !allowed          ? Code::invalid_argument
                            : claimed == from ? Code::ok
                                              : Code::bad_state;
      CHECK(code_of(check_modify(type, from, change, kLimits)) == expected);
    }
  });
}

TEST_CASE("without a state the queue pair keeps its state") {
  QueuePairAttributes change;
  change.access = Access::remote_read;
  CHECK(check_modify(QpType::rc, QpState::rts, change, kLimits));
  CHECK(check_modify(QpType::rc, QpState::init, change, kLimits));
  CHECK(code_of(check_modify(QpType::rc, QpState::rtr, change, kLimits)) == Code::bad_state);
  CHECK(code_of(check_modify(QpType::ud, QpState::rts, change, kLimits)) == Code::invalid_argument);
}

TEST_CASE("attributes_set has a bit for each member") {
  CHECK(attributes_set({}) == Attribute::none);
  for (const auto& [attribute, setter] : kSetters) {
    QueuePairAttributes change;
    setter.second(change);
    CHECK(attributes_set(change) == attribute);
  }
}

TEST_CASE("every value has its range, and the message contains it") {
  const auto to_rtr = [](auto set) {
    QueuePairAttributes change =
        change_to(QpState::rtr, requirement(QpType::rc, QpState::init, QpState::rtr).required);
    set(change);
    return check_modify(QpType::rc, QpState::init, change, {.max_mtu = 2048, .max_rd_atomic = 8});
  };
  const auto to_rts = [](auto set) {
    QueuePairAttributes change =
        change_to(QpState::rts, requirement(QpType::rc, QpState::rtr, QpState::rts).required);
    set(change);
    return check_modify(QpType::rc, QpState::rtr, change, {.max_mtu = 2048, .max_rd_atomic = 8});
  };
  for (uint32_t mtu = 0; mtu <= 8192; ++mtu) {  //= roce:C-STATE-137
    const bool good = mtu == 256 || mtu == 512 || mtu == 1024 || mtu == 2048;
    const Result<void> result = to_rtr([&](auto& a) {
      a.path_mtu = mtu;
      a.max_dest_rd_atomic = 8;
    });
    REQUIRE(result.ok() == good);
    if (!good) REQUIRE(says(result, "one of 256, 512, 1024, 2048"));
  }
  CHECK(says(to_rtr([](auto& a) { a.max_dest_rd_atomic = 9; }), "0 to 8"));
  const auto rtr_with = [&](auto set) {
    return to_rtr([&](auto& a) {
      a.max_dest_rd_atomic = 8;
      set(a);
    });
  };
  CHECK(rtr_with([](auto& a) { a.dest_qpn = QpNum{0xFFFFFF}; }));
  CHECK(says(rtr_with([](auto& a) { a.dest_qpn = QpNum{0x1000000}; }), "dest_qpn is 16777216"));
  CHECK(says(rtr_with([](auto& a) { a.rq_psn = Psn{0x1000000}; }), "rq_psn"));
  CHECK(says(rtr_with([](auto& a) { a.min_rnr_timer = 32; }), "0 to 31"));
  CHECK(says(rtr_with([](auto& a) { a.path->flow_label = 1 << 20; }), "flow_label"));
  CHECK(says(rtr_with([](auto& a) { a.pkey_index = 1; }), "pkey_index is 1; it must be 0"));
  CHECK(says(rtr_with([](auto& a) { a.access = static_cast<Access>(16); }), "access"));
  CHECK(to_rts([](auto& a) { a.max_rd_atomic = 8; }));
  CHECK(says(to_rts([](auto& a) { a.max_rd_atomic = 9; }), "max_rd_atomic is 9"));
  CHECK(says(to_rts([](auto& a) { a.timeout = 32; }), "timeout is 32; it must be 0 to 31"));
  CHECK(says(to_rts([](auto& a) { a.retry_count = 8; }), "retry_count is 8; it must be 0 to 7"));
  CHECK(says(to_rts([](auto& a) { a.rnr_retry = 8; }), "rnr_retry is 8; it must be 0 to 7"));
  CHECK(says(to_rts([](auto& a) { a.sq_psn = Psn{0x1000000}; }), "sq_psn"));
  for (const uint8_t port : {0, 2, 255}) {
    QueuePairAttributes change =
        change_to(QpState::init, requirement(QpType::rc, QpState::reset, QpState::init).required);
    change.port = port;
    CHECK(says(check_modify(QpType::rc, QpState::reset, change, kLimits), "it must be 1"));
  }
}

TEST_CASE("messages are sentences with a remedy") {
  const Result<void> missing = check_modify(
      QpType::rc, QpState::reset, {.state = QpState::init, .pkey_index = 0, .port = 1}, kLimits);
  REQUIRE(!missing);
  CHECK(missing.error().message ==
        "RESET -> INIT of an RC queue pair needs `access`, what the peer may do through this queue "
        "pair; set QueuePairAttributes::access");
  const Result<void> skipped =
      check_modify(QpType::ud, QpState::init, {.state = QpState::rts}, kLimits);
  REQUIRE(!skipped);
  CHECK(skipped.error().message ==
        "INIT -> RTS of a UD queue pair is not a legal transition; from INIT it can go to INIT, "
        "RTR, RESET, ERR");
}
