// SPDX-License-Identifier: BSD-3-Clause
// Address attributes of verbs in those of weft.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// 0, or the errno of an address that RoCE v2 cannot have.
int check_ah(const char* call, const Context& context, const ibv_ah_attr& attr) noexcept;
AddressVector path_of(const ibv_ah_attr& attr) noexcept;
// The reverse; what a path of weft does not hold is taken from `rest`.
ibv_ah_attr ah_attr_of(const AddressVector& path, const ibv_ah_attr& rest) noexcept;

}  // namespace weft::drop_in
