// SPDX-License-Identifier: BSD-3-Clause
// See weft/post_all.hpp.
#include "weft/post_all.hpp"

#include "lib/verbs/post_all.hpp"
#include "lib/verbs/provider.hpp"

namespace weft {

PostStatus post_send_all(const QueuePair& qp, std::span<const SendRequest> requests) noexcept {
  if (auto* const whole = dynamic_cast<verbs::PostsAll*>(qp.impl().get()))
    return whole->post_send_all(requests);
  return {Code::not_supported, 0, "this provider cannot post all requests or none: post_send()"};
}

}  // namespace weft
