// SPDX-License-Identifier: BSD-3-Clause
// fid_cntr: how many operations have completed, and how many failed.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>

#include "lib/adapters/fi/common/waitable.hpp"

namespace weft::fi {

struct Domain;

// Any thread.
struct Cntr final : fid_cntr, Waitable {
  Cntr(Domain& parent, const fi_cntr_attr& attr, void* user_context) noexcept;

  // Counts a completion; `error` is its code, 0 for success. Wakes who sleeps.
  void count(int error) noexcept;

  Domain& domain;
  std::atomic<uint64_t> value{0};
  std::atomic<uint64_t> errors{0};
};

// fi_ops_domain::cntr_open.
int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context) noexcept;

}  // namespace weft::fi
