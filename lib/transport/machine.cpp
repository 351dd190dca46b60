// SPDX-License-Identifier: BSD-3-Clause
// The parts of a protocol machine that both protocols share: events, and the ICRC of frames.
#include "lib/transport/machine.hpp"

#include <cstring>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::transport {

namespace {
constexpr size_t kMaxEvents = 65536;
}  // namespace

Machine::Machine(Port& port, base::SecureRandom& random)
    : port_(port),
      capabilities_(port.capabilities()),
      random_(random),
      keys_(random),
      builder_(capabilities_) {}

Machine::~Machine() = default;

bool Machine::verify_icrc(const Frame& frame, uint16_t destination_port) noexcept {
  WEFT_DCHECK(frame.path != nullptr && frame.bytes != nullptr);
  WEFT_DCHECK(frame.length >= wire::kIcrcLength);  // checked before: Count::rx_too_short
  if (has_icrc(frame, destination_port)) {
    if (icrc_watch_.watching()) icrc_watch_.on_good(frame.path->source);
    return true;
  }
  if (icrc_watch_.on_bad(frame.path->source)) {
    count(Count::peers_failing_icrc);
    has_new_events_ = true;
  }
  return false;
}

bool Machine::has_icrc(const Frame& frame, uint16_t destination_port) const noexcept {
  if (!signs_) {
    constexpr std::byte kNone[wire::kIcrcLength]{};
    return std::memcmp(frame.bytes + frame.length - sizeof kNone, kNone, sizeof kNone) == 0;
  }
  const Path& path = *frame.path;
  wire::OuterHeader outer{&path.source, &path.destination, path.source_port, destination_port,
                          frame.ip_id};
  if (frame.ip_id_known) return wire::icrc_verify(outer, frame.bytes, frame.length);
  return wire::icrc_verify_unknown_id(outer, frame.bytes, frame.length);
}

// The event is raised once per queue.
void Machine::note_overrun(QpNum qp, CompletionQueue& cq) noexcept {
  count(Count::cq_overruns);
  if (!cq.overrun())
    raise({.type = EventType::cq_error, .qp = qp, .completion_queue = cq.number()});
  cq.close();  //= threat:A21 what is not polled has no more memory than it was created with
  WEFT_DCHECK(cq.overrun());
}

void Machine::raise(const AsyncEvent& event) noexcept {
  const bool kept =
      events_.size() < kMaxEvents && base::memory_permitting([&] { events_.push_back(event); });
  WEFT_DCHECK(events_.size() <= kMaxEvents);
  if (!kept) count(Count::events_lost);  //= threat:A28
  incidents_.add({.event = event, .qp = event.qp});
  has_new_events_ = true;
}

void Machine::note_failure(const Incident& failure) noexcept {
  WEFT_DCHECK(failure.status != Status::success);
  incidents_.add(failure);
  has_new_events_ = true;
}

bool Machine::next_event(AsyncEvent& event) noexcept {
  WEFT_DCHECK(events_.size() <= kMaxEvents);
  if (events_.empty()) return false;
  event = events_.front();
  events_.pop_front();
  return true;
}

}  // namespace weft::transport
