// SPDX-License-Identifier: BSD-3-Clause
// See open.hpp.
#include "providers/software/open.hpp"

#include <algorithm>
#include <charconv>

#include "lib/base/interface.hpp"
#include "lib/memory/key_table.hpp"
#include "lib/transport/shared_address.hpp"
#include "lib/verbs/node_guid.hpp"
#include "lib/wire/int_block.hpp"
#include "providers/port/middleware/rails_port.hpp"
#include "providers/software/ports.hpp"

namespace weft::software {

namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

constexpr uint32_t kMostEngines = 64;

std::string names_of(const std::vector<OwnKey>& own) {
  std::string names;
  for (const OwnKey& key : own) names += std::string(key.name) + ", ";
  return names;
}

Result<void> take_provider_keys(Options& options, const std::vector<OwnKey>& own) {
  for (auto it = options.begin(); it != options.end();) {
    const auto key =
        std::find_if(own.begin(), own.end(), [&](const OwnKey& k) { return k.name == it->first; });
    if (key == own.end()) {
      ++it;
      continue;
    }
    if (const Result<void> taken = key->take(it->second); !taken) return taken;
    it = options.erase(it);
  }
  return {};
}

// Wraps `port` in the middleware of the remaining keys; consecutive keys of one layer belong
// together.
Result<std::unique_ptr<transport::Port>> wrap(std::unique_ptr<transport::Port> port,
                                              Options options, const std::vector<OwnKey>& own) {
  while (!options.empty()) {
    const std::string layer = options.front().first.substr(0, options.front().first.find('.'));
    Options mine;
    while (!options.empty() &&
           options.front().first.substr(0, options.front().first.find('.')) == layer) {
      mine.push_back(options.front());
      options.erase(options.begin());
    }
    const MiddlewareKind* const kind = find_middleware(layer);
    if (kind == nullptr) {
      return Error{Code::invalid_argument,
                   "unknown key \"" + mine.front().first + "\"; valid keys: " + names_of(own) +
                       middleware_keys() + ", and the port's own as PORT.key"};
    }
    Result<std::unique_ptr<transport::Port>> wrapped = kind->wrap(std::move(port), mine);
    if (!wrapped) return wrapped.error();
    port = std::move(*wrapped);
  }
  return port;
}

// The keys of an engine's port: each engine writes its own files, FILE, FILE.1, FILE.2 ..
Options for_engine(Options options, size_t engine) {
  for (auto& [key, value] : options) {
    const MiddlewareKind* const kind = find_middleware(key);
    if (engine != 0 && kind != nullptr && kind->names_file) value += "." + std::to_string(engine);
  }
  return options;
}

using PortResult = Result<std::unique_ptr<transport::Port>>;

// One port for each of `wheres`, all with the same slot: the lowest from `options.first_slot` on
// that is free at all addresses.
PortResult open_rails(const PortKind& kind, transport::PortOptions options,
                      const std::vector<std::string>& wheres) {
  std::vector<std::unique_ptr<transport::Port>> ports;
  uint8_t taken = 0;
  for (const std::string& where : wheres) {
    options.where = where;
    PortResult port = kind.open(options);
    if (!port && port.error().code == Code::no_memory && taken != 0 && taken < 254) {
      ports.clear();
      options.first_slot = static_cast<uint8_t>(taken + 1);
      options.last_slot = transport::PortOptions{}.last_slot;
      return open_rails(kind, options, wheres);
    }
    if (!port) return Error{port.error().code, "rails: " + where + ": " + port.error().message};
    if (const uint8_t slot = transport::slot_of(**port); slot != 0)
      options.first_slot = options.last_slot = taken = slot;
    ports.push_back(std::move(*port));
  }
  return middleware::RailsPort::bundle(std::move(ports));
}

// The names of ports with a capability: "udp or dpdk".
std::string able_kinds(bool PortKind::*able) {
  std::string names;
  for (const PortKind* kind : ports())
    if (kind->*able) names += (names.empty() ? "" : " or ") + std::string(kind->name);
  return names;
}

PortResult open_one(const PortKind& kind, const transport::PortOptions& options,
                    const std::vector<std::string>& rails) {
  if (rails.empty()) return kind.open(options);
  if (!kind.rails)
    return Error{Code::not_supported, "port " + std::string(kind.name) +
                                          " has one address: leave rails= out, or use " +
                                          able_kinds(&PortKind::rails)};
  std::vector<std::string> wheres{options.where};
  wheres.insert(wheres.end(), rails.begin(), rails.end());
  return open_rails(kind, options, wheres);
}

using Ports = std::vector<std::unique_ptr<transport::Port>>;

// One port per engine; the first one claims the address, the others share it.
Result<Ports> open_all(const PortKind& kind, transport::PortOptions options,
                       const std::vector<std::string>& rails, uint32_t engines) {
  if (engines > 1 && !kind.engines)
    return Error{Code::not_supported, "port " + std::string(kind.name) +
                                          " serves one engine: leave engines= out, or use " +
                                          able_kinds(&PortKind::engines)};
  if (engines > 1 && !rails.empty())
    return Error{Code::not_supported,
                 "a device has several engines or several addresses: leave engines= or rails= out"};
  Ports ports;
  options.engines = engines;
  for (; options.engine < engines; ++options.engine) {
    PortResult port = open_one(kind, options, rails);
    if (!port) {
      while (ports.size() > 1) ports.pop_back();  // the owner of the address is closed last
      if (engines == 1) return port.error();
      return Error{port.error().code,
                   "engine " + std::to_string(options.engine) + ": " + port.error().message};
    }
    ports.push_back(std::move(*port));
    options.first = ports.front().get();
  }
  return ports;
}

Result<void> probe_port(const PortKind& kind, const transport::PortOptions& options) {
  if (kind.probe != nullptr) return kind.probe(options);
  const PortResult port = kind.open(options);
  if (!port) return port.error();
  return {};
}

// `kind`: null if its module is not loaded; `usable` says why then.
DeviceListing row_of(const std::string& provider, std::string_view name, const PortKind* kind,
                     const Result<void>& usable) {
  DeviceListing entry;
  entry.spec = provider + "+" + std::string(name);
  if (kind != nullptr) entry.spec += ":" + std::string(kind->default_device);
  entry.usable = usable.ok();
  if (!usable) entry.reason = usable.error().message;
  entry.disturbs = kind != nullptr && kind->probe != nullptr;
  return entry;
}

void list_port(const std::string& provider, std::string_view name, uint16_t udp_port,
               std::vector<DeviceListing>& out, LoadModules modules) {
  const PortKind* const known = find_port(name);
  const bool here = known != nullptr && known->open != nullptr;
  const base::ModuleName module = port_module(name);
  if (!here && modules == LoadModules::no && base::loaded_module(module) == nullptr) {
    const Error error{Code::not_supported, base::unloaded_reason(module)};
    out.push_back(row_of(provider, name, known, error));
    return;
  }
  const Result<const PortKind*> kind = load_port(name);
  if (!kind) {
    out.push_back(row_of(provider, name, known, kind.error()));
    return;
  }
  transport::PortOptions options;
  options.where = (*kind)->default_device;
  options.udp_port = udp_port;
  out.push_back(row_of(provider, name, *kind, probe_port(**kind, options)));
}

}  // namespace

