// SPDX-License-Identifier: BSD-3-Clause
// Texts of failures, and the end of a failed communicator.
#include "lib/collective/faults/failure.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr Duration kReadLimit = Duration::from_ms(40);
constexpr Duration kAbortLimit = Duration::from_ms(200);

}  // namespace

std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

Failure describe_failure(const FailureReport& report) {
  Failure failure{.code = report.code, .rank = report.rank};
  const std::string call = describe(report.call);
  switch (report.code) {
    case Code::peer_failed:
      failure.text = "PEER_FAILED: rank " + std::to_string(report.rank) + " failed during " + call +
                     ": " + report.reason;
      break;
    case Code::mismatch:
      failure.text = "MISMATCH: " + report.reason;
      break;
    default:
      failure.text = call + ": " + report.reason;
  }
  if (report.reporter)
    failure.text += " (reported by rank " + std::to_string(*report.reporter) + ")";
  failure.collective = report.call.collective;
  failure.sequence = report.call.sequence;
  return failure;
}

void Teardown::begin(const FailureReport& report, Links links, bool peers_write) {
  WEFT_DCHECK(abort_.kind != ControlKind::abort && report.code != Code::ok);
  peers_write_ = peers_write;
  abort_ = {.kind = ControlKind::abort, .code = report.code, .rank = report.rank};
  abort_.call = report.call;
  const size_t length = std::min(report.reason.size(), sizeof abort_.text);
  std::memcpy(abort_.text, report.reason.data(), length);
  for (const std::unique_ptr<Link>& link : links)
    if (link->peer() != report.rank || report.code != Code::peer_failed)
      link->deliver_abort(abort_);
    else
      link->abort_link();
}

void Teardown::start_timers(Instant now) {
  abort_links_at_ = now + kReadLimit;
  give_up_at_ = now + kAbortLimit;
}

bool Teardown::memory_unused(Links links, Instant now) {
  WEFT_DCHECK(abort_.kind == ControlKind::abort && abort_links_at_ < give_up_at_);
  for (const std::unique_ptr<Link>& link : links) {
    if (!link->reads_caller_memory()) continue;
    if (now <= abort_links_at_ && !link->disconnected) return false;
    link->abort_link();
  }
  bool delivered = true;
  for (const std::unique_ptr<Link>& link : links)
    if (peers_write_) delivered &= link->deliver_abort(abort_);
  return delivered || now >= give_up_at_;
}

}  // namespace weft::collective
