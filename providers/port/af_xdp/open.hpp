// SPDX-License-Identifier: BSD-3-Clause
// Opening the port af_xdp, without a header of libxdp.
#pragma once

#include <memory>

#include "lib/transport/port.hpp"

namespace weft::port {

// Whether open_af_xdp_port() would probably succeed. Attaches nothing: a driver may restart its
// queues for a program.
Result<void> probe_af_xdp_port(const transport::PortOptions& options);

// Errors: invalid_argument, not_found, permission_denied, address_in_use, not_supported, no_memory,
// io_error, each saying what to do.
Result<std::unique_ptr<transport::Port>> open_af_xdp_port(const transport::PortOptions& options);

}  // namespace weft::port
