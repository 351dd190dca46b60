// SPDX-License-Identifier: BSD-3-Clause
// The list of ports, which register themselves, and the table of middleware.
#include "providers/software/ports.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "providers/port/middleware/deviating_port.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "providers/port/middleware/pcap_port.hpp"
#include "providers/port/middleware/tracer_port.hpp"

namespace weft::software {

namespace {

using PortResult = Result<std::unique_ptr<transport::Port>>;
using Options = std::vector<std::pair<std::string, std::string>>;

PortResult wrap_pcap(std::unique_ptr<transport::Port> inner, const Options& options) {
  std::string file;
  middleware::CaptureOptions capture;
  for (const auto& [key, value] : options) {
    const bool is_switch = value == "0" || value == "1";
    if (key == "pcap" && file.empty())
      file = value;
    else if (key == "pcap.payload" && is_switch)
      capture.payload = value == "1";
    else if (key == "pcap.keys" && is_switch)
      capture.keys = value == "1";
    else
      return Error{Code::invalid_argument, "\"" + key + "=" + value +
                                               "\" is not valid: pcap=FILE, pcap.payload=0 or 1, "
                                               "pcap.keys=0 or 1"};
  }
  if (file.empty()) return Error{Code::invalid_argument, "pcap.* needs pcap=FILE before it"};
  return middleware::PcapPort::wrap(std::move(inner), file, capture);
}

PortResult wrap_tracer(std::unique_ptr<transport::Port> inner, const Options& options) {
  if (options.size() != 1 || options[0].first != "tracer")
    return Error{Code::invalid_argument, "tracer has one key: tracer=FILE"};
  return middleware::TracerPort::wrap(std::move(inner), options[0].second);
}

// The keys come as written, "fault.loss"; the middleware knows them as "loss".
PortResult wrap_fault(std::unique_ptr<transport::Port> inner, const Options& options) {
  Options own;
  for (const auto& [key, value] : options)
    own.emplace_back(key.substr(std::min(key.size(), key.find('.') + 1)), value);
  return middleware::FaultPort::wrap(std::move(inner), own);
}

PortResult wrap_deviations(std::unique_ptr<transport::Port> inner, const Options& options) {
  if (options.size() != 1 || options[0].first != "deviate")
    return Error{Code::invalid_argument, "deviate has one key: deviate=NAME+NAME..."};
  return middleware::DeviatingPort::wrap(std::move(inner), options[0].second);
}

constexpr MiddlewareKind kMiddleware[] = {
    {"deviate", "deviate=NAME+NAME... (a wrong name lists all)", &wrap_deviations},
    {"fault", "fault.loss, fault.dup, fault.reorder, ... (a wrong fault key lists all)",
     &wrap_fault},
    {"pcap", "pcap=FILE, pcap.payload, pcap.keys", &wrap_pcap, true},
    {"tracer", "tracer=FILE", &wrap_tracer, true},
};

}  // namespace

std::span<const PortKind* const> ports() {
  static const std::vector<const PortKind*> kinds = [] {
    std::vector<const PortKind*> all;
    for (const port::PortFolder folder : port::port_folders()) all.push_back(&folder());
    std::sort(all.begin(), all.end(), [](const PortKind* a, const PortKind* b) {
      return std::tie(a->order, a->name) < std::tie(b->order, b->name);
    });
    return all;
  }();
  return kinds;
}

const PortKind* find_port(std::string_view name) {
  for (const PortKind* kind : ports())
    if (kind->name == name) return kind;
  return nullptr;
}

base::ModuleName port_module(std::string_view name) {
  const PortKind* const known = find_port(name);
  if (known == nullptr) return {.kind = "port", .name = name, .package = {}};
  return {"port", known->name, known->package, known->missing};
}

Result<const PortKind*> load_port(std::string_view name) {
  const PortKind* const known = find_port(name);
  if (known != nullptr && known->open != nullptr) return known;
  const base::ModuleName module = port_module(name);
  const Result<const void*> extension = base::load_module(module);
  if (!extension && extension.error().code == Code::not_found && known == nullptr)
    return Error{Code::not_found, "no port \"" + std::string(name) + "\"; this build has " +
                                      port_names() + ", and " + base::unloaded_reason(module)};
  if (!extension) return extension.error();
  return static_cast<const PortKind*>(*extension);
}

std::string port_names() {
  std::string names;
  for (const PortKind* kind : ports())
    names += (names.empty() ? "" : ", ") + std::string(kind->name);
  return names;
}

const MiddlewareKind* find_middleware(std::string_view name) {
  for (const MiddlewareKind& kind : kMiddleware)
    if (kind.name == name) return &kind;
  return nullptr;
}

std::string middleware_keys() {
  std::string keys;
  for (const MiddlewareKind& kind : kMiddleware)
    keys += (keys.empty() ? "" : ", ") + std::string(kind.keys);
  return keys;
}

}  // namespace weft::software
