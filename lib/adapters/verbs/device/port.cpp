// SPDX-License-Identifier: BSD-3-Clause
// The port of a device (there is one, number 1): its state, its GID table and its P_Key table.
#include "lib/adapters/verbs/device/port.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/adapters/verbs/abi/newer.hpp"
#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/real/real_library.hpp"
#include "lib/adapters/verbs/references.hpp"

#undef ibv_query_port

namespace weft::drop_in {
namespace {

constexpr uint8_t kPhysicalLinkUp = 5;  // IBTA PortPhysicalState
constexpr uint8_t kPhysicalDisabled = 3;
constexpr uint16_t kDefaultPkey = 0xFFFF;

// The codes of IBTA table 155 for the speed of a lane in Mb/s, and for the number of lanes.
uint8_t speed_code(uint32_t mbps) noexcept {
  struct Row {
    uint32_t mbps;
    uint8_t code;
  };
  constexpr Row kSpeeds[] = {{100'000, 128}, {50'000, 64}, {25'000, 32}, {14'000, 16},
                             {10'000, 8},    {5'000, 2},   {0, 1}};
  for (const Row& row : kSpeeds)
    if (mbps >= row.mbps) return row.code;
  return 1;
}
uint8_t width_code(uint32_t lanes) noexcept {
  switch (lanes) {
    case 2:
      return 16;
    case 4:
      return 2;
    case 8:
      return 4;
    case 12:
      return 8;
    default:
      return 1;
  }
}

Result<ibv_port_attr> attributes_of(const Context& context) {
  const auto has = context.device.query_port();
  if (!has) return has.error();
  ibv_port_attr port{};
  port.state = static_cast<ibv_port_state>(has->state);
  port.max_mtu = mtu_of(has->max_mtu);
  port.active_mtu = mtu_of(has->active_mtu);
  port.gid_tbl_len = static_cast<int>(kGidTableLength);
  port.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  port.max_msg_sz = static_cast<uint32_t>(std::min<uint64_t>(has->max_message, 1U << 31));
  port.pkey_tbl_len = 1;
  port.max_vl_num = 1;
  port.active_width = width_code(has->width);
  port.active_speed = speed_code(has->speed_mbps / std::max(1U, has->width));
  port.phys_state = has->state == PortState::active ? kPhysicalLinkUp : kPhysicalDisabled;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  return port;
}

int check_port(const char* call, uint32_t port) noexcept {
  return port == 1 ? 0 : refuse(EINVAL, call, "port %u: the device has port 1 only", port);
}

int query_port(ibv_context* verbs, uint8_t port, ibv_port_attr* attr, size_t size) noexcept {
  constexpr const char* kCall = "ibv_query_port";
  if (const int error = check_port(kCall, port)) return error;
  return without_exceptions(kCall, [&] {
    const auto all = attributes_of(context_of(verbs));
    if (!all) return refuse(kCall, all.error());
    std::memset(attr, 0, size);
    std::memcpy(attr, &*all, std::min(size, sizeof *all));
    return 0;
  });
}

bool is_set(const ibv_gid& gid) noexcept {
  return gid.global.subnet_prefix != 0 || gid.global.interface_id != 0;
}

// An unused entry has the GID 0.
using GidTable = std::array<ibv_gid_entry, kGidTableLength>;
GidTable gid_table(const Context& context) noexcept {
  GidTable table{};
  for (uint32_t i = 0; i < kGidTableLength; ++i)
    table[i] = {.gid = {},
                .gid_index = i,
                .port_num = 1,
                .gid_type = IBV_GID_TYPE_ROCE_V2,
                .ndev_ifindex = 0};
  try {
    const auto entries = context.device.query_gid_table();
    if (!entries) return table;
    for (const GidTableEntry& from : *entries) {
      if (from.index >= kGidTableLength) continue;
      ibv_gid_entry& to = table[from.index];
      std::memcpy(to.gid.raw, from.gid.bytes.data(), from.gid.bytes.size());
      to.gid_type = static_cast<uint32_t>(from.type);
      to.ndev_ifindex = from.interface_index;
    }
  } catch (const std::bad_alloc&) {
    refuse(ENOMEM, "the GID table", "out of memory");
  }
  return table;
}

}  // namespace

ibv_mtu mtu_of(uint32_t bytes) noexcept {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  if (bytes >= 512) return IBV_MTU_512;
  return IBV_MTU_256;
}

bool has_gid(const Context& context, uint32_t index) noexcept {
  if (index == 0) return true;  // the device's own address
  return index < kGidTableLength && is_set(gid_table(context)[index].gid);
}

int find_gid(const Context& context, const ibv_gid& gid) noexcept {
  for (const ibv_gid_entry& entry : gid_table(context))
    if (std::memcmp(&entry.gid, &gid, sizeof gid) == 0) return static_cast<int>(entry.gid_index);
  return -1;
}

void set_port_operations(verbs_context& verbs) noexcept { verbs.query_port = query_port; }

}  // namespace weft::drop_in

using namespace weft::drop_in;

