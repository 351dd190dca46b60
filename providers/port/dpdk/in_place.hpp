// SPDX-License-Identifier: BSD-3-Clause
// Payload that a device reads where it lies, in registered memory: a frame is a chain of buffers
// then, headers, payload, pad and ICRC, of which the second has no bytes of its own (an "external
// buffer" of DPDK's). One for each queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "providers/port/dpdk/options.hpp"

struct rte_mbuf;
struct rte_mbuf_ext_shared_info;

namespace weft::port::dpdk {

// Whether frames to this device may be such chains. Its driver must have done with the bytes when
// it has taken the frame (and survive it if they are gone), or hand the chain to this process. A
// device that reads later, from a memory map of its own, cannot: it would have to learn of each
// region, and to give it back.
bool can_read_in_place(const Options& options);

// Brings a frame into its first buffer. False: it does not fit there, or memory that it stands for
// has gone; it is as it was then.
bool linearize(rte_mbuf* frame) noexcept;

class InPlace {
 public:
  InPlace();
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;
  ~InPlace();

  // Adds two buffers of the same pool to an empty one: the first stands for these bytes until it is
  // freed, the other is the place for `tail` more, which is returned. Null: the pool has none.
  std::byte* append(rte_mbuf* head, const std::byte* data, uint32_t length, uint16_t tail) noexcept;
  // Buffers that stand for such bytes now.
  unsigned under_way() const noexcept;

 private:
  std::unique_ptr<rte_mbuf_ext_shared_info> shared_;  // of all: its count is theirs and our own
};

}  // namespace weft::port::dpdk
