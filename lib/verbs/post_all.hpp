// SPDX-License-Identifier: BSD-3-Clause
// What a queue pair of a provider is besides a verbs::Qp if it can post a list as a whole
// (weft/post_all.hpp).
#pragma once

#include <span>

#include "weft/wr.hpp"

namespace weft::verbs {

class PostsAll {
 public:
  virtual PostStatus post_send_all(std::span<const SendRequest> requests) noexcept = 0;

 protected:
  ~PostsAll() = default;
};

}  // namespace weft::verbs
