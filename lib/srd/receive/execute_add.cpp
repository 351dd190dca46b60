// SPDX-License-Identifier: BSD-3-Clause
// WRITE_ADD: the payload is added to remote memory, element by element, once. Adds of one engine
// run one after the other, so each element sees every add; other threads and atomics of other
// engines on the same memory are not excluded.
#include <cstring>

#include "lib/base/independent.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/memory/guarded_access.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

struct Sum {
  std::byte* to;
  const std::byte* from;
  uint32_t length;
};

template <class T>
void add(void* argument) {
  const Sum sum = *static_cast<Sum*>(argument);
  const size_t count = sum.length / sizeof(T);
  // The payload is a copy of our own.
  WEFT_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, sum.to + i * sizeof a, sizeof a);
    std::memcpy(&b, sum.from + i * sizeof b, sizeof b);
    a = static_cast<T>(a + b);
    std::memcpy(sum.to + i * sizeof a, &a, sizeof a);
  }
}

bool writable(std::byte* from, uint32_t length) {
  constexpr uint32_t kPage = 4096;
  for (uint32_t at = 0; at < length; at += kPage)
    if (!memory::probe(from + at, true)) return false;
  return memory::probe(from + length - 1, true);
}

}  // namespace

Outcome execute_add(ReceiveContext& ctx, QueuePair& qp, const Arrival& a,
                    wire::SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  const auto element = static_cast<wire::SrdElement>(p.detail);
  const uint32_t width = element == wire::SrdElement::int64 ? 8 : 4;
  why = wire::SrdReason::invalid;
  if (element > wire::SrdElement::fp32 || p.payload_length % width != 0) return Outcome::refused;
  why = wire::SrdReason::access;
  if (!has(qp.access, Access::remote_atomic)) return Outcome::refused;
  if (p.payload_length == 0) return Outcome::executed;
  std::byte* where;
  if (ctx.keys().check(p.rkey, qp.domain, p.address, p.payload_length, Access::remote_atomic,
                       &where) != memory::Verdict::ok)
    return Outcome::refused;
  // Payload that the sender can still change, or has to be pulled, is copied first; and all pages
  // must be there before the first element changes, so that the sum is whole or not begun.
  why = wire::SrdReason::busy;
  if (ctx.scratch.size() < p.payload_length &&
      !base::memory_permitting([&] { ctx.scratch.resize(p.payload_length); }))
    return Outcome::refused;
  const Outcome copied = copy_payload(ctx, ctx.scratch.data(), a, 0, p.payload_length, why);
  if (copied != Outcome::executed) return copied;
  why = wire::SrdReason::memory;
  if (!writable(where, p.payload_length)) return Outcome::refused;
  Sum sum{where, ctx.scratch.data(), p.payload_length};
  void (*const adds)(void*) = element == wire::SrdElement::int32   ? &add<uint32_t>
                              : element == wire::SrdElement::int64 ? &add<uint64_t>
                                                                   : &add<float>;
  return memory::run_guarded(adds, &sum) ? Outcome::executed : Outcome::refused;
}

}  // namespace weft::srd
