// SPDX-License-Identifier: BSD-3-Clause
// Opening a `roce` device: the port named in the device string, wrapped in the middleware that its
// keys ask for, in the order they are written.
#include <algorithm>

#include "providers/roce/ports.hpp"
#include "providers/roce/roce_context.hpp"

namespace weft::roce {

namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

// The provider's own keys.
struct OwnOptions {
  bool single_thread = false;
  bool credits = true;
};

Result<bool> parse_flag(const std::string& key, const std::string& value) {
  if (value == "0" || value == "1") return value == "1";
  return Error{Code::invalid_argument, key + "=" + value + ": must be 0 or 1"};
}

Result<OwnOptions> take_own(Options& options) {
  OwnOptions own;
  for (auto it = options.begin(); it != options.end();) {
    bool* const target = it->first == "single_thread" ? &own.single_thread
                         : it->first == "credits"     ? &own.credits
                                                      : nullptr;
    if (target == nullptr) {
      ++it;
      continue;
    }
    const Result<bool> flag = parse_flag(it->first, it->second);
    if (!flag) return flag.error();
    *target = *flag;
    it = options.erase(it);
  }
  return own;
}

// Wraps `port` in what the remaining keys ask for; consecutive keys of one layer belong together.
Result<std::unique_ptr<engine::Port>> wrap(std::unique_ptr<engine::Port> port, Options options) {
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
      return Error{Code::invalid_argument, "unknown key \"" + mine.front().first +
                                               "\"; valid keys: single_thread, credits, " +
                                               middleware_keys() +
                                               ", and the port's own as PORT.key"};
    }
    Result<std::unique_ptr<engine::Port>> wrapped = kind->wrap(std::move(port), mine);
    if (!wrapped) return wrapped.error();
    port = std::move(*wrapped);
  }
  return port;
}

DeviceAttributes describe(const verbs::DeviceSpec& spec, const std::string& port_name,
                          const engine::Port& port, const engine::Limits& limits) {
  const engine::Capabilities& c = port.capabilities();
  DeviceAttributes a;
  a.spec = spec.text;
  a.provider = "roce";
  a.port = port_name;
  a.gid = port.address();
  a.max_mtu = c.max_mtu;
  a.active_mtu = c.active_mtu;
  a.max_qp = limits.max_qp;
  a.max_qp_wr = limits.max_qp_wr;
  a.max_sge = limits.max_sge;
  a.max_inline = limits.max_inline;
  a.max_cqe = limits.max_cqe;
  a.max_rd_atomic = limits.max_rd_atomic;
  a.max_message = limits.max_message;
  a.integrity_bits = c.integrity_bits;
  a.by_reference = c.by_reference;
  return a;
}

}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec) {
  const std::string port_name = spec.port.empty() ? "udp" : spec.port;
  const PortKind* const kind = find_port(port_name);
  if (kind == nullptr)
    return Error{Code::not_found,
                 "provider roce has no port \"" + port_name + "\"; it has " + port_names()};
  Options options = spec.options;
  Result<OwnOptions> own = take_own(options);
  if (!own) return own.error();
  engine::PortOptions port_options{
      spec.where.empty() ? std::string(kind->default_where) : spec.where,
      verbs::take_layer(options, port_name)};
  Result<std::unique_ptr<engine::Port>> port = kind->open(port_options);
  if (!port) return port.error();
  port = wrap(std::move(*port), std::move(options));
  if (!port) return port.error();
  engine::EngineConfig config;
  config.credits = own->credits;
  config.start = base::Clock::process().now();
  DeviceAttributes attributes = describe(spec, port_name, **port, config.limits);
  std::shared_ptr<RoceContext> context(new RoceContext(
      std::move(*port), config, {.single_thread = own->single_thread}, std::move(attributes)));
  if (const Result<void> ok = context->start(); !ok) return ok.error();
  return std::shared_ptr<verbs::Context>(std::move(context));
}

void list(std::vector<DeviceListing>& out) {
  for (const PortKind& kind : ports()) {
    const Result<std::unique_ptr<engine::Port>> port =
        kind.open({std::string(kind.default_where), {}});
    DeviceListing entry;
    entry.spec = "roce+" + std::string(kind.name) + ":" + std::string(kind.default_where);
    entry.usable = port.ok();
    if (!port) entry.reason = port.error().message;
    out.push_back(std::move(entry));
  }
}

}  // namespace weft::roce
