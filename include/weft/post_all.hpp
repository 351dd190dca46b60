// SPDX-License-Identifier: BSD-3-Clause
// Posting a list of requests as a whole, as ibv_wr_complete() of verbs does. weft.hpp does not
// include it.
#pragma once

#include <span>

#include "weft/qp.hpp"
#include "weft/wr.hpp"

namespace weft {

// Posts all requests; none, where QueuePair::post_send() would stop at one of them: `accepted` is
// then 0. Errors: those of post_send(), not_supported (srd, ibverbs). Any thread.
PostStatus post_send_all(const QueuePair& qp, std::span<const SendRequest> requests) noexcept;

}  // namespace weft