OwnKey flag_key(std::string_view name, bool& target) {
  return {name, [name, &target](const std::string& value) -> Result<void> {
            if (value != "0" && value != "1")
              return Error{Code::invalid_argument,
                           std::string(name) + "=" + value + ": must be 0 or 1"};
            target = value == "1";
            return {};
          }};
}

OwnKey number_key(std::string_view name, uint32_t& target, uint32_t smallest, uint32_t largest) {
  return {name, [=, &target](const std::string& value) -> Result<void> {
            const char* const end = value.data() + value.size();
            uint32_t number = 0;
            const auto [at, error] = std::from_chars(value.data(), end, number);
            if (error != std::errc() || at != end || number < smallest || number > largest)
              return Error{Code::invalid_argument, std::string(name) + "=" + value + ": must be " +
                                                       std::to_string(smallest) + ".." +
                                                       std::to_string(largest)};
            target = number;
            return {};
          }};
}

OwnKey engines_key(uint32_t& engines) { return number_key("engines", engines, 1, kMostEngines); }

Result<void> check_engines(uint32_t engines, bool single_thread) {
  if (engines == 1 || !single_thread) return {};
  return Error{Code::invalid_argument,
               "engines=" + std::to_string(engines) +
                   " needs the locks that single_thread=1 disables: the thread that registers a "
                   "region enters it at all engines"};
}

