// SPDX-License-Identifier: BSD-3-Clause
// See local_work.hpp.
#include "lib/roce/message/local_work.hpp"

#include <bit>

#include "lib/roce/message/outcome.hpp"
#include "lib/roce/state/engine_state.hpp"
#include "weft/mr.hpp"

namespace weft::roce {

namespace {

// A binding is stored in the fields of an entry that requests to a peer use otherwise.
memory::Binding binding_of(const SendEntry& entry) noexcept {
  return {.window = entry.imm_or_key,
          .region = static_cast<uint32_t>(entry.swap),
          .key = entry.rkey,
          .address = entry.remote_address,
          .length = entry.compare_add,
          .access = static_cast<Access>(entry.swap >> 32)};
}

//= roce:C-OPS-88
bool execute(EngineState& engine, const QueuePair& qp, const SendEntry& entry) noexcept {
  const memory::AccessContext owner = qp.access_context();
  if (entry.opcode == Opcode::local_invalidate)
    return engine.keys().revoke(entry.imm_or_key, owner);
  return engine.keys().bind(binding_of(entry), owner);
}

}  // namespace

const char* invalid_local_reason(const memory::KeyTable& keys, const SendRequest& r) noexcept {
  if (!r.sges.empty() || has(r.flags, SendFlags::inline_data))
    return "binding and invalidating have no scatter/gather entries and no inline data";
  if (r.opcode == Opcode::local_invalidate) return nullptr;
  if (r.bind == nullptr || r.bind->window == nullptr || r.bind->window->impl() == nullptr)
    return "bind_window needs SendRequest::bind with a window";
  const bool region = r.bind->region != nullptr && r.bind->region->impl() != nullptr;
  if (r.bind->size != 0 && !region) return "a window of more than 0 bytes needs a region";
  if (r.bind->window->type() == WindowType::one && has(r.bind->access, Access::zero_based))
    return "only windows of type 2 can be zero_based";
  const uint32_t number = r.bind->window->number();
  if (keys.window(number << 8) == nullptr) return "the window is of another device";
  if (r.bind->window->type() == WindowType::two && r.rkey.value >> 8 != number)
    return "SendRequest::rkey must be a key of the window: MemoryWindow::next_key()";
  return nullptr;
}

void store_binding(memory::KeyTable& keys, const SendRequest& r, SendEntry& entry) noexcept {
  const WindowBind& bind = *r.bind;
  const uint32_t window = bind.window->number() << 8;
  entry.imm_or_key = window;
  entry.rkey = keys.choose_key(window, r.rkey.value);
  entry.remote_address = std::bit_cast<uintptr_t>(bind.address);
  entry.compare_add = bind.size;
  const uint32_t region = bind.size != 0 ? bind.region->rkey().value : 0;
  entry.swap = uint64_t{static_cast<uint32_t>(bind.access)} << 32 | region;
}

bool execute_local(EngineState& engine, QueuePair& qp) noexcept {
  SendEntry& entry = qp.sq[qp.req.next_index];
  WEFT_DCHECK(qp.req.next_index != qp.sq.tail() && entry.local() && entry.packets == 0);
  if (!entry.done && !execute(engine, qp, entry)) return false;
  entry.done = true;
  ++qp.req.next_index;
  return true;
}

void complete_executed_local(EngineState& engine, QueuePair& qp) noexcept {
  while (!qp.sq.empty() && qp.sq[qp.sq.head()].done) {
    const SendEntry& entry = qp.sq[qp.sq.head()];
    WEFT_DCHECK(entry.local() && !entry.failed && entry.first_psn == qp.req.una);
    if (qp.req.next_index == qp.sq.head()) ++qp.req.next_index;
    qp.sq.pop();  // first: if its CQ overruns, the rest is flushed in there
    complete_request(engine, qp, entry, Status::success, 0);
  }
}

Status local_failure(const SendEntry& entry) noexcept {
  return entry.local() ? Status::mw_bind_error : Status::local_protection_error;
}

}  // namespace weft::roce
