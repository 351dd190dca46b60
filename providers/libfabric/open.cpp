// SPDX-License-Identifier: BSD-3-Clause
// From a device string to an open device: libfabric:PROVIDER[+UTILITY][,node=ADDRESS]
// [,domain=NAME]. And the rows of this provider in the list of what a machine can open.
#include "providers/libfabric/open.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "lib/base/interface.hpp"
#include "providers/libfabric/context.hpp"
#include "providers/libfabric/endpoint_name.hpp"
#include "providers/libfabric/request.hpp"

namespace weft::libfabric {

namespace {

constexpr uint32_t kVersion = FI_VERSION(1, 14);
// FI_MR_BASIC: regions have their own addresses in requests, and keys that the provider chooses.
// The name is marked as deprecated from libfabric 2 on, the bit is not gone.
constexpr int kBasicRegistration = 1 << 0;
constexpr uint64_t kOrder = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW;
constexpr uint32_t kMaxQueue = 4096;
constexpr uint64_t kMaxMessage = uint64_t{1} << 31;

struct Wanted {
  std::string provider;  // as libfabric writes it: "tcp;ofi_rxm"
  std::string node;
  std::string domain;
};

Result<Wanted> read_options(const verbs::DeviceSpec& spec) {
  if (!spec.port.empty())
    return Error{Code::invalid_argument,
                 "provider libfabric has no ports of weft's: name a provider of libfabric, "
                 "libfabric:tcp+ofi_rxm"};
  Wanted wanted{spec.where, {}, {}};
  std::replace(wanted.provider.begin(), wanted.provider.end(), '+', ';');
  if (wanted.provider.empty())
    return Error{Code::invalid_argument,
                 "name a provider of libfabric, libfabric:tcp+ofi_rxm or libfabric:shm; "
                 "fi_info -t FI_EP_RDM lists them"};
  if (wanted.provider.rfind("weft", 0) == 0)
    return Error{Code::invalid_argument, "libfabric:" + spec.where +
                                             " would be weft over libfabric over weft: open the "
                                             "device itself, roce+udp:lo or srd+udp:lo"};
  for (const auto& [key, value] : spec.options) {
    if (key != "node" && key != "domain")
      return Error{Code::invalid_argument, "unknown key \"" + key +
                                               "\"; valid keys: node (an address of this host), "
                                               "domain (of libfabric: the interface or device)"};
    (key == "node" ? wanted.node : wanted.domain) = value;
  }
  return wanted;
}

// Empty hints, as fi_allocinfo() makes them.
Info make_hints(const Library& library) {
  return Info(library.dupinfo(nullptr), {library.freeinfo});
}

// `rights`: FI_ATOMIC or 0.
int find(const Library& library, const Wanted& wanted, uint64_t rights, uint64_t confirmation,
         Info& found) {
  const Info hints = make_hints(library);
  if (hints == nullptr) return -FI_ENOMEM;
  hints->caps = FI_MSG | FI_RMA | rights;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup(wanted.provider.c_str());
  if (!wanted.domain.empty()) hints->domain_attr->name = strdup(wanted.domain.c_str());
  hints->domain_attr->mr_mode = kBasicRegistration;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->cq_data_size = 8;
  hints->tx_attr->msg_order = kOrder;
  hints->tx_attr->op_flags = confirmation;
  fi_info* first = nullptr;
  const char* const node = wanted.node.empty() ? nullptr : wanted.node.c_str();
  const int code = library.getinfo(kVersion, node, nullptr, node != nullptr ? FI_SOURCE : 0,
                                   hints.get(), &first);
  found = Info(first, {library.freeinfo});
  return code;
}

struct Found {
  Info info;
  bool atomics = false, confirms = false;
};

// The most that the provider has: atomics, and completions that say that the peer has the data.
Result<Found> find(const Library& library, const Wanted& wanted) {
  int code = 0;
  const bool crashes = wanted.provider.ends_with("ofi_rxd");  // of 1.17, in an atomic
  for (const bool confirms : {true, false})
    for (const bool atomics : {true, false}) {
      if (atomics && crashes) continue;
      Found found{{nullptr, {library.freeinfo}}, atomics, confirms};
      code = find(library, wanted, atomics ? FI_ATOMIC : 0,
                  confirms ? FI_DELIVERY_COMPLETE : FI_TRANSMIT_COMPLETE, found.info);
      if (code == 0) return found;
    }
  return error_of(code, "no provider \"" + wanted.provider +
                            "\" that has reliable datagrams with RMA, ordered SENDs and WRITEs, 8 "
                            "bytes of immediate data and addresses in keys" +
                            (wanted.node.empty() ? "" : ", at node " + wanted.node) +
                            "; fi_info -p \"" + wanted.provider + "\" -t FI_EP_RDM shows it");
}

// The address that endpoints of the device will have; the number is each one's own.
Result<Gid> address_of(const fi_info& info) {
  if (info.addr_format == FI_ADDR_STR) return shm_address();
  const auto* const begin = static_cast<const std::byte*>(info.src_addr);
  if (begin == nullptr)
    return Error{Code::not_supported,
                 "libfabric does not say which address endpoints will have: "
                 "name one of this host, node=ADDRESS"};
  const Result<EndpointName> name = from_bytes(info.addr_format, {begin, begin + info.src_addrlen});
  if (!name) return name.error();
  return name->gid;
}

DeviceAttributes describe(const Found& found, const verbs::DeviceSpec& spec, const Gid& gid) {
  const fi_info& info = *found.info;
  DeviceAttributes a;
  a.spec = spec.text;
  a.provider = "libfabric";
  a.port = spec.where;
  a.gid = gid;
  a.max_qp = static_cast<uint32_t>(std::min<size_t>(info.domain_attr->ep_cnt, Psn::kMask));
  a.max_qp_wr = kMaxQueue;  // what libfabric does not take waits here
  a.max_sge = static_cast<uint32_t>(
      std::min<size_t>({info.tx_attr->iov_limit, info.rx_attr->iov_limit, size_t{kMaxSge}}));
  a.max_inline = kMaxInline;
  a.max_cqe = 1 << 20;
  a.max_rd_atomic = 128;
  a.max_message = a.max_send = std::min<uint64_t>(info.ep_attr->max_msg_size, kMaxMessage);
  a.interface_index = gid.is_ipv4() ? base::interface_for(gid) : 0;
  a.max_cq = a.max_pd = a.max_mr = 1 << 16;
  a.max_mr_size = UINT64_MAX;
  a.invalidates_regions = a.has_uc = a.has_ud = false;
  a.has_atomics = found.atomics;
  a.confirms = found.confirms;
  return a;
}

}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec) {
  const Result<Wanted> wanted = read_options(spec);
  if (!wanted) return wanted.error();
  const Result<const Library*> library = load_library();
  if (!library) return library.error();
  Result<Found> found = find(**library, *wanted);
  if (!found) return found.error();
  fi_info& info = *found->info;
  const Result<Gid> gid = address_of(info);
  if (!gid) return gid.error();
  fid_fabric* raw_fabric = nullptr;
  if (const int code = (*library)->fabric(info.fabric_attr, &raw_fabric, nullptr); code != 0)
    return error_of(code, "cannot open " + spec.text);
  Owned<fid_fabric> fabric(raw_fabric);
  fid_domain* raw_domain = nullptr;
  if (const int code = fi_domain(raw_fabric, &info, &raw_domain, nullptr); code != 0)
    return error_of(code, "cannot open the domain of " + spec.text);
  Owned<fid_domain> domain(raw_domain);
  fi_av_attr table{};
  table.type = FI_AV_UNSPEC;
  fid_av* raw_addresses = nullptr;
  if (const int code = fi_av_open(raw_domain, &table, &raw_addresses, nullptr); code != 0)
    return error_of(code, "no address vector for " + spec.text);
  Owned<fid_av> addresses(raw_addresses);
  DeviceAttributes attributes = describe(*found, spec, *gid);
  return std::shared_ptr<verbs::Context>(new Context(std::move(found->info), std::move(fabric),
                                                     std::move(domain), std::move(addresses),
                                                     std::move(attributes), found->confirms));
}

