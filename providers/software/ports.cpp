// SPDX-License-Identifier: BSD-3-Clause
// The tables of ports and middleware. To add one: its folder, and a row here.
#include "providers/software/ports.hpp"

#include <algorithm>

#include "providers/port/af_packet/af_packet_port.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "providers/port/middleware/pcap_port.hpp"
#include "providers/port/middleware/tracer_port.hpp"
#include "providers/port/shm/shm_port.hpp"
#ifdef WEFT_HAVE_DPDK
#include "providers/port/dpdk/dpdk_port.hpp"
#endif
#ifdef WEFT_HAVE_AF_XDP
#include "providers/port/af_xdp/af_xdp_port.hpp"
#endif
#include "providers/port/udp/udp_port.hpp"

namespace weft::software {

namespace {

using PortResult = Result<std::unique_ptr<transport::Port>>;

#ifdef WEFT_HAVE_AF_XDP
constexpr auto* kOpenAfXdp = &port::open_af_xdp_port;
constexpr auto* kProbeAfXdp = &port::probe_af_xdp_port;
#else
constexpr Result<void> (*kProbeAfXdp)(const transport::PortOptions&) = nullptr;
constexpr auto* kOpenAfXdp = +[](const transport::PortOptions&) -> PortResult {
  return Error{Code::not_supported,
               "af_xdp: this weft was built without libxdp: apt-get install libxdp-dev libbpf-dev, "
               "and build it again"};
};
#endif

#ifdef WEFT_HAVE_DPDK
constexpr auto* kOpenDpdk = &port::open_dpdk_port;
#else
constexpr auto* kOpenDpdk = +[](const transport::PortOptions&) -> PortResult {
  return Error{Code::not_supported,
               "dpdk: this weft was built without libdpdk: apt-get install libdpdk-dev, and build "
               "it again"};
};
#endif

constexpr PortKind kPorts[] = {
    {"udp", "lo", &port::open_udp_port, true, true},
    {"shm", "default", &port::open_shm_port, false, false},
    {"af_packet", "eth0", &port::open_af_packet_port, true, false},
    {"af_xdp", "eth0", kOpenAfXdp, false, false, kProbeAfXdp},
    {"dpdk", "net_null", kOpenDpdk, false, true},
};

using Options = std::vector<std::pair<std::string, std::string>>;

PortResult wrap_pcap(std::unique_ptr<transport::Port> inner, const Options& options) {
  if (options.size() != 1 || options[0].first != "pcap")
    return Error{Code::invalid_argument, "pcap has one key: pcap=FILE"};
  return middleware::PcapPort::wrap(std::move(inner), options[0].second);
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

constexpr MiddlewareKind kMiddleware[] = {
    {"fault", "fault.loss, fault.dup, fault.reorder, ... (a wrong fault key lists all)",
     &wrap_fault},
    {"pcap", "pcap=FILE", &wrap_pcap, true},
    {"tracer", "tracer=FILE", &wrap_tracer, true},
};

}  // namespace

std::span<const PortKind> ports() { return kPorts; }

const PortKind* find_port(std::string_view name) {
  for (const PortKind& kind : kPorts)
    if (kind.name == name) return &kind;
  return nullptr;
}

std::string port_names() {
  std::string names;
  for (const PortKind& kind : kPorts) names += (names.empty() ? "" : ", ") + std::string(kind.name);
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