// The structure of programs that know no ibv_port_attr::port_cap_flags2.
int ibv_query_port(ibv_context* verbs, uint8_t port, _compat_ibv_port_attr* attr) {
  WEFT_FORWARD(verbs, ibv_query_port, verbs, port, attr);
  return query_port(verbs, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int weft_query_port_speed(ibv_context* verbs, uint32_t port, uint64_t* speed) {
  constexpr const char* kCall = "ibv_query_port_speed";
  if (real_library() != nullptr && real_library()->ibv_query_port_speed != nullptr)
    WEFT_FORWARD(verbs, ibv_query_port_speed, verbs, port, speed);
  if (real_library() != nullptr && is_real(verbs))
    return not_supported(kCall, "the system's library has none");
  if (const int error = check_port(kCall, port)) return error;
  return without_exceptions(kCall, [&] {
    const auto has = context_of(verbs).device.query_port();
    if (!has) return refuse(kCall, has.error());
    *speed = has->speed_mbps / 100;
    return 0;
  });
}

int ibv_query_gid(ibv_context* verbs, uint8_t port, int index, ibv_gid* gid) {
  WEFT_FORWARD(verbs, ibv_query_gid, verbs, port, index, gid);
  constexpr const char* kCall = "ibv_query_gid";
  if (check_port(kCall, port) != 0) return -1;
  if (index < 0 || static_cast<uint32_t>(index) >= kGidTableLength) {
    refuse(EINVAL, kCall, "index %d: the table has %u entries", index, kGidTableLength);
    return -1;
  }
  *gid = gid_table(context_of(verbs))[static_cast<uint32_t>(index)].gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* verbs, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t size) {
  WEFT_FORWARD(verbs, _ibv_query_gid_ex, verbs, port, index, entry, flags, size);
  constexpr const char* kCall = "ibv_query_gid_ex";
  if (flags != 0) return refuse(EOPNOTSUPP, kCall, "flags 0x%x: none are known", flags);
  if (const int error = check_port(kCall, port)) return error;
  if (index >= kGidTableLength)
    return refuse(EINVAL, kCall, "index %u: the table has %u entries", index, kGidTableLength);
  const ibv_gid_entry found = gid_table(context_of(verbs))[index];
  if (!is_set(found.gid)) return errno = ENODATA;  // programs search for the entries in use
  std::memset(entry, 0, size);
  std::memcpy(entry, &found, std::min(size, sizeof found));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* verbs, ibv_gid_entry* entries, size_t capacity,
                             uint32_t flags, size_t size) {
  WEFT_FORWARD(verbs, _ibv_query_gid_table, verbs, entries, capacity, flags, size);
  constexpr const char* kCall = "ibv_query_gid_table";
  if (flags != 0) return -refuse(EOPNOTSUPP, kCall, "flags 0x%x: none are known", flags);
  ssize_t count = 0;
  for (const ibv_gid_entry& found : gid_table(context_of(verbs))) {
    if (!is_set(found.gid)) continue;
    if (static_cast<size_t>(count) == capacity)
      return -refuse(EINVAL, kCall, "max_entries %zu is less than the entries in use", capacity);
    auto* to = reinterpret_cast<char*>(entries) + static_cast<size_t>(count) * size;
    std::memset(to, 0, size);
    std::memcpy(to, &found, std::min(size, sizeof found));
    ++count;
  }
  return count;
}

int ibv_query_pkey(ibv_context* verbs, uint8_t port, int index, __be16* pkey) {
  WEFT_FORWARD(verbs, ibv_query_pkey, verbs, port, index, pkey);
  constexpr const char* kCall = "ibv_query_pkey";
  if (check_port(kCall, port) != 0) return -1;
  if (index != 0) {
    refuse(EINVAL, kCall, "index %d: the table has one entry", index);
    return -1;
  }
  *pkey = kDefaultPkey;  // the same in both byte orders
  return 0;
}

int ibv_get_pkey_index(ibv_context* verbs, uint8_t port, __be16 pkey) {
  WEFT_FORWARD(verbs, ibv_get_pkey_index, verbs, port, pkey);
  constexpr const char* kCall = "ibv_get_pkey_index";
  if (check_port(kCall, port) != 0) return -1;
  if (pkey == kDefaultPkey) return 0;
  refuse(EINVAL, kCall, "P_Key 0x%04x is not in the table: it holds 0xffff only",
         __builtin_bswap16(pkey));
  return -1;
}

extern "C" {
// As in IBVERBS_PRIVATE_34: sysfs's numbers, 0 for IB or RoCE v1 and 1 for RoCE v2.
int ibv_query_gid_type(ibv_context* verbs, uint8_t port, unsigned index, int* type) {
  constexpr const char* kCall = "ibv_query_gid_type";
  if (real_library() != nullptr && real_library()->ibv_query_gid_type != nullptr)
    WEFT_FORWARD(verbs, ibv_query_gid_type, verbs, port, index, type);
  if (check_port(kCall, port) != 0) return -1;
  if (!has_gid(context_of(verbs), index)) {
    refuse(EINVAL, kCall, "entry %u is unused", index);
    return -1;
  }
  *type = 1;
  return 0;
}
// By that name in rdma-core 65, whose pyverbs calls it.
int weft_query_gid_type_65(ibv_context* verbs, uint8_t port, unsigned index, int* type) {
  return ibv_query_gid_type(verbs, port, index, type);
}
__asm__(".symver weft_query_gid_type_65,ibv_query_gid_type@IBVERBS_PRIVATE_65");
}
