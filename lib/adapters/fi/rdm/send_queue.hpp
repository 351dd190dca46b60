// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of an endpoint, and what of it is on its way.
#pragma once

#include <cstddef>

#include "weft/qp.hpp"

namespace weft::fi {

// One thread at a time.
struct SendQueue {
  QueuePair qp;
  size_t in_flight = 0;  // SENDs, READs, WRITEs that have not completed
  bool is_full = false;  // a request was refused that is to be repeated: see Rdm::retry()

  PostStatus try_post(const SendRequest& request) noexcept {
    const PostStatus posted = qp.post_send(request);
    if (posted) ++in_flight;
    return posted;
  }
  // The same for a request that its caller repeats when there is room. False: there is none.
  bool post(const SendRequest& request) noexcept {
    if (try_post(request)) return true;
    return is_full = true, false;
  }
};

}  // namespace weft::fi
