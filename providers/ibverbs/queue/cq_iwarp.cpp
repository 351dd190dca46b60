// SPDX-License-Identifier: BSD-3-Clause
// Completion queues of iWARP: what comes from the device is looked up in the ledger of its queue
// pair, and a failure ends that queue pair as it does on RoCE.
#include <algorithm>

#include "providers/ibverbs/queue/cq.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

void Cq::track(QpNum number, std::shared_ptr<Ledger> ledger) {
  const std::lock_guard lock(turn_);
  ledgers_.erase(number);
  set_aside();  // but what is of the last one with this number
  flushed_.forget(number);
  ledgers_[number] = std::move(ledger);
}

void Cq::drop(QpNum number, const Ledger& ledger) noexcept {
  const std::lock_guard lock(turn_);
  const auto found = ledgers_.find(number);
  if (found == ledgers_.end() || found->second.get() != &ledger) return;
  ledgers_.erase(found);
  set_aside();
  flushed_.forget(number);
}

// The ledger of a completion's queue pair; null if the request is not outstanding: the queue pair
// is destroyed, or the request was flushed.
std::shared_ptr<Ledger> Cq::claim(const ibv_wc& done) noexcept {
  const auto found = ledgers_.find(QpNum{done.qp_num});
  if (found == ledgers_.end()) return nullptr;
  const bool receive = (done.opcode & IBV_WC_RECV) != 0;
  const bool good = done.status == IBV_WC_SUCCESS;
  return found->second->takes(done.wr_id, receive, good) ? found->second : nullptr;
}

// Drains the device's queue; under the mutex that keeps the order.
void Cq::set_aside() noexcept {
  ibv_wc done{};
  while (ibv_poll_cq(raw(), 1, &done) == 1) {
    std::shared_ptr<Ledger> ledger = claim(done);
    if (ledger == nullptr) continue;
    Completion c;
    take(done, c);
    flushed_.add(c);
    const bool known =
        std::find(failed_aside_.begin(), failed_aside_.end(), ledger) != failed_aside_.end();
    if (done.status != IBV_WC_SUCCESS && !known) failed_aside_.push_back(std::move(ledger));
  }
}

void Cq::flush_outstanding(Ledger& ledger, void (Ledger::*rest)(Flushed&)) {
  const std::lock_guard lock(turn_);
  set_aside();
  (ledger.*rest)(flushed_);
}

size_t Cq::take_until_failure(std::span<Completion> out, std::shared_ptr<Ledger>& failed) noexcept {
  const std::lock_guard lock(turn_);
  if (!failed_aside_.empty()) {
    failed = std::move(failed_aside_.back());
    failed_aside_.pop_back();
  }
  size_t n = flushed_.take(out);
  ibv_wc done{};
  while (failed == nullptr && n < out.size() && ibv_poll_cq(raw(), 1, &done) == 1) {
    const std::shared_ptr<Ledger> ledger = claim(done);
    if (ledger == nullptr) continue;
    take(done, out[n++]);
    if (done.status != IBV_WC_SUCCESS) failed = ledger;
  }
  return n;
}

// After a failed request siw leaves the queue pair in RTS and keeps the later requests: this moves
// it to ERR, at most once.
size_t Cq::poll_by_ledger(std::span<Completion> out) noexcept {
  size_t total = 0;
  for (std::shared_ptr<Ledger> failed; total < out.size(); failed.reset()) {
    total += take_until_failure(out.subspan(total), failed);
    if (failed == nullptr) break;
    const std::shared_ptr<verbs::Qp> owner = failed->owner.lock();
    if (owner != nullptr && owner->state() != QpState::err)
      (void)owner->modify({.state = QpState::err});
  }
  return total;
}

}  // namespace weft::ibverbs
