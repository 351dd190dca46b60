// SPDX-License-Identifier: BSD-3-Clause
// Atomics of the program as messages, which the target executes and answers: target.hpp.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"
#include "lib/adapters/fi/rdm/own_wire.hpp"

namespace weft::fi {
ssize_t Rdm::post_atomic(fi_addr_t to, std::span<const std::byte> request, const iovec* results,
                         size_t result_count, void* context, uint64_t flags,
                         uint64_t completes_as) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    message::Peer peer;
    if (const ssize_t code = find_target(to, flags, peer)) return code;
    if (peers_[peer].asked >= kQuestions) return -FI_EAGAIN;
    std::vector<std::byte> bytes(request.begin(), request.end());
    Atomic& asked = atomics_.take();
    const base::BigEndian<uint32_t> number = asked.number;
    std::memcpy(bytes.data() + offsetof(AtomicRequest, number), &number, sizeof number);
    try {
      own_.send(peer, std::move(bytes)).atomic = asked.number;
    } catch (const std::bad_alloc&) {
      atomics_.give(asked);
      throw;
    }
    asked.peer = peer;
    asked.context = context;
    asked.flags = completes_as;
    asked.reports = (flags & FI_COMPLETION) != 0;
    std::copy(results, results + result_count, asked.results.begin());
    asked.result_count = result_count;
    peers_.begin(peer);
    ++peers_[peer].asked;
    return 0;
  });
}

void Rdm::finish_atomic(Atomic& asked, Status status) {
  CqEntry entry;
  entry.context = asked.context;
  entry.flags = asked.flags;
  entry.error = code_of(status);
  entry.prov_error = static_cast<int>(status);
  peers_.end(asked.peer);
  --peers_[asked.peer].asked;
  atomics_.give(asked);
  bound.transmit.report(entry, asked.reports);
}

void Rdm::on_atomic_answer(message::Peer from, std::span<const std::byte> bytes) {
  AtomicAnswer answer;
  if (bytes.size() < sizeof answer) return;
  std::memcpy(&answer, bytes.data(), sizeof answer);
  Atomic* const asked = atomics_.find(answer.number);
  if (asked == nullptr || asked->peer != from) return;
  if (answer.status != 0)
    return finish_atomic(*asked, answer.status <= static_cast<uint8_t>(Status::fatal)
                                     ? static_cast<Status>(answer.status)
                                     : Status::bad_response);
  std::span<const std::byte> values = bytes.subspan(sizeof answer);
  size_t wanted = 0;
  for (size_t i = 0; i < asked->result_count; ++i) wanted += asked->results[i].iov_len;
  if (values.size() != wanted) return finish_atomic(*asked, Status::bad_response);
  for (size_t i = 0; i < asked->result_count; ++i) {
    const iovec& into = asked->results[i];
    if (into.iov_len != 0) std::memcpy(into.iov_base, values.data(), into.iov_len);
    values = values.subspan(into.iov_len);
  }
  finish_atomic(*asked, Status::success);
}

}  // namespace weft::fi
