// SPDX-License-Identifier: BSD-3-Clause
// The receiver of RCCC: round robin among the senders that request credit; idle senders get slow
// grants.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/congestion/rccc.hpp"

namespace weft::congestion {
namespace {

constexpr uint32_t kEmptyGrant = 1024 / kCreditUnit;  // time, in units, of a grant of no credit

}  // namespace

uint32_t CreditPacer::add() {
  if (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    senders_[number] = Sender{};
    return number;
  }
  const size_t count = senders_.size() + 1;
  if (free_.capacity() < count) free_.reserve(2 * count);
  waiting_.reserve(count);
  idle_.reserve(count);
  senders_.emplace_back();
  return static_cast<uint32_t>(count - 1);
}

void CreditPacer::request_credit(uint32_t number, uint32_t total) {
  WEFT_DCHECK(number < senders_.size());
  Sender& sender = senders_[number];
  if (static_cast<int32_t>(total - sender.requested) <= 0) return;
  sender.requested = total;
  ask(number);
}

void CreditPacer::ask(uint32_t number) {
  WEFT_DCHECK(number < senders_.size());
  Sender& sender = senders_[number];
  if (sender.waiting || sender.done) return;
  sender.waiting = true;
  waiting_.push(number);
}

void CreditPacer::remove(uint32_t number) {
  WEFT_DCHECK(number < senders_.size());
  senders_[number].done = true;
}

void CreditPacer::recycle(uint32_t number) {
  WEFT_DCHECK(number < senders_.size() && !senders_[number].recycled);
  senders_[number].done = senders_[number].recycled = true;
  end(number);
}

// A number is free when it is in neither queue.
void CreditPacer::end(uint32_t number) {
  const Sender& sender = senders_[number];
  if (sender.recycled && !sender.waiting && !sender.idle) free_.push_back(number);
}

Duration CreditPacer::time_for(uint32_t units) const {
  WEFT_DCHECK(rules_.bits_per_second > 0);
  const double bits = double(std::max(units, 1u)) * kCreditUnit * 8;
  return {std::max<int64_t>(1, static_cast<int64_t>(bits * 1e12 / rules_.bits_per_second))};
}

// An idle sender is granted credit ahead of its requests, up to a window.
bool CreditPacer::idles(const Sender& sender) const {
  return sender.granted - sender.requested < rules_.most_bytes / kCreditUnit;  // and not behind
}

std::optional<CreditPacer::Grant> CreditPacer::grant() {
  while (!waiting_.empty()) {
    const uint32_t number = waiting_.pop();
    Sender& sender = senders_[number];
    WEFT_DCHECK(sender.waiting);
    sender.waiting = false;
    if (sender.done) {
      end(number);
      continue;
    }
    const auto missing =
        static_cast<uint32_t>(std::max(static_cast<int32_t>(sender.requested - sender.granted), 0));
    const uint32_t units = std::min(missing, units_per_grant());
    WEFT_DCHECK(units <= missing);
    sender.granted += units;
    sender.waiting = missing > units;
    if (sender.waiting) {
      waiting_.push(number);
    } else if (!sender.idle) {
      sender.idle = true;
      idle_.push(number);
    }
    return Grant{number, sender.granted, time_for(units != 0 ? units : kEmptyGrant)};
  }
  while (!idle_.empty()) {
    const uint32_t number = idle_.pop();
    Sender& sender = senders_[number];
    WEFT_DCHECK(sender.idle);
    sender.idle = false;
    if (sender.done) {
      end(number);
      continue;
    }
    sender.granted += units_per_grant();
    sender.idle = idles(sender);
    if (sender.idle) idle_.push(number);
    return Grant{number, sender.granted, time_for(units_per_grant())};
  }
  return std::nullopt;
}

}  // namespace weft::congestion