Result<OpenedPort> open_port(const verbs::DeviceSpec& spec, const std::vector<OwnKey>& own,
                             uint16_t udp_port, const bool& telemetry,
                             const std::vector<std::string>& rails, const uint32_t& engines) {
  const std::string name = spec.port.empty() ? "udp" : spec.port;
  const Result<const PortKind*> found = load_port(name);
  if (!found) return Error{found.error().code, spec.provider + ": " + found.error().message};
  const PortKind* const kind = *found;
  Options options = spec.options;
  if (const Result<void> taken = take_provider_keys(options, own); !taken) return taken.error();
  transport::PortOptions port_options;
  port_options.where = spec.where.empty() ? std::string(kind->default_device) : spec.where;
  port_options.options = verbs::take_layer(options, name);
  if (!kind->further_keys.empty()) {
    const Options further = verbs::take_layer(options, kind->further_keys);
    port_options.options.insert(port_options.options.end(), further.begin(), further.end());
  }
  port_options.wrapped = !options.empty();
  port_options.udp_port = udp_port;
  port_options.telemetry_port = telemetry ? wire::kIntUdpPort : uint16_t{0};
  Result<Ports> ports = open_all(*kind, port_options, rails, engines);
  if (!ports) return ports.error();
  for (size_t i = 0; i < ports->size(); ++i) {
    PortResult wrapped = wrap(std::move((*ports)[i]), for_engine(options, i), own);
    if (!wrapped) return wrapped.error();
    (*ports)[i] = std::move(*wrapped);
  }
  return OpenedPort{std::move(*ports), name};
}

DeviceAttributes describe(const verbs::DeviceSpec& spec, const OpenedPort& opened,
                          const transport::Limits& limits) {
  const transport::Capabilities& c = opened.first().capabilities();
  DeviceAttributes a;
  a.spec = spec.text;
  a.provider = spec.provider;
  a.port = opened.name;
  a.gid = opened.first().address();
  const std::span<const Gid> further = opened.first().further_addresses();
  a.further_gids.assign(further.begin(), further.end());
  a.max_mtu = c.max_mtu;
  a.active_mtu = c.active_mtu;
  a.max_qp = limits.max_qp;
  a.max_qp_wr = limits.max_qp_wr;
  a.max_sge = limits.max_sge;
  a.max_inline = limits.max_inline;
  a.max_cqe = limits.max_cqe;
  a.max_rd_atomic = limits.max_rd_atomic;
  a.max_message = a.max_send = limits.max_message;
  a.node_guid = verbs::node_guid(spec);
  a.interface_index = base::interface_for(a.gid);
  a.max_cq = limits.max_qp;
  a.max_pd = a.max_ah = INT32_MAX;  // numbers and values: nothing is kept of them
  a.max_mr = memory::KeyTable::kMost;
  a.max_mr_size = UINT64_MAX;
  a.has_dmabuf = a.has_iova = a.has_on_demand = a.has_null_region = true;
  a.integrity_bits = c.integrity_bits;
  a.by_reference = c.by_reference;
  a.telemetry = c.telemetry;
  return a;
}

void list_ports(const std::string& provider, uint16_t udp_port, std::vector<DeviceListing>& out,
                LoadModules modules) {
  for (const PortKind* kind : ports()) list_port(provider, kind->name, udp_port, out, modules);
  for (const std::string& name : base::module_names("port"))
    if (find_port(name) == nullptr) list_port(provider, name, udp_port, out, modules);
}

}  // namespace weft::software
