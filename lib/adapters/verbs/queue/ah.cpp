// SPDX-License-Identifier: BSD-3-Clause
// Address handles.
#include "lib/adapters/verbs/queue/ah.hpp"

#include <cstring>
#include <memory>
#include <optional>

#include "lib/adapters/verbs/device/port.hpp"
#include "lib/adapters/verbs/live.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

constexpr uint32_t kFlowLabelMask = 0xFFFFF;  // UCX sets all 32 bits

bool is_zero(const ibv_gid& gid) noexcept {
  return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0;
}

// The network header of a received datagram: IPv6, or IPv4 in its last 20 bytes (IBTA A17.4.5.2).
ibv_gid destination_of(const ibv_grh& header) noexcept {
  const bool is_ipv6 = (__builtin_bswap32(header.version_tclass_flow) >> 28) == 6;
  if (is_ipv6) return header.dgid;
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xFF;
  std::memcpy(gid.raw + 12, reinterpret_cast<const char*>(&header) + 36, 4);
  return gid;
}

}  // namespace

namespace {

// The destination by which the device reaches the address. It sends from one address, and its GID
// table lists the interface's others as well: one of the other family in it is this device's, or
// that of one that shares its address. Nothing: there is no way.
std::optional<Gid> destination_on(const Context& context, const ibv_gid& wanted) noexcept {
  Gid gid;
  std::memcpy(gid.bytes.data(), wanted.raw, sizeof wanted.raw);
  const Gid own = context.device.attributes().gid;
  if (gid.is_multicast()) return group_on(context, gid);
  if (gid.is_ipv4() == own.is_ipv4()) return gid;
  if (find_gid(context, wanted) >= 0) return own;
  return {};
}

const char* family_of(bool is_ipv4) noexcept { return is_ipv4 ? "IPv4" : "IPv6"; }

}  // namespace

int check_ah(const char* call, const Context& context, const ibv_ah_attr& attr) noexcept {
  if (attr.port_num != 1) return refuse(EINVAL, call, "port_num %u, and must be 1", attr.port_num);
  //= roce:C-AV-134
  if (attr.is_global == 0) return refuse(EINVAL, call, "is_global is 0: RoCE needs a GRH");
  if (!has_gid(context, attr.grh.sgid_index))
    return refuse(EINVAL, call, "sgid_index %u is not in use", attr.grh.sgid_index);
  if (is_zero(attr.grh.dgid)) return refuse(EINVAL, call, "dgid is 0");
  if (destination_on(context, attr.grh.dgid)) return 0;
  const bool is_ipv4 = context.device.attributes().gid.is_ipv4();
  return refuse(EINVAL, call,
                "dgid is an address of %s, and the device sends from one of %s, whichever "
                "sgid_index is given: the peer's GID has to be of %s (its index 0, if it is weft)",
                family_of(!is_ipv4), family_of(is_ipv4), family_of(is_ipv4));
}

AddressVector path_of(const Context& context, const ibv_ah_attr& attr) noexcept {
  // The interface may have lost the address since check_ah().
  const Gid own = context.device.attributes().gid;
  AddressVector path{.destination = destination_on(context, attr.grh.dgid).value_or(own),
                     .flow_label = attr.grh.flow_label & kFlowLabelMask,
                     .traffic_class = attr.grh.traffic_class};
  // 0 and 1 are common in programs written for InfiniBand, where no router counts.
  if (attr.grh.hop_limit > 1) path.hop_limit = attr.grh.hop_limit;
  // Unknown ones are no limit, as with the kernel's drivers of RoCE.
  const int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(attr.static_rate));
  if (mbps > 0) path.static_rate = Rate{int64_t{mbps} * 1'000'000};
  return path;
}

