// SPDX-License-Identifier: BSD-3-Clause
// Atomics as messages: the target's endpoint executes the operation on a registered region and
// answers with the former values. All atomics of a domain exclude each other; they are not atomic
// with WRITEs.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/atomic_execute.hpp"
#include "lib/adapters/fi/rdm/atomic_wire.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"

namespace weft::fi {
namespace {

uint64_t access_for(AtomicForm form, unsigned op) noexcept {
  if (op == FI_ATOMIC_READ) return FI_REMOTE_READ;
  return form == AtomicForm::write ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}

}  // namespace

ssize_t Rdm::post_atomic(fi_addr_t to, std::span<const std::byte> request, const iovec* results,
                         size_t result_count, void* context, uint64_t flags,
                         uint64_t completes_as) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    message::Peer peer;
    if (const ssize_t code = find_target(to, flags, peer)) return code;
    std::vector<std::byte> bytes(request.begin(), request.end());
    Atomic& asked = atomics_.take();
    const base::BigEndian<uint32_t> number = asked.number;
    std::memcpy(bytes.data() + offsetof(AtomicRequest, number), &number, sizeof number);
    try {
      send_own(peer, std::move(bytes), asked.number);
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
  atomics_.give(asked);
  bound.transmit.report(entry, asked.reports);
}

// The answer to an atomic that cannot be executed has the status that a WRITE would have, and no
// values.
void Rdm::on_atomic(message::Peer from, std::span<const std::byte> bytes) {
  AtomicRequest request;
  if (bytes.size() < sizeof request) return;
  std::memcpy(&request, bytes.data(), sizeof request);
  const std::span<const std::byte> operands = bytes.subspan(sizeof request);
  const auto form = static_cast<AtomicForm>(std::min<uint8_t>(request.form, 2));
  const size_t size = element_size(request.type) * request.count;
  const size_t parts = form == AtomicForm::compare ? 2 : request.op == FI_ATOMIC_READ ? 0 : 1;
  AtomicAnswer answer{};
  answer.kind = static_cast<uint8_t>(OwnKind::atomic_answer);
  answer.number = request.number;
  std::vector<std::byte> out(sizeof answer);
  if (!is_atomic(form, request.type, request.op) || size > kAtomicBytes ||
      operands.size() != size * parts) {
    answer.status = static_cast<uint8_t>(Status::remote_invalid_request);
  } else {
    const std::lock_guard hold(domain.atomics);
    const auto region =
        domain.regions.hold(request.key, request.address, size, access_for(form, request.op));
    if (!region.owns_lock()) {
      answer.status = static_cast<uint8_t>(Status::remote_access_error);
    } else {
      if (form != AtomicForm::write) out.resize(sizeof answer + size);
      execute_atomic(form, request.type, request.op, request.count,
                     reinterpret_cast<void*>(static_cast<uintptr_t>(request.address)),
                     operands.data(), operands.data() + size,
                     form == AtomicForm::write ? nullptr : out.data() + sizeof answer);
    }
  }
  std::memcpy(out.data(), &answer, sizeof answer);
  send_own(from, std::move(out), std::nullopt);
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
