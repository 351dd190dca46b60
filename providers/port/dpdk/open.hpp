// SPDX-License-Identifier: BSD-3-Clause
// Opening the port dpdk, without a header of DPDK.
#pragma once

#include <memory>

#include "lib/transport/port.hpp"

namespace weft::port {

// Errors: invalid_argument, not_found, no_memory, io_error, each saying what to do.
Result<std::unique_ptr<transport::Port>> open_dpdk_port(const transport::PortOptions& options);

}  // namespace weft::port
