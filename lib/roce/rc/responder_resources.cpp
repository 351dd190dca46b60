// SPDX-License-Identifier: BSD-3-Clause
// READs, atomics and effects (ATOMIC WRITE, FLUSH) at the responder. Each occupies one of
// max_dest_rd_atomic resources, a ring: an atomic or effect executes at once and its result is
// kept; a READ is kept as a range, which is read when the response is sent. A duplicate finds its
// resource and gets its response again, an atomic or effect without access to memory (//=
// roce:C-DUP-27), a READ with the current memory (//= roce:C-DUP-25).
#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/rc/rc.hpp"

namespace weft::roce::rc {

namespace {

// Removes a queued response.
void unqueue(Responder& res, Resource& resource) noexcept {
  const auto index = static_cast<uint8_t>(&resource - res.resources.get());
  uint32_t to = res.reply_head;
  for (uint32_t at = res.reply_head; at != res.reply_tail; ++at) {
    const uint8_t other = res.reply_order[at % res.resource_count];
    if (other != index) res.reply_order[to++ % res.resource_count] = other;
  }
  res.reply_tail = to;
  resource.queued = false;
}

// Takes the oldest resource for a new request. nullptr: there are none, or the response of the
// oldest is still queued, so the peer exceeds its RD-atomic limit (//= roce:C-NAK-38). A response
// to a duplicate does not count: the peer got the first one, or it would not send a new request.
Resource* claim(QueuePair& qp) noexcept {
  Responder& res = qp.res;
  if (res.resource_count == 0) return nullptr;
  WEFT_DCHECK(res.resource_tail < res.resource_count);
  Resource& resource = res.resources[res.resource_tail];
  if (resource.queued && !resource.replay) return nullptr;
  if (resource.queued) unqueue(res, resource);
  if (++res.resource_tail == res.resource_count) res.resource_tail = 0;
  resource.replay = false;
  return &resource;
}

void queue_reply(EngineState& engine, QueuePair& qp, Resource& resource) noexcept {
  Responder& res = qp.res;
  if (resource.queued) return;
  resource.queued = true;
  if (res.reply_head == res.reply_tail) res.reply_head = res.reply_tail = 0;
  WEFT_DCHECK(res.reply_tail - res.reply_head < res.resource_count);
  res.reply_order[res.reply_tail++ % res.resource_count] =
      static_cast<uint8_t>(&resource - res.resources.get());
  engine.activate(qp);
}

// Finds the resource that covers `psn`. Newest first: an old one may have the same PSN, a wrap ago.
Resource* find(QueuePair& qp, Psn psn) noexcept {
  const uint32_t count = qp.res.resource_count;
  for (uint32_t i = 1; i <= count; ++i) {
    Resource& r = qp.res.resources[(qp.res.resource_tail + count - i) % count];
    if (r.kind == Resource::Kind::none) continue;
    const int32_t distance = psn - r.first;
    if (distance >= 0 && static_cast<uint32_t>(distance) < r.packets) return &r;
  }
  return nullptr;
}

// Stores a new request that was executed in its resource, and queues its response.
void store(EngineState& engine, QueuePair& qp, Resource& r, Resource::Kind kind, Psn psn) noexcept {
  qp.res.msn = (qp.res.msn + 1) & Psn::kMask;  //= roce:C-ACK-33
  r.kind = kind;
  r.first = r.reply_psn = psn;
  r.packets = 1;
  r.length = r.reply_length = r.reply_sent = 0;
  queue_reply(engine, qp, r);
}

Resource::Kind kind_of(wire::Operation operation) noexcept {
  switch (operation) {
    case wire::Operation::read_request:
      return Resource::Kind::read;
    case wire::Operation::atomic_write:
    case wire::Operation::flush:
      return Resource::Kind::write_or_flush;
    default:
      return Resource::Kind::atomic;
  }
}

// Stores eight bytes atomically. False: the page is not mapped any more.
bool atomic_store_8(std::byte* where, uint64_t value) noexcept {
  uint64_t expected = 0, seen = 0;
  do {
    expected = seen;
    if (!memory::compare_swap(where, expected, value, &seen)) return false;
  } while (seen != expected);
  return true;
}

// A queue pair whose access flags lack the right of an operation does not support it, so a request
// is invalid whatever its key and length are. //= roce:C-NAK-38
bool supports(const QueuePair& qp, Access right) noexcept { return has(qp.access, right); }

// Checks and executes an ATOMIC WRITE; returns the NAK syndrome, or 0 (IBTA 1.5, A19.4).
uint8_t execute_atomic_write(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                             Resource*& resource) noexcept {
  const wire::Reth& reth = packet.reth();
  if (!supports(qp, Access::remote_write) || reth.length != 8 || packet.payload_length != 8 ||
      reth.address % 8 != 0)
    return wire::kNakInvalidRequest;  //= roce:C-NAK-38 threat:A30
  std::byte* where;
  if (engine.keys().check(reth.rkey, qp.access_context(), reth.address, 8, Access::remote_write,
                          &where) != memory::Verdict::ok)
    return wire::kNakRemoteAccess;  //= roce:C-NAK-39
  if (std::bit_cast<uintptr_t>(where) % 8 != 0) return wire::kNakInvalidRequest;
  resource = claim(qp);
  if (resource == nullptr) return wire::kNakInvalidRequest;
  uint64_t value;
  std::memcpy(&value, packet.payload, 8);
  return atomic_store_8(where, value) ? 0 : wire::kNakRemoteAccess;
}

// Checks and executes a FLUSH; returns the NAK syndrome, or 0 (IBTA 1.5, A19.5). Earlier requests
// are in memory already and visible to all that see the response, so only persistence takes work.
uint8_t flush(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
              Resource*& resource) noexcept {
  const uint32_t placement = packet.feth().placement();
  if ((placement & ~(wire::kPlaceVisible | wire::kPlacePersistent)) != 0 || placement == 0 ||
      packet.feth().selectivity() > wire::kSelectRegion)
    return wire::kNakInvalidRequest;
  const bool persistent = (placement & wire::kPlacePersistent) != 0;
  Access need = persistent ? Access::flush_persistent : Access::none;
  if ((placement & wire::kPlaceVisible) != 0) need = need | Access::flush_global;
  if (!supports(qp, need)) return wire::kNakInvalidRequest;
  const wire::Reth& reth = packet.reth();
  std::byte* where = nullptr;
  uint64_t length = reth.length;
  memory::Verdict verdict = memory::Verdict::ok;
  if (packet.feth().selectivity() == wire::kSelectRegion)
    verdict = engine.keys().check_whole(reth.rkey, qp.access_context(), need, &where, &length);
  else if (length != 0)  //= roce:C-OPS-78
    verdict =
        engine.keys().check(reth.rkey, qp.access_context(), reth.address, length, need, &where);
  if (verdict != memory::Verdict::ok) return wire::kNakRemoteAccess;  //= roce:C-NAK-39
  resource = claim(qp);
  if (resource == nullptr) return wire::kNakInvalidRequest;
  const bool kept = !persistent || length == 0 || memory::make_persistent(where, length);
  return kept ? 0 : wire::kNakRemoteOperation;
}

}  // namespace

uint8_t execute_effect(EngineState& engine, QueuePair& qp, const wire::Packet& packet) noexcept {
  if (qp.res.resource_count == 0) return wire::kNakInvalidRequest;
  Resource* resource = nullptr;
  const bool flushes = packet.info->operation == wire::Operation::flush;
  const uint8_t syndrome = flushes ? flush(engine, qp, packet, resource)
                                   : execute_atomic_write(engine, qp, packet, resource);
  WEFT_DCHECK(syndrome != 0 || resource != nullptr);
  if (syndrome == 0) store(engine, qp, *resource, Resource::Kind::write_or_flush, packet.psn);
  return syndrome;
}

uint8_t execute_read(EngineState& engine, QueuePair& qp, const wire::Packet& packet) noexcept {
  const wire::Reth& reth = packet.reth();
  const uint32_t length = reth.length;
  if (!supports(qp, Access::remote_read) || length > engine.config().limits.max_message ||
      qp.res.resource_count == 0)
    return wire::kNakInvalidRequest;  //= roce:C-NAK-38 roce:C-NAK-125
  std::byte* where;
  if (length != 0 &&  //= roce:C-OPS-78
      engine.keys().check(reth.rkey, qp.access_context(), reth.address, length, Access::remote_read,
                          &where) != memory::Verdict::ok)
    return wire::kNakRemoteAccess;  //= roce:C-NAK-39
  Resource* r = claim(qp);
  if (r == nullptr) return wire::kNakInvalidRequest;
  qp.res.msn = (qp.res.msn + 1) & Psn::kMask;  //= roce:C-ACK-33
  r->kind = Resource::Kind::read;
  r->first = r->reply_psn = packet.psn;
  r->packets = std::max<uint32_t>(
      1, static_cast<uint32_t>((uint64_t{length} + qp.mtu() - 1) >> qp.mtu_shift));
  r->rkey = reth.rkey;
  r->domain = qp.domain;
  r->address = r->reply_address = reth.address;
  r->length = r->reply_length = length;
  r->reply_sent = 0;
  WEFT_DCHECK(r->packets <= uint32_t{1} << 23);
  queue_reply(engine, qp, *r);
  return 0;
}

uint8_t execute_atomic(EngineState& engine, QueuePair& qp, const wire::Packet& packet) noexcept {
  const wire::AtomicEth& eth = packet.atomic_eth();
  const uint64_t address = eth.address;
  if (!supports(qp, Access::remote_atomic) || qp.res.resource_count == 0 || address % 8 != 0)
    return wire::kNakInvalidRequest;  //= roce:C-NAK-38 threat:A30
  std::byte* where;
  if (engine.keys().check(eth.rkey, qp.access_context(), address, 8, Access::remote_atomic,
                          &where) != memory::Verdict::ok)
    return wire::kNakRemoteAccess;               //= roce:C-NAK-39
  if (std::bit_cast<uintptr_t>(where) % 8 != 0)  // in a zero-based window
    return wire::kNakInvalidRequest;
  Resource* r = claim(qp);
  if (r == nullptr) return wire::kNakInvalidRequest;
  //= roce:C-OPS-75
  uint64_t original = 0;
  const bool ok = packet.info->operation == wire::Operation::compare_swap
                      ? memory::compare_swap(where, eth.compare, eth.swap_or_add, &original)
                      : memory::fetch_add(where, eth.swap_or_add, &original);
  if (!ok) return wire::kNakRemoteAccess;
  r->original = original;
  store(engine, qp, *r, Resource::Kind::atomic, packet.psn);
  return 0;
}

void replay(EngineState& engine, QueuePair& qp, const wire::Packet& packet, Instant now) noexcept {
  Resource* r = find(qp, packet.psn);
  if (r == nullptr) return engine.count(Count::rx_lost_resource);  //= roce:C-DUP-26 C-DUP-28
  const Resource::Kind kind = kind_of(packet.info->operation);
  if (kind != r->kind) return engine.count(Count::rx_lost_resource);
  if (!r->queued) r->replay = true;
  if (kind != Resource::Kind::read) {
    r->reply_sent = 0;
    engine.count(Count::rx_replayed_atomics);
    return queue_reply(engine, qp, *r);
  }
  const wire::Reth& reth = packet.reth();
  const uint64_t address = reth.address, length = reth.length;
  const uint64_t packets = std::max<uint64_t>(1, (length + qp.mtu() - 1) >> qp.mtu_shift);
  const uint64_t skipped = static_cast<uint64_t>(packet.psn - r->first);
  if (reth.rkey != r->rkey || address < r->address || address - r->address > r->length ||
      length > r->length - (address - r->address) || skipped + packets > r->packets)
    return engine.count(Count::rx_lost_resource);
  engine.count(Count::rx_replayed_reads);
  if (qp.req.pacer) qp.req.pacer->on_loss(now, congestion::Loss::Reason::gap);
  Psn psn = packet.psn;
  uint64_t from = address, end = address + length;
  if (r->queued) {  // what is still to be sent, too
    const uint64_t rest = r->reply_address + r->reply_sent;
    if (rest < from) psn = r->reply_psn + (r->reply_sent >> qp.mtu_shift);
    from = std::min(from, rest);
    end = std::max(end, r->reply_address + r->reply_length);
  }
  r->reply_psn = psn;
  r->reply_address = from;
  r->reply_length = static_cast<uint32_t>(end - from);
  r->reply_sent = 0;
  queue_reply(engine, qp, *r);
}

}  // namespace weft::roce::rc
