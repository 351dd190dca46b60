// SPDX-License-Identifier: BSD-3-Clause
// See target.hpp.
#include "lib/adapters/fi/rdm/target.hpp"

#include <algorithm>
#include <cstring>

#include "lib/adapters/fi/rdm/atomic_execute.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"
#include "lib/adapters/fi/rdm/limits.hpp"
#include "lib/adapters/fi/rdm/own_wire.hpp"

namespace weft::fi {
namespace {

uint64_t access_for(AtomicForm form, unsigned op) noexcept {
  if (op == FI_ATOMIC_READ) return FI_REMOTE_READ;
  return form == AtomicForm::write ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}

}  // namespace

// The answer to an atomic that cannot be executed has the status that a WRITE would have, and no
// values.
void Target::on_atomic(message::Peer from, std::span<const std::byte> bytes) {
  AtomicRequest request;
  if (bytes.size() < sizeof request || !answers_.may_ask(from)) return;
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
  } else if (answers_.has_many()) {
    answer.status = static_cast<uint8_t>(Status::remote_operation_error);
  } else {
    const std::lock_guard hold(domain_.atomics);
    uint64_t address = request.address;
    const auto region =
        domain_.regions.hold(request.key, address, size, access_for(form, request.op));
    if (!region.owns_lock()) {
      answer.status = static_cast<uint8_t>(Status::remote_access_error);
    } else {
      if (form != AtomicForm::write) out.resize(sizeof answer + size);
      execute_atomic(form, request.type, request.op, request.count,
                     reinterpret_cast<void*>(static_cast<uintptr_t>(address)), operands.data(),
                     operands.data() + size,
                     form == AtomicForm::write ? nullptr : out.data() + sizeof answer);
    }
  }
  if (answer.status == 0)
    count(request.key, form == AtomicForm::write ? FI_REMOTE_WRITE : FI_REMOTE_READ);
  std::memcpy(out.data(), &answer, sizeof answer);
  answers_.answer(from, std::move(out));
}

// Counts an operation of a peer, where the program wants it.
void Target::count(uint64_t key, uint64_t remote) noexcept {
  if (!domain_.has_remote_events || !domain_.regions.count(key, remote)) return;
  Cntr* const cntr = remote == FI_REMOTE_READ ? reports_.read : reports_.write;
  if (cntr != nullptr) cntr->count(0);
}

void Target::on_event(std::span<const std::byte> bytes) noexcept {
  RemoteEvent event;
  if (bytes.size() < sizeof event) return;
  std::memcpy(&event, bytes.data(), sizeof event);
  count(event.key, event.is_write != 0 ? FI_REMOTE_WRITE : FI_REMOTE_READ);
}

void Target::on_key(message::Peer from, std::span<const std::byte> bytes) {
  KeyQuestion question;
  if (bytes.size() < sizeof question || !answers_.may_ask(from)) return;
  std::memcpy(&question, bytes.data(), sizeof question);
  const auto region = domain_.regions.find(question.key);
  KeyAnswer answer{};
  answer.kind = static_cast<uint8_t>(OwnKind::key_answer);
  answer.status = region ? 0 : static_cast<uint8_t>(Status::remote_access_error);
  answer.key = question.key;
  if (region) {
    answer.rkey = region->rkey.value;
    answer.base = region->base;
    answer.counts_events = domain_.has_remote_events ? 1 : 0;
  }
  std::vector<std::byte> out(sizeof answer);
  std::memcpy(out.data(), &answer, sizeof answer);
  answers_.answer(from, std::move(out));
}

}  // namespace weft::fi
