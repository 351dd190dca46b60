// SPDX-License-Identifier: BSD-3-Clause
// The ports and middleware that the software providers can be bound to. Ports register themselves
// (lib/transport/port_kind.hpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/module/module.hpp"
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

// Those of the build, by PortKind::order. A port in a module has no functions here.
std::span<const PortKind* const> ports();
const PortKind* find_port(std::string_view name);
// The module of a port that is in one, or would be.
base::ModuleName port_module(std::string_view name);
// The port `name`; if it is in a module, that is loaded. Errors: not_found, and those of
// base::load_module().
Result<const PortKind*> load_port(std::string_view name);
std::string port_names();
const MiddlewareKind* find_middleware(std::string_view name);
std::string middleware_keys();

}  // namespace weft::software
