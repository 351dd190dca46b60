// SPDX-License-Identifier: BSD-3-Clause
// fid_cq: completions in order of arrival, errors among them at their place.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "lib/adapters/fi/common/waitable.hpp"

namespace weft::fi {

// A completion of an operation, with all that any format or error shows.
struct CqEntry {
  void* context = nullptr;
  uint64_t flags = 0;
  size_t length = 0;
  void* buffer = nullptr;
  uint64_t data = 0;
  uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;       // positive code of libfabric; 0: success
  int prov_error = 0;  // the Status of weft
  size_t beyond = 0;   // bytes of the message that the buffer had no room for
};

struct Domain;

// Any thread.
struct Cq final : fid_cq, Waitable {
  Cq(Domain& parent, const fi_cq_attr& attr, void* user_context) noexcept;

  // Appends a completion, and wakes who sleeps.
  void push(const CqEntry& entry) noexcept;
  // As fi_cq_readfrom(), of what is there: makes no progress. -FI_EAGAIN, -FI_EAVAIL, or how many.
  ssize_t take(void* buffer, size_t count, fi_addr_t* sources) noexcept;
  // Takes the error at the front; -FI_EAGAIN: there is none.
  ssize_t take_error(fi_cq_err_entry& out) noexcept;
  // Prepares for a sleep on waiting.fd(): -FI_EAGAIN if there is something to read, or 0.
  int prepare_wait() noexcept;
  // How many entries are not read yet.
  size_t unread() const noexcept { return unread_.load(std::memory_order_acquire); }

  Domain& domain;
  const fi_cq_format format;
  const size_t size;                  // as asked for, or a default
  std::shared_ptr<Progress> own;      // of msg/: the queue of weft that it reads
  std::atomic<bool> signaled{false};  // fi_cq_signal

 private:
  std::mutex lock_;
  std::deque<CqEntry> entries_;
  std::atomic<size_t> unread_{0};
  bool out_of_memory_ = false;  // a completion was lost: reported as an overrun
};

// fi_ops_domain::cq_open.
int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context) noexcept;

}  // namespace weft::fi
