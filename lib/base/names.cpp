// SPDX-License-Identifier: BSD-3-Clause
// The names of public enumerators, for logs, counters and JSON, and addresses as text. The switches
// have no default, so that the compiler reports a missing enumerator.
#include <arpa/inet.h>

#include "lib/base/guarded.hpp"
#include "weft/cq.hpp"
#include "weft/device.hpp"
#include "weft/types.hpp"
#include "weft/wr.hpp"

namespace weft {

std::string_view name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::no_memory:
      return "no_memory";
    case Code::not_supported:
      return "not_supported";
    case Code::permission_denied:
      return "permission_denied";
    case Code::busy:
      return "busy";
    case Code::would_block:
      return "would_block";
    case Code::timed_out:
      return "timed_out";
    case Code::disconnected:
      return "disconnected";
    case Code::address_in_use:
      return "address_in_use";
    case Code::queue_full:
      return "queue_full";
    case Code::bad_state:
      return "bad_state";
    case Code::io_error:
      return "io_error";
    case Code::peer_failed:
      return "peer_failed";
    case Code::mismatch:
      return "mismatch";
    case Code::canceled:
      return "canceled";
  }
  return "unknown";
}

std::string_view name(QpType type) noexcept {
  switch (type) {
    case QpType::rc:
      return "rc";
    case QpType::uc:
      return "uc";
    case QpType::ud:
      return "ud";
    case QpType::srd:
      return "srd";
    case QpType::xrc_initiator:
      return "xrc_initiator";
    case QpType::xrc_target:
      return "xrc_target";
  }
  return "unknown";
}

std::string_view name(QpState state) noexcept {
  switch (state) {
    case QpState::reset:
      return "reset";
    case QpState::init:
      return "init";
    case QpState::rtr:
      return "rtr";
    case QpState::rts:
      return "rts";
    case QpState::sqd:
      return "sqd";
    case QpState::sqe:
      return "sqe";
    case QpState::err:
      return "err";
  }
  return "unknown";
}

std::string_view name(Status status) noexcept {
  switch (status) {
    case Status::success:
      return "success";
    case Status::local_length_error:
      return "local_length_error";
    case Status::local_qp_operation_error:
      return "local_qp_operation_error";
    case Status::local_protection_error:
      return "local_protection_error";
    case Status::flushed:
      return "flushed";
    case Status::mw_bind_error:
      return "mw_bind_error";
    case Status::bad_response:
      return "bad_response";
    case Status::local_access_error:
      return "local_access_error";
    case Status::remote_invalid_request:
      return "remote_invalid_request";
    case Status::remote_access_error:
      return "remote_access_error";
    case Status::remote_operation_error:
      return "remote_operation_error";
    case Status::retry_exceeded:
      return "retry_exceeded";
    case Status::rnr_retry_exceeded:
      return "rnr_retry_exceeded";
    case Status::remote_aborted:
      return "remote_aborted";
    case Status::fatal:
      return "fatal";
  }
  return "unknown";
}

std::string_view name(PathHealth health) noexcept {
  switch (health) {
    case PathHealth::good:
      return "good";
    case PathHealth::slow:
      return "slow";
    case PathHealth::dead:
      return "dead";
    case PathHealth::probing:
      return "probing";
  }
  return "unknown";
}

std::string_view name(PortState state) noexcept {
  switch (state) {
    case PortState::down:
      return "down";
    case PortState::init:
      return "init";
    case PortState::armed:
      return "armed";
    case PortState::active:
      return "active";
  }
  return "unknown";
}

std::string_view name(GidType type) noexcept {
  switch (type) {
    case GidType::ib:
      return "ib";
    case GidType::roce_v1:
      return "roce_v1";
    case GidType::roce_v2:
      return "roce_v2";
  }
  return "unknown";
}

std::string_view name(EventType type) noexcept {
  switch (type) {
    case EventType::qp_fatal:
      return "qp_fatal";
    case EventType::qp_request_error:
      return "qp_request_error";
    case EventType::qp_access_error:
      return "qp_access_error";
    case EventType::comm_established:
      return "comm_established";
    case EventType::sq_drained:
      return "sq_drained";
    case EventType::cq_error:
      return "cq_error";
    case EventType::port_active:
      return "port_active";
    case EventType::port_error:
      return "port_error";
    case EventType::last_wqe_reached:
      return "last_wqe_reached";
    case EventType::srq_limit_reached:
      return "srq_limit_reached";
    case EventType::device_fatal:
      return "device_fatal";
    case EventType::gid_change:
      return "gid_change";
  }
  return "unknown";
}

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (gid.is_ipv4())
    inet_ntop(AF_INET, gid.bytes.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

Result<Gid> parse_gid(std::string_view text) {
  return base::guarded([&]() -> Result<Gid> {
    const std::string copy(text);  // inet_pton() needs a terminating zero
    Gid gid;
    if (copy.find('\0') == std::string::npos) {
      uint8_t v4[4];
      if (inet_pton(AF_INET, copy.c_str(), v4) == 1)
        return Gid::from_ipv4(v4[0], v4[1], v4[2], v4[3]);
      if (inet_pton(AF_INET6, copy.c_str(), gid.bytes.data()) == 1) return gid;
    }
    return Error{Code::invalid_argument,
                 "\"" + copy +
                     "\" is not an address: write a.b.c.d or IPv6 notation without brackets "
                     "and without a zone"};
  });
}

}  // namespace weft
