// SPDX-License-Identifier: BSD-3-Clause
// What peers ask of the memory of this side beside READs and WRITEs: atomics, which are executed
// on registered regions and answered with the former values. All atomics of a domain exclude each
// other; they are not atomic with WRITEs. Also what a key of the program's choice stands for.
#pragma once

#include <span>

#include "lib/adapters/fi/common/objects.hpp"
#include "lib/adapters/fi/common/reports.hpp"
#include "lib/adapters/fi/rdm/own_messages.hpp"

namespace weft::fi {

// One thread at a time.
class Target {
 public:
  // `reports`: those of the receiving direction.
  Target(Domain& domain, OwnMessages& answers, const Reports& reports) noexcept
      : domain_(domain), answers_(answers), reports_(reports) {}
  // A message of kind OwnKind::atomic. What breaks the protocol is dropped. Throws std::bad_alloc.
  void on_atomic(message::Peer from, std::span<const std::byte> bytes);
  // The same of kind OwnKind::key.
  void on_key(message::Peer from, std::span<const std::byte> bytes);
  // The same of kind OwnKind::event.
  void on_event(std::span<const std::byte> bytes) noexcept;

 private:
  void count(uint64_t key, uint64_t remote) noexcept;

  Domain& domain_;
  OwnMessages& answers_;
  const Reports& reports_;
};

}  // namespace weft::fi
