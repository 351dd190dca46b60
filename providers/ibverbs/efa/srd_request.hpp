// SPDX-License-Identifier: BSD-3-Clause
// A request of SRD as an EFA takes it: what is wrong with it, and the calls of ibv_wr_* that post
// it. And the list of those that are in progress: an EFA completes each request, in any order, and
// says of a finished one little more than its id.
#pragma once

#include <optional>
#include <vector>

#include "lib/transport/verbs_common.hpp"
#include "providers/ibverbs/efa/efa_srd.hpp"
#include "weft/wr.hpp"

namespace weft::ibverbs {

// Why a request cannot be posted, or nullptr. `length` gets the sum of its entries.
const char* srd_invalid_reason(const SendRequest& r, const SrdLimits& device,
                               const transport::RequestLimits& qp, uint32_t& length) noexcept;

// Where a request goes.
struct SrdDestination {
  ibv_ah* handle = nullptr;
  uint32_t qpn = 0;
  uint32_t qkey = 0;
};
// Adds one request to a batch that ibv_wr_start() has begun.
void issue(ibv_qp_ex& qp, const SendRequest& r, const SrdDestination& to, uint64_t id) noexcept;

// Requests in progress of one queue, each in a slot. The caller locks.
class SrdSlots {
 public:
  struct Entry {
    uint64_t id = 0;
    uint32_t length = 0;
    WorkType type = WorkType::send;
    bool signaled = true;
    bool used = false;
  };
  explicit SrdSlots(uint32_t capacity) : entries_(capacity) {
    for (uint32_t i = capacity; i-- > 0;) free_.push_back(i);
  }
  // nullopt: all are used.
  std::optional<uint32_t> take(const Entry& entry) noexcept;
  void release_slot(uint32_t slot) noexcept;
  // The entry of a slot, which is free again; nullopt if it was free.
  std::optional<Entry> finish(uint32_t slot) noexcept;
  void clear() noexcept;

 private:
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
};

// The id of a request at the device: queue, slot, and the number of resets of the queue pair, by
// which completions of requests before a reset are discarded.
struct SrdWorkId {
  bool is_send = false;
  uint32_t slot = 0;
  uint32_t resets = 0;  // 31 bits
  uint64_t pack() const noexcept {
    return uint64_t{resets & 0x7FFFFFFFu} << 33 | uint64_t{is_send} << 32 | slot;
  }
  static SrdWorkId unpack(uint64_t id) noexcept {
    return {(id >> 32 & 1) != 0, static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 33)};
  }
};

}  // namespace weft::ibverbs
