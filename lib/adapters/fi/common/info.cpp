// SPDX-License-Identifier: BSD-3-Clause
// See info.hpp. hints.cpp compares with the caller's hints.
#include "lib/adapters/fi/common/info.hpp"

#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/hints.hpp"
#include "lib/base/socket_gid.hpp"

namespace weft::fi {
namespace {

bool put_address(const Name& name, uint32_t& format, void*& out, size_t& length) noexcept {
  format = format_of(name.gid);
  std::free(out);
  out = std::calloc(1, length_of(format));
  length = out != nullptr ? length_of(format) : 0;
  if (out != nullptr) put_name(name, out);
  return out != nullptr;
}

bool is_unspecified(const Gid& gid) noexcept {
  return gid == Gid{} || gid == Gid::from_ipv4(0, 0, 0, 0);
}

// The address of the device for what a caller names it: a device has one address, and callers may
// name none, loopback or any address of this host.
Gid own_address(const Gid& asked, const Gid& own) noexcept {
  if (is_unspecified(asked) || asked == own) return own;
  if (asked.is_ipv4() && own.is_ipv4() && base::is_loopback(own)) return asked;
  return base::is_loopback(asked) || is_of_this_host(asked) ? own : asked;
}

// Where node and service say the caller is, or its peer; or the hints do.
struct Ends {
  Name source, destination;
  bool has_destination = false;
};

int find_ends(const char* node, const char* service, uint64_t flags, const fi_info* hints,
              const Gid& own, Ends& ends) {
  ends.source = {.gid = own, .port = 0, .queue = {}};
  if (hints != nullptr && hints->src_addr != nullptr) {
    const auto name = name_at(hints->src_addr);
    if (!name) return -FI_ENODATA;
    ends.source = {.gid = own_address(name->gid, own), .port = name->port, .queue = {}};
  }
  if (hints != nullptr && hints->dest_addr != nullptr) {
    const auto name = name_at(hints->dest_addr);
    if (!name) return -FI_ENODATA;
    ends.destination = *name;
    ends.has_destination = true;
  }
  if (node != nullptr || service != nullptr) {
    const bool numeric = (flags & FI_NUMERICHOST) != 0;
    auto name = resolve(node, service, own.is_ipv4() ? AF_INET : AF_UNSPEC, numeric);
    if (!name) return failed(FI_LOG_CORE, "fi_getinfo", name.error()), -FI_ENODATA;
    name->gid = own_address(name->gid, own);
    ends.has_destination = ends.has_destination || (flags & FI_SOURCE) == 0;
    (flags & FI_SOURCE ? ends.source : ends.destination) = *name;
  }
  if (ends.source.gid != own) {
    FI_INFO(&provider(), FI_LOG_CORE, "the source %s is not the device's address %s\n",
            to_string(ends.source.gid).c_str(), to_string(own).c_str());
    return -FI_ENODATA;
  }
  return 0;
}

char* copy_of(const std::string& text) noexcept { return strdup(text.c_str()); }

}  // namespace

Info describe(const OpenDevice& device) {
  Info info(fi_allocinfo());
  if (!info) return info;
  const DeviceAttributes& attributes = device.device.attributes();
  fi_domain_attr& domain = *info->domain_attr;
  domain.threading = FI_THREAD_SAFE;
  domain.control_progress = FI_PROGRESS_AUTO;
  domain.data_progress = FI_PROGRESS_AUTO;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.mr_mode = kRegistrationModes;
  domain.mr_key_size = sizeof(RKey);
  domain.cq_cnt = attributes.max_cq;
  domain.ep_cnt = attributes.max_qp;
  domain.cntr_cnt = attributes.max_cq;
  domain.mr_iov_limit = 1;
  domain.mr_cnt = attributes.max_mr;
  domain.caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
  info->ep_attr->protocol_version = 1;
  info->ep_attr->max_msg_size = attributes.max_send;
  info->addr_format = format_of(attributes.gid);
  describe_endpoint(*info, device);
  domain.name = copy_of(attributes.spec);
  info->fabric_attr->name = copy_of(attributes.provider + "+" + attributes.port);
  // The provider's name and version are added by libfabric.
  if (!domain.name || !info->fabric_attr->name) return {};
  return info;
}

bool set_source(fi_info& info, const Name& name) noexcept {
  return put_address(name, info.addr_format, info.src_addr, info.src_addrlen);
}

bool set_destination(fi_info& info, const Name& name) noexcept {
  return put_address(name, info.addr_format, info.dest_addr, info.dest_addrlen);
}

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
            const fi_info* hints, fi_info** out) noexcept {
  return guarded([&]() -> int {
    const auto device = open_device();
    if (!device) return failed(FI_LOG_CORE, "fi_getinfo", device.error()), -FI_ENODATA;
    Info info = describe(**device);
    if (!info) return -FI_ENOMEM;
    info->fabric_attr->api_version = version;
    if (hints != nullptr) info->handle = hints->handle;
    if (const int code = restrict_to(*info, version, hints)) return code;
    if (flags & FI_PROV_ATTR_ONLY) return *out = info.release(), 0;
    Ends ends;
    const Gid own = (*device)->device.attributes().gid;
    if (const int code = find_ends(node, service, flags, hints, own, ends)) return code;
    if (!set_source(*info, ends.source)) return -FI_ENOMEM;
    if (ends.has_destination && !set_destination(*info, ends.destination)) return -FI_ENOMEM;
    *out = info.release();
    return 0;
  });
}

}  // namespace weft::fi
