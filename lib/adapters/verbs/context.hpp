// SPDX-License-Identifier: BSD-3-Clause
// The operations that verbs.h calls through the context: each file of this folder sets its own.
#pragma once

#include <infiniband/verbs.h>

namespace weft::drop_in {

void set_query_operations(verbs_context& verbs) noexcept;      // device/device_query.cpp
void set_port_operations(verbs_context& verbs) noexcept;       // device/port.cpp
void set_domain_operations(verbs_context& verbs) noexcept;     // domain.cpp
void set_memory_operations(verbs_context& verbs) noexcept;     // memory.cpp
void set_window_operations(verbs_context& verbs) noexcept;     // queue/window.cpp
void set_cq_operations(verbs_context& verbs) noexcept;         // queue/completion_queue.cpp
void set_poll_operations(verbs_context& verbs) noexcept;       // poll.cpp
void set_srq_operations(verbs_context& verbs) noexcept;        // srq.cpp
void set_xrc_operations(verbs_context& verbs) noexcept;        // xrc.cpp
void set_qp_operations(verbs_context& verbs) noexcept;         // queue_pair.cpp
void set_rate_limit_operation(verbs_context& verbs) noexcept;  // modify_qp.cpp
void set_post_operations(verbs_context& verbs) noexcept;       // post.cpp
void set_refused_operations(verbs_context& verbs) noexcept;    // abi/refused.cpp

// Whether a context is one of this library.
bool has_own_operations(const ibv_context& context) noexcept;  // poll.cpp

}  // namespace weft::drop_in
