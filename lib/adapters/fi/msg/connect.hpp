// SPDX-License-Identifier: BSD-3-Clause
// Connection data and parameters of fi_connect and fi_accept.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "weft/cm.hpp"

namespace weft::fi {

struct Ep;

// A byte of length and the data, as private data of the connection manager.
std::vector<std::byte> private_data_of(const void* data, size_t length);
// The reverse; empty for private data of other programs.
std::span<const std::byte> connection_data_in(std::span<const std::byte> private_data) noexcept;
// Parameters of a connection of the endpoint.
CmParameters parameters_of(const Ep& ep, std::vector<std::byte> private_data);

}  // namespace weft::fi
