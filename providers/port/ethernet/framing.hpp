// SPDX-License-Identifier: BSD-3-Clause
// Between the frames of the engine, which begin at the BTH, and those of an Ethernet: what a port
// that sees whole frames does with the headers in front.
#pragma once

#include "lib/engine/frame.hpp"
#include "providers/port/ethernet/neighbours.hpp"

namespace weft::port::ethernet {

// The path of a frame that came with these headers.
engine::Path path_of(const wire::Outer& outer) noexcept;

// The headers of a frame from `self` to the interface `to`.
wire::Outer outer_of(const engine::TxFrame& frame, const Neighbours::Self& self,
                     const wire::MacAddress& to) noexcept;

}  // namespace weft::port::ethernet
