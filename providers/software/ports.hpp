// SPDX-License-Identifier: BSD-3-Clause
// The ports and middleware that the software providers can be bound to. Ports register themselves
// (lib/transport/port_kind.hpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/transport/port_kind.hpp"

namespace weft::software {

using transport::PortKind;

struct MiddlewareKind {
  std::string_view name;  // the key, or what stands before the dot of its keys
  std::string_view keys;  // for messages
  Result<std::unique_ptr<transport::Port>> (*wrap)(
      std::unique_ptr<transport::Port> inner,
      const std::vector<std::pair<std::string, std::string>>& options);
  bool names_file = false;  // its value is a file: each engine writes one of its own
};

// By PortKind::order.
std::span<const PortKind* const> ports();
const PortKind* find_port(std::string_view name);
std::string port_names();
const MiddlewareKind* find_middleware(std::string_view name);
std::string middleware_keys();

}  // namespace weft::software
