// SPDX-License-Identifier: BSD-3-Clause
// C API: completion queues.
#include <span>

#include "lib/adapters/c/call.hpp"

using weft::c::call;

static_assert(static_cast<int>(weft::WorkType::recv_with_imm) == WEFT_WORK_RECV_WITH_IMM);
static_assert(static_cast<int>(weft::CompletionFlags::grh) == WEFT_COMPLETION_GRH);

static weft_cq_options defaults() {
  const weft::CompletionQueueOptions options;
  return {sizeof(weft_cq_options), options.capacity, options.engine};
}

void weft_cq_options_init(weft_cq_options* options, size_t size) {
  weft::c::initialise(options, size, defaults());
}

weft_code weft_cq_create(const weft_device* device, const weft_cq_options* options, weft_cq** cq) {
  return call({{"device", device}, {"cq", cq}}, [&] {
    auto it = defaults();
    if (const weft_code bad = weft::c::known(options, it, "weft_cq_options"); bad != WEFT_OK)
      return bad;
    return weft::c::made(
        device->it.completion_queue({.capacity = it.capacity, .engine = it.engine}), cq);
  });
}

void weft_cq_destroy(weft_cq* cq) { delete cq; }

static weft_completion completion_of(const weft::Completion& from) {
  weft_completion it{};
  it.id = from.id;
  it.status = static_cast<weft_status>(from.status);
  it.type = static_cast<weft_work_type>(from.type);
  it.byte_count = from.byte_count;
  it.imm_or_key = from.imm_or_key;
  it.imm_high = from.imm_high;
  it.qp_number = from.qp.value;
  it.source_qpn = from.source_qp.value;
  it.source_peer = from.source_peer;
  it.flags = static_cast<uint32_t>(from.flags);
  it.vendor_error = from.vendor_error;
  return it;
}

// Takes completions by `take`, a call of the C++ API, in portions.
template <class Take>
static size_t taken(weft_completion* completions, size_t count, Take take) {
  weft::Completion portion[32];
  for (size_t at = 0; at < count;) {
    const size_t wanted = std::min(count - at, std::size(portion));
    const size_t got = take(std::span(portion, wanted), at);
    std::transform(portion, portion + got, completions + at, completion_of);
    at += got;
    if (got < wanted) return at;
  }
  return count;
}

size_t weft_cq_poll(const weft_cq* cq, weft_completion* completions, size_t count) {
  if (cq == nullptr || completions == nullptr) return 0;
  return taken(completions, count,
               [&](std::span<weft::Completion> to, size_t) { return cq->it.poll(to); });
}

size_t weft_cq_wait(const weft_cq* cq, weft_completion* completions, size_t count,
                    uint32_t limit_ms) {
  if (cq == nullptr || completions == nullptr) return 0;
  return taken(completions, count, [&](std::span<weft::Completion> to, size_t at) {
    return at == 0 ? cq->it.wait(to, weft::Duration::from_ms(limit_ms)) : cq->it.poll(to);
  });
}

void weft_cq_arm(const weft_cq* cq, bool solicited_only) {
  if (cq != nullptr) cq->it.arm(solicited_only ? weft::Notify::solicited : weft::Notify::all);
}
int weft_cq_fd(const weft_cq* cq) { return cq != nullptr ? cq->it.fd() : 0; }
void weft_cq_acknowledge(const weft_cq* cq) {
  if (cq != nullptr) cq->it.acknowledge();
}
uint32_t weft_cq_number(const weft_cq* cq) { return cq != nullptr ? cq->it.number() : 0; }
uint32_t weft_cq_capacity(const weft_cq* cq) { return cq != nullptr ? cq->it.capacity() : 0; }

weft_code weft_cq_resize(const weft_cq* cq, uint32_t capacity) {
  return call({{"cq", cq}}, [&] { return weft::c::done(cq->it.resize(capacity)); });
}
