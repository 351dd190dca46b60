// SPDX-License-Identifier: BSD-3-Clause
// Posting: requests are checked here, because a device says no more than EINVAL, translated a batch
// at a time on the stack, and handed to the device as a list.
#pragma once

#include <algorithm>
#include <cerrno>
#include <span>

#include "lib/transport/verbs_common.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

inline constexpr size_t kPostBatch = 16;
inline constexpr const char* kSendQueueFull =
    "the send queue is full: poll completions, or raise max_send_wr";

// Entries of a request, which are laid out as the device wants them (translate.hpp).
inline ibv_sge* entries(std::span<const Sge> sges) noexcept {
  return const_cast<ibv_sge*>(reinterpret_cast<const ibv_sge*>(sges.data()));
}

// The status of a list that the device did not take, or not all of it. Some drivers' parts of
// libibverbs return an error with a minus (siw's).
inline void refuse(PostStatus& status, int said, const char* full) noexcept {
  const int error = said < 0 ? -said : said;
  if (error == ENOMEM || error == ENOSPC) {  // ENOSPC: rxe's of ibv_wr_*
    status.code = Code::queue_full;
    status.reason = full;
  } else {
    status.code = error == EINVAL ? Code::invalid_argument : Code::io_error;
    status.reason = error == EINVAL ? "the device does not take the request"
                                    : "the device failed: it may have been removed";
  }
}

// Posts requests in order, up to the first that is refused. `Work` is ibv_send_wr or ibv_recv_wr;
// translate(request, work) fills one in, or returns what is wrong with the request; submit(list,
// bad) gives a list to the device.
template <class Work, class Request, class Translate, class Submit>
PostStatus post_all(std::span<const Request> requests, const char* full, Translate translate,
                    Submit submit) noexcept {
  PostStatus status;
  while (status && status.accepted < requests.size()) {
    const size_t wanted = std::min(kPostBatch, requests.size() - status.accepted);
    Work work[kPostBatch];
    const char* reason = nullptr;
    size_t n = 0;
    for (; n < wanted; ++n) {
      reason = translate(requests[status.accepted + n], work[n]);
      if (reason != nullptr) break;
      work[n].next = nullptr;
      if (n > 0) work[n - 1].next = &work[n];
    }
    Work* bad = nullptr;
    const int error = n > 0 ? submit(work, &bad) : 0;
    status.accepted += static_cast<uint32_t>(error != 0 && bad != nullptr ? bad - work : n);
    if (error != 0) {
      refuse(status, error, full);
    } else if (reason != nullptr) {
      status.code = Code::invalid_argument;
      status.reason = reason;
    }
  }
  return status;
}

inline WorkType work_type(const SendRequest& r) noexcept { return transport::work_type(r.opcode); }
inline WorkType work_type(const RecvRequest&) noexcept { return WorkType::recv; }

// What is posted in ERR where the device refuses or keeps it: checked as always, and flushed from
// here. invalid_reason(request) says what is wrong with one, or returns nullptr.
template <class Queue, class Request, class InvalidReason>
PostStatus flush_all(std::span<const Request> requests, QpNum qp, Queue& cq,
                     InvalidReason invalid_reason) noexcept {
  PostStatus status;
  for (const Request& r : requests) {
    if (const char* const reason = invalid_reason(r))
      return {Code::invalid_argument, status.accepted, reason};
    cq.add_flushed({.id = r.id, .qp = qp, .status = Status::flushed, .type = work_type(r)});
    ++status.accepted;
  }
  return status;
}

// `iwarp`: siw takes no receive without an entry; one of no bytes says the same there.
template <class Submit>
PostStatus post_receives(std::span<const RecvRequest> requests,
                         const transport::RequestLimits& limits, bool iwarp,
                         Submit submit) noexcept {
  ibv_sge nothing{};
  return post_all<ibv_recv_wr>(
      requests, "the receive queue is full: poll completions, or raise max_recv_wr",
      [&limits, &nothing, iwarp](const RecvRequest& r, ibv_recv_wr& work) {
        uint32_t length = 0;
        work.wr_id = r.id;
        work.sg_list = entries(r.sges);
        work.num_sge = static_cast<int>(r.sges.size());
        if (iwarp && r.sges.empty()) {
          work.sg_list = &nothing;
          work.num_sge = 1;
        }
        return transport::invalid_reason(r, limits, length);
      },
      submit);
}

}  // namespace weft::ibverbs