ibv_ah_attr ah_attr_of(const AddressVector& path, const ibv_ah_attr& rest) noexcept {
  ibv_ah_attr attr = rest;
  if (rest.is_global == 0)  // else it is the one that the program gave
    std::memcpy(attr.grh.dgid.raw, path.destination.bytes.data(), sizeof attr.grh.dgid.raw);
  attr.grh.flow_label = path.flow_label;
  attr.grh.traffic_class = path.traffic_class;
  if (path.hop_limit != 64 || attr.grh.hop_limit == 0) attr.grh.hop_limit = path.hop_limit;
  attr.is_global = 1;
  attr.port_num = 1;
  return attr;
}

Gid group_on(const Context& context, const Gid& group) noexcept {
  const Gid own = context.device.attributes().gid;
  if (!group.is_multicast() || group.is_ipv4() || !own.is_ipv4()) return group;
  uint32_t hash = 0x811C9DC5;  // FNV-1a
  for (const uint8_t byte : group.bytes) hash = (hash ^ byte) * 0x01000193;
  return Gid::from_ipv4(239, static_cast<uint8_t>(hash >> 16), static_cast<uint8_t>(hash >> 8),
                        static_cast<uint8_t>(hash));
}

}  // namespace weft::drop_in

using namespace weft::drop_in;

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  WEFT_FORWARD(pd->context, ibv_create_ah, pd, attr);
  constexpr const char* kCall = "ibv_create_ah";
  Context& context = context_of(pd->context);
  if (check_ah(kCall, context, *attr) != 0) return nullptr;
  static std::atomic<uint32_t> last_handle{0};
  return without_exceptions(kCall, [&] {
    auto ah = std::unique_ptr<Ah>(
        new Ah{.ah = {.context = pd->context, .pd = pd, .handle = ++last_handle},
               .handle = of(pd).domain.address_handle(path_of(context, *attr))});
    adopt(context, ah.get(), Kind::ah);
    of(pd).users.add(1);
    return &ah.release()->ah;
  });
}

int ibv_destroy_ah(ibv_ah* ah) {
  WEFT_FORWARD(ah->context, ibv_destroy_ah, ah);
  if (const int error = check_exists("ibv_destroy_ah", ah, Kind::ah)) return error;
  Context& context = context_of(ah->context);
  of(ah->pd).users.remove();
  forget(ah);
  delete &of(ah);
  release(context);
  return 0;
}

int ibv_init_ah_from_wc(ibv_context* verbs, uint8_t port, ibv_wc* wc, ibv_grh* header,
                        ibv_ah_attr* attr) {
  WEFT_FORWARD(verbs, ibv_init_ah_from_wc, verbs, port, wc, header, attr);
  constexpr const char* kCall = "ibv_init_ah_from_wc";
  *attr = {};
  attr->port_num = port;
  if (port != 1) return refuse(EINVAL, kCall, "port_num %u, and must be 1", port), -1;
  if ((wc->wc_flags & IBV_WC_GRH) == 0)
    return refuse(EINVAL, kCall, "the completion has no network header (IBV_WC_GRH)"), -1;
  const auto* bytes = reinterpret_cast<const std::byte*>(header);
  const weft::AddressVector sender = weft::sender_of(
      std::span<const std::byte, weft::kNetworkHeaderLength>(bytes, weft::kNetworkHeaderLength));
  std::memcpy(attr->grh.dgid.raw, sender.destination.bytes.data(), sizeof attr->grh.dgid.raw);
  const ibv_gid to = destination_of(*header);
  const int index = find_gid(context_of(verbs), to);
  attr->grh.sgid_index = static_cast<uint8_t>(index < 0 ? 0 : index);  // < 0: a multicast group
  attr->grh.hop_limit = 0xFF;
  attr->grh.flow_label = sender.flow_label;
  attr->grh.traffic_class = sender.traffic_class;
  attr->is_global = 1;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* header, uint8_t port) {
  WEFT_FORWARD(pd->context, ibv_create_ah_from_wc, pd, wc, header, port);
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, header, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

const weft::AddressHandle& weft_verbs_ah(ibv_ah* ah) { return of(ah).handle; }
