// SPDX-License-Identifier: BSD-3-Clause
// The ports and middleware that the software providers can be bound to: one row each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/transport/port.hpp"

namespace weft::software {

struct PortKind {
  std::string_view name;           // "udp"
  std::string_view default_where;  // "lo"
  Result<std::unique_ptr<transport::Port>> (*open)(const transport::PortOptions& options);
  bool rails;    // several of them, with an address each, can be one device
  bool engines;  // several of them can share one address, one for each engine of a device
  // Whether it could be opened, for a kind whose opening may disturb the interface; null: open it.
  Result<void> (*probe)(const transport::PortOptions& options) = nullptr;
};

struct MiddlewareKind {
  std::string_view name;  // the key, or what stands before the dot of its keys
  std::string_view keys;  // for messages
  Result<std::unique_ptr<transport::Port>> (*wrap)(
      std::unique_ptr<transport::Port> inner,
      const std::vector<std::pair<std::string, std::string>>& options);
  bool names_file = false;  // its value is a file: each engine writes one of its own
};

std::span<const PortKind> ports();
const PortKind* find_port(std::string_view name);
std::string port_names();
const MiddlewareKind* find_middleware(std::string_view name);
std::string middleware_keys();

}  // namespace weft::software
