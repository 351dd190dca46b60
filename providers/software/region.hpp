// SPDX-License-Identifier: BSD-3-Clause
// A memory region of a software provider: the same entry, under the same key, in the key table of
// each engine.
#pragma once

#include <mutex>

#include "providers/software/context.hpp"

namespace weft::software {

class Region final : public verbs::Region {
 public:
  Region(Device device, const Drivers& drivers, const memory::Registration& registration);
  ~Region() override { deregister(); }

  // Engine 0 draws the key; the others enter the region under it. Error: no_memory.
  Result<void> register_on_all();
  Result<void> reregister(const Reregistration& change, const verbs::Domain* domain) override;

 private:
  bool replace_on_all(const memory::Registration& after) noexcept;
  void set_extent() noexcept;
  void deregister() noexcept;

  Device device_;
  const Drivers& drivers_;
  size_t registered_ = 0;  // engines that have the region, counted from engine 0
  std::mutex mutex_;       // one reregister() at a time
  memory::Registration registration_;
};

}  // namespace weft::software
