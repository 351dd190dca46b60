// SPDX-License-Identifier: BSD-3-Clause
// Types of queue pairs of verbs in those of weft.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "weft/types.hpp"

namespace weft::drop_in {

// Empty: no device of weft has the type.
constexpr std::optional<QpType> type_of(ibv_qp_type type) noexcept {
  switch (type) {
    case IBV_QPT_RC:
      return QpType::rc;
    case IBV_QPT_UC:
      return QpType::uc;
    case IBV_QPT_UD:
      return QpType::ud;
    case IBV_QPT_XRC_SEND:
      return QpType::xrc_initiator;
    case IBV_QPT_XRC_RECV:
      return QpType::xrc_target;
    case IBV_QPT_DRIVER:
      return QpType::srd;  // efa/efa.cpp
    default:
      return std::nullopt;
  }
}

}  // namespace weft::drop_in
