// SPDX-License-Identifier: BSD-3-Clause
// The receives of an endpoint's queue pair: buffers of equal size, each posted again when what it
// held has been looked at. While the program leaves its completions unread they are held back:
// peers add completions without limit, by WRITEs with data and by messages of no length into a
// buffer for many. Without receives they wait until the program has read some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/adapters/fi/common/cq.hpp"
#include "weft/qp.hpp"

namespace weft::fi {

// One thread at a time.
class ReceiveBuffers {
 public:
  // Posts `count` buffers of `size` bytes. `memory` gives access to all memory of the process;
  // `completions` is where the program reads, or null. Throws std::bad_alloc.
  void open(QueuePair qp, size_t count, size_t size, LKey memory, const Cq* completions);
  // The first `length` bytes of a buffer; nothing if it has fewer.
  std::span<const std::byte> bytes(uint32_t index, size_t length) const noexcept;
  // Posts it again, or holds it back.
  void give(uint32_t index) noexcept;
  // Posts those that were held back, as far as the program has read its completions.
  void release() noexcept;
  void close() noexcept { qp_ = {}; }

 private:
  void post(uint32_t index) noexcept;
  bool is_backlogged() const noexcept;

  QueuePair qp_;
  LKey memory_;
  const Cq* completions_ = nullptr;
  size_t size_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<uint32_t> held_;
};

}  // namespace weft::fi
