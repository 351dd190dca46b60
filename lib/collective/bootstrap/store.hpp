// SPDX-License-Identifier: BSD-3-Clause
// The stores that Store::open can open.
#pragma once

#include "weft/store.hpp"

namespace weft::collective {

Result<std::unique_ptr<Store>> open_file_store(std::string_view directory);
// `address` is HOST:PORT.
Result<std::unique_ptr<Store>> open_tcp_store(std::string_view address, bool serve, Duration limit,
                                              const Security& security);

// An io_error with errno's text.
Error system_error(const std::string& what);

}  // namespace weft::collective