// libfabric's providers with reliable datagrams, each once; which of them have all that is needed
// is known when they are asked for it.
void list(std::vector<DeviceListing>& out, LoadModules) {
  const Result<const Library*> library = load_library();
  if (!library) return out.push_back({"libfabric", false, library.error().message});
  const Info hints = make_hints(**library);
  if (hints == nullptr) return;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = kBasicRegistration;
  fi_info* first = nullptr;
  const int code = (*library)->getinfo(kVersion, nullptr, nullptr, 0, hints.get(), &first);
  const Info all(first, {(*library)->freeinfo});
  if (code != 0)
    return out.push_back({"libfabric", false, error_of(code, "no provider of libfabric").message});
  std::set<std::string> seen;
  for (const fi_info* info = first; info != nullptr; info = info->next) {
    std::string name = info->fabric_attr->prov_name;
    if (name.rfind("weft", 0) == 0 || !seen.insert(name).second) continue;
    const Wanted wanted{name, {}, {}};
    const Result<Found> found = find(**library, wanted);
    const Result<Gid> gid = found ? address_of(*found->info) : Result<Gid>(found.error());
    std::replace(name.begin(), name.end(), ';', '+');
    out.push_back({"libfabric:" + name, gid.ok(), gid ? "" : gid.error().message});
  }
}

}  // namespace weft::libfabric
