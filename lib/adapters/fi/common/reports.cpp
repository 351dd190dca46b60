// SPDX-License-Identifier: BSD-3-Clause
// See reports.hpp.
#include "lib/adapters/fi/common/reports.hpp"

#include <utility>

#include "lib/adapters/fi/common/calls.hpp"

namespace weft::fi {
namespace {

constexpr uint64_t kCounted = FI_SEND | FI_READ | FI_WRITE | FI_RECV;
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kDirections = FI_SEND | FI_RECV;

}  // namespace

void Reports::report(const CqEntry& entry, bool reports) const noexcept {
  Cntr* const cntr = entry.flags & (FI_SEND | FI_RECV) ? send_or_receive
                     : entry.flags & FI_READ           ? read
                     : entry.flags & FI_WRITE          ? write
                                                       : nullptr;
  if (cntr != nullptr) cntr->count(entry.error);
  if (cq != nullptr && (reports || entry.error != 0)) cq->push(entry);
}

int Directions::bind(Cq& cq, uint64_t flags) noexcept {
  if ((flags & kDirections) == 0 || (flags & ~(kDirections | FI_SELECTIVE_COMPLETION)) != 0)
    return -FI_EBADFLAGS;
  for (auto [direction, reports] : {std::pair{FI_SEND, &transmit}, std::pair{FI_RECV, &receive}}) {
    if ((flags & direction) == 0) continue;
    if (reports->cq != nullptr) return -FI_EINVAL;
    reports->cq = &cq;
    reports->selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    ++cq.users;
  }
  return 0;
}

int Directions::bind(Cntr& cntr, uint64_t flags) noexcept {
  if (flags == 0 || (flags & ~(kCounted | kRemote)) != 0) return -FI_EBADFLAGS;
  if ((flags & kRemote) != 0 && !has_remote_events)
    return not_supported(FI_LOG_EP_CTRL,
                         "fi_ep_bind: counters of remote operations need FI_RMA_EVENT");
  for (auto [flag, slot] :
       {std::pair{FI_SEND, &transmit.send_or_receive}, std::pair{FI_READ, &transmit.read},
        std::pair{FI_WRITE, &transmit.write}, std::pair{FI_RECV, &receive.send_or_receive},
        std::pair{FI_REMOTE_READ, &receive.read}, std::pair{FI_REMOTE_WRITE, &receive.write}}) {
    if ((flags & flag) == 0) continue;
    if (*slot != nullptr) return -FI_EINVAL;
    *slot = &cntr;
    ++cntr.users;
  }
  return 0;
}

int Directions::control(int command, void* arg) noexcept {
  if (command != FI_GETOPSFLAG && command != FI_SETOPSFLAG) return -FI_ENOSYS;
  auto& flags = *static_cast<uint64_t*>(arg);
  if ((flags & kDirections) == kDirections || (flags & kDirections) == 0) return -FI_EINVAL;
  Reports& reports = flags & FI_SEND ? transmit : receive;
  if (command == FI_GETOPSFLAG)
    flags = reports.flags;
  else
    reports.flags = flags & ~kDirections;
  return 0;
}

void Directions::add(Progress* source) {
  for (const Reports* reports : {&transmit, &receive}) {
    if (reports->cq != nullptr) reports->cq->waiting.add(source);
    for (Cntr* cntr : reports->counters())
      if (cntr != nullptr) cntr->waiting.add(source);
  }
}

void Directions::release(Progress* source) noexcept {
  for (Reports* reports : {&transmit, &receive}) {
    if (reports->cq != nullptr) {
      if (source != nullptr) reports->cq->waiting.remove(source);
      --reports->cq->users;
    }
    for (Cntr* cntr : reports->counters()) {
      if (cntr == nullptr) continue;
      if (source != nullptr) cntr->waiting.remove(source);
      --cntr->users;
    }
    *reports = {};
  }
}

}  // namespace weft::fi
